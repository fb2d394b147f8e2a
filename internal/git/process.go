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
	args     []string // the first one names it
	settings []setting
	env      []string
	in       *source // what git reads; nil: nothing
	// out reads what git writes, to the end; nil: it is discarded. It may touch what it was given until run returns.
	out func(io.Reader) error
	// onLine receives each line of git's standard error, as lastLine has them; nil: they are dropped.
	onLine func(line string)
	// sole: nothing runs in the session after its failure, which ends that.
	sole bool
	// hold are locks that git and its children keep as long as they live.
	hold []*os.File
	// file is the largest that it may write; 0: smallFile.
	file int64
	// heap is the memory that it may allocate, without the packs that it maps; 0: Config.Memory.
	heap int64
}

// source remembers why its reader failed.
type source struct {
	io.Reader
	failed error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		s.failed = err
	}
	return n, err
}

func text(s string) *source { return &source{Reader: strings.NewReader(s)} }

// ExitError is git's own failure.
type ExitError struct {
	Command string
	// Text is the last line of git's standard error. It is for the client, and for no log.
	Text string
	err  error
}

func (e *ExitError) Error() string { return "git " + e.Command + ": " + e.err.Error() }

func (e *ExitError) Unwrap() error { return e.err }

// run runs git to its end. It returns when no process of the job is left and nothing of it touches in or
// what out was given. The error is the first of these: in's, why the session ended, git's, out's.
func (s session) run(j job) error {
	name := "git " + j.args[0]
	if err := context.Cause(s.ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := s.start(j)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fed, said := make(chan error, 1), make(chan string, 1)
	go func() { fed <- s.feed(p.in, j.in) }()
	go func() { said <- lastLine(p.err, j.onLine) }()
	failed := j.read(p.out)
	if failed != nil {
		s.cancel(failed)
	}
	<-p.over
	last := <-said
	err = p.cmd.Wait() // ends the input as well
	reapGroup(p.cmd)
	var gone *ExitError
	if j.sole && !p.cmd.ProcessState.Success() && context.Cause(s.ctx) == nil {
		gone = &ExitError{Command: j.args[0], Text: s.scrub(last), err: err}
		s.cancel(gone) // its input may be waiting for a server
	}
	if err := <-fed; err != nil && gone == nil {
		return err
	}
	if p.cmd.ProcessState.Success() { // whatever has ended meanwhile
		return failed
	}
	// A git that ended by itself says why; what out made of that is no better.
	cause := context.Cause(s.ctx)
	if gone != nil || cause == nil || errors.Is(cause, failed) && p.cmd.ProcessState.Exited() {
		return &ExitError{Command: j.args[0], Text: s.scrub(last), err: err}
	}
	return fmt.Errorf("%s: %w", name, cause)
}

func (j job) read(r io.Reader) error {
	if j.out != nil {
		return j.out(r)
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// process is a git that runs.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err io.Reader
	over     chan struct{} // it may be collected
}

// smallFile is what a process may write that brings no objects.
const smallFile = 64 << 20

func (s session) start(j job) (*process, error) {
	cmd := exec.CommandContext(s.ctx, s.program, j.args...) //nolint:gosec // no argument is a caller's word
	env := []string{"GIT_ALLOW_PROTOCOL=none"}
	if s.repository != "" {
		env = append(env, "GIT_DIR="+string(s.repository))
	}
	cmd.Env = environment(append(s.settings(), j.settings...), append(env, j.env...)...)
	cmd.Dir = cmp.Or(string(s.repository), "/")
	cmd.ExtraFiles = j.hold
	ownGroup(cmd)
	// ended: the first process of its group has ended, and the others with it. A system that cannot
	// say so before that process is collected does not close it.
	ended := make(chan struct{})
	// The group is asked to end first, so that git takes its locks and temporary files away.
	cmd.WaitDelay = s.cfg.grace
	cmd.Cancel = func() error {
		select {
		case <-ended: // the group's number may be another's by now
		default:
			endGroup(cmd)
		}
		return nil
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	said, err3 := cmd.StderrPipe()
	if err := cmp.Or(err1, err2, err3); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Git reads before it starts a child, and nothing has been written yet: the
	// children have the limits too.
	if err := limit(cmd.Process.Pid, s.cfg.Memory, cmp.Or(j.heap, s.cfg.Memory), cmp.Or(j.file, smallFile), int64(s.cfg.Timeout/time.Second)+1); err != nil {
		killGroup(cmd)
		_ = cmd.Wait()
		return nil, fmt.Errorf("setting its limits: %w", err)
	}
	over := make(chan struct{})
	go func() {
		if awaitEnd(cmd) {
			killGroup(cmd)
			close(ended)
		}
		close(over)
	}()
	return &process{cmd, in, out, said, over}, nil
}

// feed writes git's input, and returns why it could not be read. A git that reads no more is no error. The input
// ends here only if it was read to its end: git must not take another end for that one.
func (s session) feed(to io.WriteCloser, in *source) error {
	if in != nil {
		_, _ = io.Copy(to, in)
		if in.failed != nil {
			s.cancel(in.failed)
			return in.failed
		}
	}
	if s.ctx.Err() == nil {
		_ = to.Close()
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
