package git

import (
	"context"
	"fmt"
	"time"

	"weir/internal/limits"
)

const (
	// smallProcesses is the limit of concurrent lookups, in addition to Config.Processes.
	smallProcesses = 8
	// smallTimeout is the time limit of a lookup.
	smallTimeout = time.Minute
)

// slot is the permission to run git.
type slot struct {
	ctx    context.Context //nolint:containedctx // it is one call's, and ends with it
	cancel context.CancelCauseFunc
	end    func()
}

// slots are how many of each sort run at a time. One tenant's repositories have no bound of their own beside
// its share: what one task has on its way is bounded before it comes here (see githttp.Crowd), and a push waits
// for its turn only once its pack is here.
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

// sending waits for the slot of a read.
func (g *Git) sending(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.reads)
}

// taking waits for the slot of a push.
func (g *Git) taking(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.writes)
}

// copying waits for the slot of an import.
func (g *Git) copying(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.imports, g.slots.writes)
}

// lookUp waits for a turn of a small command.
func (g *Git) lookUp(ctx context.Context) (slot, error) {
	return g.wait(ctx, "", min(g.cfg.Timeout, smallTimeout), g.slots.small)
}

// wait takes one of each, in their order. Close ends the slot's context, and waits for its end.
func (g *Git) wait(ctx context.Context, tenant string, timeout time.Duration, each ...*limits.Shares) (slot, error) {
	if g.none != nil {
		return slot{}, g.none
	}
	g.mu.Lock()
	if g.open.Err() != nil {
		g.mu.Unlock()
		return slot{}, ErrClosed
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
			return slot{}, fmt.Errorf("waiting to run git: %w", err)
		}
		after := end
		end = func() { release(); after() }
	}
	bounded, stop := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	return slot{ctx: bounded, cancel: cancel, end: func() { stop(); end() }}, nil
}
