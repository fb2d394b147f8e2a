package embedded

import (
	"context"
	"fmt"
	"sync"

	"weir/internal/fault"
)

// commit shares one sync among all waiting callers. A sync releases the callers that asked before
// it began: the kernel's state of that moment is then on the disk. There is no timer, so a lone
// caller pays for exactly one sync, and callers that arrive during a sync share the next one.
//
// A failed sync may have dropped the pages it could not write, and the next one would report
// success. The first failure is therefore final: all current and later callers receive it.
type commit struct {
	sync func() error
	fail func()        // is called after the first failure
	turn chan struct{} // is full while a sync runs
	err  error         // of the goroutine that has the turn

	mu   sync.Mutex
	next *round // callers of the next sync, which has not started
}

// round is one sync and its callers.
type round struct {
	done chan struct{}
	err  error
}

func newCommit(syncAll func() error, fail func()) *commit {
	return &commit{sync: syncAll, fail: fail, turn: make(chan struct{}, 1)}
}

// begin returns the first sync that begins after the call; after a failed one, none begins any more.
func (c *commit) begin() *round {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &round{done: make(chan struct{})}
		go c.run(c.next)
	}
	return c.next
}

// wait returns after a sync that began after the call has ended, and with it all earlier ones. If ctx
// ends first, the durability of earlier writes is unknown.
func (c *commit) wait(ctx context.Context) error {
	r := c.begin()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, context.Cause(ctx))
	}
}

// run syncs for a round when the sync before it has ended.
func (c *commit) run(r *round) {
	c.turn <- struct{}{}
	c.mu.Lock()
	c.next = nil
	c.mu.Unlock()
	if c.err == nil {
		if err := c.sync(); err != nil {
			c.err = fmt.Errorf("%w: the data directory could not be synced: %w", fault.ErrUnavailable, err)
			c.fail()
		}
	}
	r.err = c.err
	close(r.done)
	<-c.turn
}
