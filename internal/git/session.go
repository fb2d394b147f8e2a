package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/limits"
)

const (
	// smallProcesses is the limit of concurrent lookups, in addition to Config.Processes.
	smallProcesses = 8
	// smallTimeout is the time limit of a lookup.
	smallTimeout = time.Minute
)

// slots are how many of each sort run at a time. One tenant's repositories have no bound of their own beside
// its share: what one task has on its way is bounded before it comes here (see githttp.TaskLimit), and a push waits
// for its slot only once its pack is here.
type slots struct {
	reads  *limits.Shares // reads of repositories
	writes *limits.Shares // pushes and imports
	// imports is a part of writes: an import lasts as long as its server takes to send.
	imports *limits.Shares
	small   *limits.Shares // lookups: short, and not divided
}

func newSlots(processes, tenantShare int) slots {
	writes := max(processes/2, 1)
	divided := func(n int) *limits.Shares { return limits.NewShares(limits.Percent(int64(n), tenantShare)) }
	return slots{
		reads: divided(max(processes-writes, 1)), writes: divided(writes), imports: divided(max(writes/4, 1)),
		small: limits.NewShares(limits.Percent(smallProcesses, 100)),
	}
}

// session is the permission to run git, in a repository or, if that is empty, anywhere.
type session struct {
	*Git
	repository

	ctx    context.Context //nolint:containedctx // it is one call's, and ends with it
	cancel context.CancelCauseFunc
	end    func()
}

// enter waits for a session in a repository; see wait.
func (g *Git) enter(ctx context.Context, id, tenant string, timeout time.Duration, each ...*limits.Shares) (session, error) {
	r, err := g.repo(id)
	if err != nil {
		return session{}, err
	}
	s, err := g.wait(ctx, tenant, timeout, each...)
	s.repository = r
	return s, err
}

// lookUp is enter for small commands.
func (g *Git) lookUp(ctx context.Context, id string) (session, error) {
	return g.enter(ctx, id, "", smallTimeout, g.slots.small)
}

// wait takes a slot of each of these, in their order. It waits for as long as the session may then last: Config.Timeout at
// most. Close ends the session's context, and waits for its end.
func (g *Git) wait(ctx context.Context, tenant string, timeout time.Duration, each ...*limits.Shares) (session, error) {
	if g.none != nil {
		return session{}, g.none
	}
	timeout = min(timeout, g.cfg.Timeout)
	g.mu.Lock()
	if g.open.Err() != nil {
		g.mu.Unlock()
		return session{}, ErrClosed
	}
	g.busy.Add(1)
	g.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(g.open, func() { cancel(ErrClosed) }) //nolint:contextcheck // it is that of Close
	end := func() {
		forget()
		cancel(nil)
		g.busy.Done()
	}
	waiting, late := context.WithTimeoutCause(ctx, timeout, ErrBusy)
	defer late()
	for _, s := range each {
		release, err := s.Acquire(waiting, tenant, 1)
		if err != nil {
			end()
			return session{}, fmt.Errorf("waiting to run git: %w", err)
		}
		after := end
		end = func() { release(); after() }
	}
	bounded, stop := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	return session{Git: g, ctx: bounded, cancel: cancel, end: func() { stop(); end() }}, nil
}

// output runs git, and returns its answer, of at most some bytes.
func (s session) output(in string, most int, args ...string) (string, error) {
	var answer []byte
	err := s.run(job{args: args, in: text(in), out: func(o io.Reader) (err error) {
		answer, err = io.ReadAll(io.LimitReader(o, int64(most)+1))
		if err == nil && len(answer) > most {
			err = errors.New("it said more than it should")
		}
		return err
	}})
	return string(answer), err
}

// object is what a name stands for; kind is empty where there is nothing.
type object struct{ oid, kind string }

// longestLook is above the maximum length of an answer line: a ref's name and a status.
const longestLook = 2048

// look asks git what names stand for: refs in full, or object ids.
func (s session) look(names ...string) ([]object, error) {
	if len(names) == 0 {
		return nil, nil
	}
	out, err := s.output(strings.Join(names, "\n")+"\n", len(names)*longestLook,
		"cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != len(names) {
		return nil, errors.New("git cat-file: it gave another number of answers")
	}
	list := make([]object, len(names))
	for i, line := range lines {
		if oid, kind, ok := strings.Cut(line, " "); ok && kind != "missing" && !strings.Contains(kind, " ") {
			list[i] = object{oid, kind}
		}
	}
	return list, nil
}

// tip is the commit that a branch is at, or ErrNoRef.
func (s session) tip(ref string) (string, error) {
	found, err := s.look(ref)
	switch {
	case err != nil:
		return "", err
	case found[0].kind == "":
		return "", ErrNoRef
	case found[0].kind != "commit":
		return "", fmt.Errorf("the branch is at a %s: %w", found[0].kind, ErrNoRef)
	}
	return found[0].oid, nil
}

// firstOf is the first commit of a walk, if it has one.
func (s session) firstOf(walk string) (string, error) {
	out, err := s.output(walk, longestLook, "rev-list", "--max-count=1", "--stdin")
	return strings.TrimSpace(out), err
}
