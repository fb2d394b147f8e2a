// Package tasks performs actions of kind task: it creates the task's branch, takes a task back from
// a silent holder, notifies followers, and ends the task. The events of the task's people and agent
// are already on the log.
package tasks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Ledger is where the events of a task are written.
type Ledger interface {
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
}

// Brancher makes the branches of tasks.
type Brancher interface {
	// Open makes a task's branch at the head of the one that it begins at, or finds the
	// one that it has made for this task before, and returns the object it began at. A
	// *fault.Error ends the task with its code and its sentence; *call.Deferral and
	// *fault.RetryAfter say when to come back. Whatever else goes wrong is tried again.
	Open(ctx context.Context, st *ledger.State, order schemas.TaskOrder, branch string) (base string, err error)
}

// Leases is where it stands when the holder of a task was last heard of: a record for
// each task, see task.LeaseKey.
type Leases interface {
	// Get is the newest record of a key, or fault.ErrNotFound.
	Get(ctx context.Context, key string) (schemas.Record, error)
}

// Config is what Tasks needs besides its collaborators.
type Config struct {
	Leases Leases
	// Lease is how long a pool's agent may be silent before it loses its task; default
	// 2 min.
	Lease time.Duration
	// Announce publishes a status to current subscribers.
	Announce func(subject string, data []byte) error
	// Barrier waits until what was appended is as durable as promised.
	Barrier func(ctx context.Context) error
	Now     func() time.Time // default time.Now
}

// Tasks performs kind task. It is safe for concurrent use.
type Tasks struct {
	ledger   Ledger
	branches Brancher
	recorder *settle.Recorder
	cfg      Config
	holders  *holders
}

// New returns an executor of tasks.
func New(l Ledger, b Brancher, r *settle.Recorder, cfg Config) *Tasks {
	cfg.Lease = cmp.Or(cfg.Lease, 2*time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Tasks{ledger: l, branches: b, recorder: r, cfg: cfg, holders: newHolders(cfg.Lease)}
}

// work is one look at a task. It belongs to one goroutine.
type work struct {
	*Tasks

	st        *ledger.State
	task      *task.State
	announced int // how many of the events are folded into task and announced
}

// Execute checks a task and does the due work, until it has ended or must wait for an event or a
// time.
func (p *Tasks) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	order, err := payload(st)
	if err != nil {
		return settle.Outcome{}, err
	}
	if err := p.recorder.Recall(ctx, st); err != nil {
		return settle.Outcome{}, err
	}
	w := &work{Tasks: p, st: st, task: task.Begin(st.Action, order)}
	for {
		if err := w.announceNew(ctx); err != nil {
			return settle.Outcome{}, err
		}
		if w.task.Over() {
			return w.end(ctx)
		}
		if stop.Requested() && !w.task.Canceled { // the request is on the log by now, and was not when it was read
			return settle.Outcome{}, fault.ErrFenced
		}
		if err := w.step(ctx); err != nil {
			return settle.Outcome{}, err
		}
	}
}

// step does the next thing about a task that goes on. Its error says, in the end,
// until when there is nothing more to do.
func (w *work) step(ctx context.Context) error {
	switch {
	case w.task.Canceled:
		return w.close(ctx, schemas.TaskStatusCanceled, schemas.Canceled, "the task was canceled; its branch keeps the pushed commits")
	case w.untilDeadline() <= 0:
		return w.close(ctx, schemas.TaskStatusExpired, schemas.DeadlineExceeded, "the task's time is up")
	case !w.task.Opened:
		return w.open(ctx)
	case w.task.Leased:
		return w.checkHolder(ctx)
	case w.task.Spent():
		return w.close(ctx, schemas.TaskStatusFailed, schemas.TaskFailed,
			"the task was leased "+strconv.Itoa(schemas.MaxTaskLeases)+" times without a report and is not leased again; its branch remains, file another task that begins at it")
	default:
		return w.deferral(longest, schemas.WaitAgent)
	}
}

// longest is how long a task rests at most.
const longest = 24 * time.Hour

func (w *work) untilDeadline() time.Duration { return w.st.Action.Deadline.Sub(w.cfg.Now()) }

// deferral defers the task, at the latest until its deadline. Only the first deferral is written to the
// log: it already shows what a task waits for, and every writer would have to read more events.
func (w *work) deferral(d time.Duration, why string) error {
	return &call.Deferral{
		Until: w.cfg.Now().Add(min(d, w.untilDeadline())), Reason: why,
		Quiet: slices.ContainsFunc(w.st.Events, func(ev schemas.Event) bool {
			return ev.Waiting != nil && ev.Waiting.For == why
		}),
	}
}

// say writes a status event, with the resulting state.
func (w *work) say(ctx context.Context, e schemas.TaskEvent) error {
	return w.ledger.Append(ctx, w.st, schemas.Event{Type: schemas.EventStatus, Task: &e})
}

// close ends the task by a decision of Weir, which is on the log before the end is announced. A
// report that arrives first is the end instead; a later one is ignored.
func (w *work) close(ctx context.Context, status schemas.TaskStatus, code schemas.Code, message string) error {
	return w.say(ctx, schemas.TaskEvent{What: schemas.TaskClosed, Status: status, Code: code, Message: message})
}

func payload(st *ledger.State) (schemas.TaskOrder, error) {
	o, err := call.Payload[schemas.TaskOrder](st, "an order of a task")
	if err != nil {
		return o, err
	}
	if o.Repo == "" {
		return o, &fault.Terminal{Code: schemas.Poison, Reason: "the payload names no repository"}
	}
	return o, nil
}

// again is the pause after a branch could not be created.
const again = 5 * time.Second

// open makes the task's branch. Its agent may have begun already, and waits.
func (w *work) open(ctx context.Context) error {
	base, err := w.branches.Open(ctx, w.st, w.task.Order, w.task.Branch)
	if err == nil {
		return w.say(ctx, schemas.TaskEvent{What: schemas.TaskOpened, Status: w.task.Status, Base: base})
	}
	var rest *call.Deferral
	var later *fault.RetryAfter
	var public *fault.Error
	switch {
	case ctx.Err() != nil:
		return err
	case w.st.CancelRequested: // it has come meanwhile
		return nil
	case errors.As(err, &rest), errors.As(err, &later), errors.Is(err, fault.ErrFenced):
		return err
	case errors.As(err, &public):
		return w.close(ctx, schemas.TaskStatusFailed, public.Code, public.Message)
	default:
		return w.deferral(again, schemas.WaitDelay)
	}
}
