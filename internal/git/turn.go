package git

import (
	"context"
	"fmt"
	"time"

	"weir/internal/limits"
)

const (
	// smallProcesses is how many commands that only look something up run at a time, beside
	// Config.Processes.
	smallProcesses = 8
	// smallTimeout is the most that one of those may take.
	smallTimeout = time.Minute
)

// slot is the leave to run git.
type slot struct {
	ctx    context.Context //nolint:containedctx // it is one call's, and ends with it
	cancel context.CancelCauseFunc
	end    func()
}

// slots are how many of each sort run at a time. One tenant's repositories have no bound of their own beside
// its share: what one task has on its way is bounded before it comes here (see githttp.Crowd), and a push waits
// for its turn only once its pack is here.
type slots struct {
	reads  *limits.Shares // what gives out what a repository has
	writes *limits.Shares // what brings objects
	// imports is a part of writes: an import lasts as long as its server likes to send.
	imports *limits.Shares
	small   *limits.Shares // what only looks something up: short, and not divided
}

func newSlots(processes, tenantShare int) slots {
	writes := max(processes/2, 1)
	divided := func(n int) *limits.Shares { return limits.NewShares(limits.Percent(int64(n), tenantShare)) }
	return slots{
		reads: divided(max(processes-writes, 1)), writes: divided(writes), imports: divided(max(writes/4, 1)),
		small: limits.NewShares(limits.Percent(smallProcesses, 100)),
	}
}

// sending waits for a turn of one that gives out what a repository has.
func (g *Git) sending(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.reads)
}

// taking waits for a turn of a push.
func (g *Git) taking(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.writes)
}

// copying waits for a turn of an import.
func (g *Git) copying(ctx context.Context, tenant string) (slot, error) {
	return g.wait(ctx, tenant, g.cfg.Timeout, g.slots.imports, g.slots.writes)
}

// lookUp waits for a turn of a small command.
func (g *Git) lookUp(ctx context.Context) (slot, error) {
	return g.wait(ctx, "", min(g.cfg.Timeout, smallTimeout), g.slots.small)
}

// wait takes one of each, in their order.
func (g *Git) wait(ctx context.Context, tenant string, timeout time.Duration, each ...*limits.Shares) (slot, error) {
	ctx, cancel, end, err := g.live(ctx)
	if err != nil {
		return slot{}, err
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
