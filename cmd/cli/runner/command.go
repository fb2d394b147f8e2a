package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"weir/schemas"
)

// ending is how a command ended.
type ending struct {
	exit int // its status; -1 where a signal ended it
	took time.Duration
	// killed is why the runner ended it: errLate, ErrOver or the runner's own end; nil: it did not.
	killed error
}

// errLate ends a command at the deadline of its task.
var errLate = errors.New("the deadline has passed")

// missing reports whether the shell's status says that there is no such command, or
// none that may be run. One that took its time had begun: it is of something within it.
func (e ending) missing() bool {
	return e.killed == nil && e.took < time.Second && (e.exit == 126 || e.exit == 127)
}

func (e ending) sentence() string {
	if e.exit < 0 {
		return "the command was ended by a signal, and had not said how the task ended"
	}
	return fmt.Sprintf("the command ended with exit status %d, and had not said how the task ended", e.exit)
}

// run starts the command in a directory of its own and waits for its end. Meanwhile it keeps the lease, and ends
// the command when there is no more reason to run: the deadline, the runner's own end, and an end of the task that
// the command does not follow by itself.
func (r *runner) run(ctx context.Context, t *schemas.LeasedTask, dir string) (ending, error) {
	if err := os.Mkdir(dir, 0o700); err != nil { // one that is there is not this lease's
		return ending{}, err
	}
	log, err := os.OpenFile(dir+".log", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return ending{}, err
	}
	defer log.Close()
	out := &capped{to: log, left: r.cfg.Output}
	cmd := exec.Command("sh", "-c", r.cfg.Command) //nolint:gosec,noctx // what the operator says is what it runs, and end ends it
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, r.environ(t, dir), out, out
	cmd.WaitDelay = time.Second // what it has left running may hold its output open
	apart(cmd)
	runtime.LockOSThread() // the command ends with the thread that has started it, see apart
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return ending{}, err
	}
	began, done := time.Now(), make(chan struct{})
	life, late := context.WithTimeoutCause(ctx, time.Duration(t.Remaining)*time.Millisecond, errLate)
	defer late()
	life, over := context.WithCancelCause(life)
	var keeping sync.WaitGroup
	keeping.Go(func() { r.keep(life, t, over) })
	killed := make(chan error, 1)
	go func() { killed <- r.end(life, cmd, done) }()
	err = cmd.Wait()
	close(done)
	e := ending{killed: <-killed}
	over(nil)
	keeping.Wait()
	kill(cmd) // whatever is left of its group
	e.exit, e.took = cmd.ProcessState.ExitCode(), time.Since(began)
	if _, own := errors.AsType[*exec.ExitError](err); own || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return e, err
}

// environ is the environment of the command: of the runner's own, only the variables that
// the configuration names.
func (r *runner) environ(t *schemas.LeasedTask, dir string) []string {
	return append(append([]string(nil), r.cfg.Environ...),
		"HOME="+dir, "PWD="+dir, "GIT_TERMINAL_PROMPT=0",
		"MINION_API_BASE_URL="+r.cfg.BaseURL, "MINION_API_TOKEN="+t.Token,
		"WEIR_TASK_ID="+t.ID, "WEIR_TASK_MODEL="+t.Model, "WEIR_TASK_DEADLINE="+t.Deadline.UTC().Format(time.RFC3339),
	)
}

// keep keeps the lease until ctx ends. When the task is over for its holder, the command has the grace to end by
// itself. A server that does not answer says nothing about the lease, and is not waited for longer than until the
// next time.
func (r *runner) keep(ctx context.Context, t *schemas.LeasedTask, over context.CancelCauseFunc) {
	every := max(time.Duration(t.Timeout)*time.Millisecond/3, 50*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, every)
		err := r.weir.Keep(one, t.Token)
		cancel()
		if errors.Is(err, ErrOver) {
			r.wait(ctx, r.cfg.Grace)
			over(ErrOver)
			return
		}
	}
}

// end asks the command's group to end when ctx does, and ends it if it does not. It returns why, unless the
// command was done before.
func (r *runner) end(ctx context.Context, cmd *exec.Cmd, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	ask(cmd)
	grace := time.NewTimer(r.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		kill(cmd)
	}
	return context.Cause(ctx)
}

// capped writes up to a size and forgets the rest.
type capped struct {
	mu   sync.Mutex
	to   io.Writer
	left int64
}

// cutMark stands where output was left out.
const cutMark = "\n[weir: the output was cut here]\n"

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := p[:min(int64(len(p)), c.left)]
	if len(keep) > 0 {
		if _, err := c.to.Write(keep); err != nil {
			c.left = 0 // a full disk is no reason to end the command
		}
		c.left -= min(int64(len(keep)), c.left)
		if c.left == 0 {
			_, _ = io.WriteString(c.to, cutMark)
		}
	}
	return len(p), nil
}

const (
	tailLines = 5
	tailBytes = 4 << 10
)

// tail is the end of a file of text.
func tail(name string) []string {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	data := make([]byte, min(info.Size(), tailBytes))
	n, err := f.ReadAt(data, max(0, info.Size()-tailBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	lines := strings.Split(string(bytes.TrimSpace(data[:n])), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}
