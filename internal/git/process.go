package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// job is one process of git's.
type job struct {
	args []string // the first one names it
	// dir is where it runs: the repository, or nothing.
	dir      string
	settings []setting
	env      []string
	in       io.Reader
	// drain: in is read to its end, also where git does not want it.
	drain bool
	// out reads what git writes, to the end; nil: it is discarded. It may touch what it was given until run returns.
	out func(io.Reader) error
	// told hears each line that git says on the way, as lastLine has them; nil: they are dropped.
	told func(line string)
	// hold are locks that git and its children keep as long as they live.
	hold []*os.File
	// file is the largest that it may write; 0: smallFile.
	file int64
}

// ExitError is git's own failure.
type ExitError struct {
	Command string
	// Text is the last thing that git said, one line for who asked, and for no log.
	Text string
	err  error
}

func (e *ExitError) Error() string { return "git " + e.Command + ": " + e.err.Error() }

func (e *ExitError) Unwrap() error { return e.err }

// run runs git to its end. It returns when no process of the job is left and nothing of it touches in or
// what out was given. The error is the first of these: in's, why the turn ended, git's, out's.
func (g *Git) run(t turn, j job) error {
	if err := context.Cause(t.ctx); err != nil {
		return fmt.Errorf("git %s: %w", j.args[0], err)
	}
	p, err := g.start(t.ctx, j)
	if err != nil {
		return fmt.Errorf("git %s: %w", j.args[0], err)
	}
	stop := context.AfterFunc(t.ctx, p.terminate)
	go func() {
		p.await()
		if !stop() {
			<-p.terminated
		}
		p.reap()
	}()
	fed := make(chan error, 1)
	go func() {
		err := p.feed(t.ctx, j)
		if err != nil {
			t.cancel(err)
		}
		if t.ctx.Err() != nil {
			<-p.gone // git must not take an end that came too early for the end
		}
		_ = p.in.Close()
		fed <- err
	}()
	said := make(chan string, 1)
	go func() { said <- lastLine(p.err, j.told) }()

	out := j.out
	if out == nil {
		out = func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}
	}
	failed := out(p.out)
	if failed != nil {
		t.cancel(failed)
	}
	<-p.gone
	_ = p.out.Close()
	text := <-said
	_ = p.err.Close()
	if err := <-fed; err != nil {
		return err
	}
	if p.failed == nil {
		return failed
	}
	// A git that ended by itself says why; what out made of that is no better.
	cause := context.Cause(t.ctx)
	if cause == nil || errors.Is(cause, failed) && p.cmd.ProcessState.Exited() {
		return &ExitError{Command: j.args[0], Text: g.scrub(text), err: p.failed}
	}
	return fmt.Errorf("git %s: %w", j.args[0], cause)
}

// process is a git that runs.
type process struct {
	cmd          *exec.Cmd
	in, out, err *os.File
	grace        time.Duration
	ended        chan struct{} // its first process has ended, and its number is still its own
	terminated   chan struct{} // terminate is done
	gone         chan struct{} // nothing is left of it
	collected    bool
	failed       error
}

func (g *Git) start(ctx context.Context, j job) (*process, error) {
	var theirs, ours [3]*os.File
	closeAll := func(list [3]*os.File) {
		for _, f := range list {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	defer func() { closeAll(theirs) }()
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return nil, err
		}
		if theirs[i], ours[i] = w, r; i == 0 {
			theirs[i], ours[i] = r, w
		}
	}
	// Not ctx: a process that must end is asked first, and its group ends with it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), g.program, j.args...) //nolint:gosec // no argument is a caller's word
	cmd.Env = environment(g.execPath, append(g.settings(), j.settings...), j.env...)
	if cmd.Dir = j.dir; j.dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.ExtraFiles = j.hold
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		closeAll(ours)
		return nil, err
	}
	p := &process{
		cmd: cmd, in: ours[0], out: ours[1], err: ours[2], grace: g.cfg.grace,
		ended: make(chan struct{}), terminated: make(chan struct{}), gone: make(chan struct{}),
	}
	// Git reads before it starts a child, and nothing has been written yet: the
	// children have the limits too.
	if err := limit(cmd.Process.Pid, bounds{
		memory: g.cfg.Memory, file: cmp.Or(j.file, smallFile), seconds: int64(g.cfg.Timeout/time.Second) + 1,
	}); err != nil {
		killGroup(cmd)
		p.await()
		p.reap()
		closeAll(ours)
		return nil, fmt.Errorf("setting its limits: %w", err)
	}
	return p, nil
}

// smallFile is what a process may write that brings no objects.
const smallFile = 64 << 20

// terminate asks the group to end, so that git takes its locks and temporary
// files away, and kills it when it does not.
func (p *process) terminate() {
	defer close(p.terminated)
	endGroup(p.cmd)
	late := time.NewTimer(p.grace)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		killGroup(p.cmd)
	}
}

// await waits for the first process of the group to end.
func (p *process) await() {
	p.collected, p.failed = awaitEnd(p.cmd)
	close(p.ended)
}

// reap ends what the first process left of its group, and collects it.
func (p *process) reap() {
	killGroup(p.cmd)
	if !p.collected {
		p.failed = p.cmd.Wait()
	}
	reapGroup(p.cmd)
	close(p.gone)
}

// feed gives git what it is to read. A git that reads no more is no error.
func (p *process) feed(ctx context.Context, j job) error {
	if j.in == nil {
		return nil
	}
	buf := make([]byte, 64<<10)
	heard := true
	for ctx.Err() == nil && (heard || j.drain) {
		n, err := j.in.Read(buf)
		if n > 0 && heard {
			_, broken := p.in.Write(buf[:n])
			heard = broken == nil
		}
		if err == io.EOF { // a wrapped one is a failure
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mostLine is the longest line of what git says. A longer one is several.
const mostLine = 1024

// lastLine reads what git says to the end, and keeps the last line. A line that git writes
// over is one as well.
func lastLine(r io.Reader, each func(line string)) (last string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 2*mostLine)
	lines.Split(anyLine)
	for lines.Scan() {
		line := strings.TrimSpace(strings.ToValidUTF8(lines.Text(), ""))
		if line == "" {
			continue
		}
		if last = line; each != nil {
			each(line)
		}
	}
	return last
}

func anyLine(data []byte, over bool) (int, []byte, error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 && i < mostLine {
		return i + 1, data[:i], nil
	}
	if len(data) >= mostLine || over && len(data) > 0 {
		n := min(len(data), mostLine)
		return n, data[:n], nil
	}
	return 0, nil, nil
}

// scrub takes this machine's paths out of git's words.
func (g *Git) scrub(s string) string { return strings.ReplaceAll(s, g.cfg.Dir, "") }

// output runs git in a repository, and returns its answer, of at most some bytes.
func (g *Git) output(t turn, r repository, in string, most int, args ...string) (string, error) {
	var text []byte
	err := g.run(t, job{args: args, dir: string(r), env: r.dirEnv(), in: strings.NewReader(in), out: func(o io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(o, int64(most)+1))
		if err == nil && len(text) > most {
			err = errors.New("it said more than it should")
		}
		return err
	}})
	return string(text), err
}
