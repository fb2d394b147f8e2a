package git

import (
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
	in       *source // what git reads, without blocking; nil: nothing
	// out reads what git writes, to the end; nil: it is discarded. It may touch what it was given until run returns.
	out func(io.Reader) error
	// onLine receives each line of git's standard error, as lastLine has them; nil: they are dropped.
	onLine func(line string)
	// hold are locks that git and its children keep as long as they live.
	hold []*os.File
	// file is the largest that it may write; 0: smallFile.
	file int64
}

// source is what git reads, once it has its limits. It remembers why its reader failed, and then ends git: the end of
// the input must not be taken for the end of what was meant.
type source struct {
	io.Reader
	limited <-chan struct{}
	end     context.CancelCauseFunc
	failed  error
}

func (s *source) Read(b []byte) (int, error) {
	<-s.limited
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		s.failed = err
		s.end(err)
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

// run runs git to its end. It returns when no process of the job is left and nothing of it touches what out was
// given, nor in unless its reader blocks. The error is the first of these: in's, why the turn ended, git's, out's.
func (g *Git) run(t slot, j job) error {
	name := "git " + j.args[0]
	if err := context.Cause(t.ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	cmd := g.command(t.ctx, j)
	limited := make(chan struct{})
	in := cmp.Or(j.in, text(""))
	in.limited, in.end = limited, t.cancel
	said := sayings{each: j.onLine}
	r, w := io.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, &said
	if err := g.start(cmd, j, limited); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		reapGroup(cmd)
		_ = w.Close()
		ended <- err
	}()
	var failed error
	if j.out != nil {
		if failed = j.out(r); failed != nil {
			t.cancel(failed)
		}
	}
	_, _ = io.Copy(io.Discard, r)
	err := <-ended
	switch cause := context.Cause(t.ctx); {
	case in.failed != nil:
		return in.failed
	case cmd.ProcessState.Success(): // whatever has ended meanwhile
		return failed
	case cause == nil, errors.Is(cause, failed) && cmd.ProcessState.Exited():
		// A git that ended by itself says why; what out made of that is no better.
		return &ExitError{Command: j.args[0], Text: g.scrub(said.last()), err: err}
	default:
		return fmt.Errorf("%s: %w", name, cause)
	}
}

// smallFile is what a process may write that brings no objects.
const smallFile = 64 << 20

func (g *Git) command(ctx context.Context, j job) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.program, j.args...) //nolint:gosec // no argument is a caller's word
	cmd.Env = environment(g.execPath, append(g.settings(), j.settings...), j.env...)
	cmd.Dir = cmp.Or(j.dir, "/")
	cmd.ExtraFiles = j.hold
	ownGroup(cmd)
	// The group is asked to end first, so that git takes its locks and temporary files away.
	cmd.WaitDelay = g.cfg.grace
	cmd.Cancel = func() error { endGroup(cmd); return nil }
	return cmd
}

// start starts git with its limits. Its children have them too: git reads before it starts one.
func (g *Git) start(cmd *exec.Cmd, j job, limited chan struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	err := limit(cmd.Process.Pid, bounds{
		memory: g.cfg.Memory, file: cmp.Or(j.file, smallFile), seconds: int64(g.cfg.Timeout/time.Second) + 1,
	})
	if err != nil {
		killGroup(cmd)
		err = fmt.Errorf("setting its limits: %w", err)
	}
	close(limited)
	if err != nil {
		_ = cmd.Wait()
	}
	return err
}

// mostLine is the longest line of what git says. A longer one is several.
const mostLine = 1024

// sayings are the lines of what git says. A line that git writes over is one as well.
type sayings struct {
	each func(line string)
	rest []byte
	line string
}

func (s *sayings) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		i := bytes.IndexAny(s.rest[:min(len(s.rest), mostLine)], "\r\n")
		switch {
		case i >= 0:
			s.hear(s.rest[:i])
			s.rest = s.rest[i+1:]
		case len(s.rest) >= mostLine:
			s.hear(s.rest[:mostLine])
			s.rest = s.rest[mostLine:]
		default:
			return len(b), nil
		}
	}
}

func (s *sayings) hear(b []byte) {
	line := strings.TrimSpace(strings.ToValidUTF8(string(b), ""))
	if line == "" {
		return
	}
	if s.line = line; s.each != nil {
		s.each(line)
	}
}

// last is the last line, once nothing more is said.
func (s *sayings) last() string {
	s.hear(s.rest)
	s.rest = nil
	return s.line
}

// scrub takes this machine's paths out of git's words.
func (g *Git) scrub(s string) string { return strings.ReplaceAll(s, g.cfg.Dir, "") }

// output runs git in a repository, and returns its answer, of at most some bytes.
func (g *Git) output(t slot, r repository, in string, most int, args ...string) (string, error) {
	var answer []byte
	err := g.run(t, job{args: args, dir: string(r), env: r.dirEnv(), in: text(in), out: func(o io.Reader) (err error) {
		answer, err = io.ReadAll(io.LimitReader(o, int64(most)+1))
		if err == nil && len(answer) > most {
			err = errors.New("it said more than it should")
		}
		return err
	}})
	return string(answer), err
}
