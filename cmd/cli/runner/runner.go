// Package runner starts a command for each task that it leases, and ends it when
// the task is over. It is a client of a running Weir, as any number of others on any
// machines may be.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/client"
	"weir/schemas"
)

// Config of Run. A field without a default says so.
type Config struct {
	// Client has the runner's own token; required.
	Client *client.Client
	// Pool is the only pool to lease from; empty: all that the token has.
	Pool string
	// Command is run by the system's shell; required.
	Command string
	// Proxy is the host:port of Weir's forward proxy; empty: the command gets no proxy.
	Proxy string
	// CompleteOnSuccess completes a task whose command ends with status 0 and has not reported.
	CompleteOnSuccess bool
	// Sandbox is where the commands run; nil: in none.
	Sandbox *Sandbox
	// Dir holds a directory for each task; required.
	Dir string
	// Environ is what the command finds besides its task, as NAME=value.
	Environ []string
	// Slots is how many tasks are worked on at a time; required.
	Slots int
	// Output is how much of a command's output is kept, in bytes; required.
	Output int64
	// Keep leaves the directories and outputs of commands that did well as well.
	Keep bool
	// Grace is the time between asking a command to end and ending it; required.
	Grace time.Duration
	// Once ends the runner when there is nothing more to lease.
	Once bool
	// Pause is the time before a server is asked again that did not answer; default 2 s.
	Pause time.Duration
	// Notify receives the notices, from several goroutines; required.
	Notify func(Notice)
}

// Notice is one thing that happened.
type Notice struct {
	// What is started, ended, late, lost, released or trouble.
	What   string `json:"event"`
	TaskID string `json:"task_id,omitempty"`
	Lease  int    `json:"lease,omitempty"`
	// Exit is the command's exit status, of ended; -1 where a signal ended it.
	Exit *int `json:"exit,omitempty"`
	// Reported: the agent said itself how its task ended.
	Reported bool `json:"reported,omitempty"`
	// Completed: the runner completed the task, as the command ended with status 0.
	Completed bool `json:"completed,omitempty"`
	// Output is the file with the command's output, and Tail the last lines, without the task's token,
	// of a command that did not do well.
	Output string   `json:"output,omitempty"`
	Tail   []string `json:"tail,omitempty"`
	// Error is what went wrong between the runner and the server.
	Error string `json:"error,omitempty"`
}

// The notices.
const (
	Started  = "started"
	Ended    = "ended"
	Late     = "late" // the runner ended it at the task's deadline
	Lost     = "lost"
	Released = "released"
	Trouble  = "trouble"
)

type runner struct{ cfg Config }

// Run leases tasks until ctx ends, or with Once until there are none. When ctx ends, it
// stops the running commands and gives their tasks back. It returns the error of the first
// request alone: it waits for a server that has answered before.
func Run(ctx context.Context, cfg Config) error {
	cfg.Pause = cmp.Or(cfg.Pause, 2*time.Second)
	r := &runner{cfg}
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return err
	}
	first, err := r.lease(ctx)
	if err != nil {
		return err
	}
	var slots sync.WaitGroup
	slots.Go(func() { r.slot(ctx, first) })
	for range r.cfg.Slots - 1 {
		slots.Go(func() { r.slot(ctx, nil) })
	}
	slots.Wait()
	return nil
}

// slot works on one task after the other.
func (r *runner) slot(ctx context.Context, taken *schemas.LeasedTask) {
	pause := r.cfg.Pause
	for ctx.Err() == nil || taken != nil {
		if taken == nil {
			var err error
			taken, err = r.lease(ctx)
			if err != nil {
				r.trouble(ctx, err)
				continue
			}
		}
		switch {
		case taken == nil && r.cfg.Once:
			return
		case taken == nil:
		case r.work(ctx, taken):
			pause = r.cfg.Pause
		default: // what keeps one command from beginning keeps the next as well
			r.wait(ctx, pause)
			pause = min(2*pause, longPause)
		}
		taken = nil
	}
}

// longPause is the longest time between two tasks whose commands could not begin.
const longPause = 5 * time.Minute

// trouble waits a little for a server that does not answer.
func (r *runner) trouble(ctx context.Context, err error) {
	if ctx.Err() == nil {
		r.cfg.Notify(Notice{What: Trouble, Error: err.Error()})
		r.wait(ctx, r.cfg.Pause)
	}
}

func (r *runner) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// work runs the command for one task and reports its result. It returns whether the
// command could begin: if not, that is the runner's fault, and the task goes back.
func (r *runner) work(ctx context.Context, t *schemas.LeasedTask) (began bool) {
	name := filepath.Join(r.cfg.Dir, fmt.Sprintf("%s-%d", t.ID, t.Lease))
	note := Notice{TaskID: t.ID, Lease: t.Lease, Output: name + ".log"}
	if ctx.Err() == nil {
		r.cfg.Notify(Notice{What: Started, TaskID: t.ID, Lease: t.Lease})
	}
	end, out, err := r.run(ctx, t, name)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), wrapUp)
	defer cancel()
	if err != nil || end.missing() {
		note.What, note.Error = Released, "the shell cannot find or run the command"
		if err != nil {
			note.Error, note.Output = "the command could not begin: "+err.Error(), ""
		}
		r.report(last, t, &note, schemas.RouteTaskRelease, nil)
		if err == nil {
			note.Tail = out.lines()
		}
		r.cfg.Notify(note)
		return false
	}
	if !errors.Is(end.killed, errOver) {
		r.flush(last, t, out)
	}
	r.conclude(ctx, last, t, end, out, &note)
	if end.exit == 0 && (note.Reported || note.Completed) && !r.cfg.Keep {
		note.Output = ""
		r.tidy(name)
	} else {
		note.Tail = out.lines()
	}
	r.cfg.Notify(note)
	return true
}

// conclude says to the server how a command ended, where that is for the runner to say.
func (r *runner) conclude(ctx, last context.Context, t *schemas.LeasedTask, end ending, out *output, note *Notice) {
	note.What, note.Exit = Ended, &end.exit
	switch {
	case errors.Is(end.killed, errLate): // the server has ended the task by itself
		note.What = Late
	case ctx.Err() != nil && end.killed != nil && !errors.Is(end.killed, errOver):
		note.What, note.Exit = Released, nil
		r.report(last, t, note, schemas.RouteTaskRelease, nil)
	case r.cfg.CompleteOnSuccess && end.exit == 0 && end.killed == nil:
		done := cmp.Or(out.summary(), "the command ended with exit status 0")
		note.Completed = r.report(last, t, note, schemas.RouteAgentComplete, schemas.CompleteRequest{Description: done})
	default: // none of the agent's making
		r.report(last, t, note, schemas.RouteAgentFail, schemas.FailRequest{Reason: new(schemas.ReasonTechnicalIssues), Description: end.sentence()})
	}
}

// wrapUp bounds the last words about a task.
const wrapUp = 30 * time.Second

// report says how the task ended, or that the runner releases it, unless its agent has said how it ended. It returns
// whether the server has stored that. A release is sent once: without it, the lease runs out.
func (r *runner) report(ctx context.Context, t *schemas.LeasedTask, note *Notice, route string, how any) bool {
	for {
		err := r.say(ctx, t, route, how)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errReported):
			note.What, note.Reported = Ended, true
			return false
		case errors.Is(err, errOver):
			note.What = Lost
			return false
		}
		if note.Error = err.Error(); route == schemas.RouteTaskRelease {
			return false
		}
		r.trouble(ctx, err)
		if ctx.Err() != nil { // the lease runs out, and another runner has the task
			return false
		}
		note.Error = ""
	}
}

func (r *runner) tidy(name string) {
	_ = os.RemoveAll(name) // what cannot be removed is left for a person
	_ = os.Remove(name + ".log")
}

// How long a request may take, and how long the server may hold one for a task.
const (
	answerWait = 10 * time.Second
	leaseWait  = 20 * time.Second
)

var (
	// errOver says that a token stands for no task any more.
	errOver = errors.New("the task is over for this holder")
	// errReported says that the holder of a token has said how its task ended.
	errReported = errors.New("the agent has reported how the task ended")
	// errFull says that a task takes no more output.
	errFull = errors.New("the task has as much output as it may have")
)

// lease takes a task, or nothing where there is none within a while.
func (r *runner) lease(ctx context.Context) (*schemas.LeasedTask, error) {
	wait := leaseWait
	if r.cfg.Once {
		wait = 0
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerWait)
	defer cancel()
	ask := schemas.LeaseRequest{Pool: r.cfg.Pool, WaitMS: int(wait.Milliseconds())}
	t, err := client.Post[*schemas.LeasedTask](ctx, r.cfg.Client, schemas.RouteTaskLease, ask)
	if err != nil {
		return nil, err // and not what could be read of the answer
	}
	if t != nil && !schemas.ValidID(t.ID) { // it becomes the name of a directory
		return nil, errors.New("the server's answer names a task that cannot be one")
	}
	return t, nil
}

// say sends something about a task with the token of its lease. errReported: the agent has said already
// how the task ended. errOver: the task is over for another reason, or is another's. errFull: it takes no
// more output.
func (r *runner) say(ctx context.Context, t *schemas.LeasedTask, route string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	err := r.cfg.Client.As(t.Token).Call(ctx, http.MethodPost, route, nil, body, nil)
	no, ok := errors.AsType[*client.Error](err)
	if !ok || no.Body == nil { // not Weir's answer
		return err
	}
	why := no.Problem // of a task that does not run, the reason is its status
	reported := why.Reason == string(schemas.TaskStatusCompleted) || why.Reason == string(schemas.TaskStatusFailed)
	switch {
	case why.Code == schemas.TaskNotRunning && reported:
		return errReported
	case why.Code == schemas.TaskNotRunning, no.Status == http.StatusUnauthorized:
		return errOver
	case why.Code == schemas.Conflict && route == schemas.RouteAgentOutput:
		return errFull
	default:
		return err
	}
}
