package embedded

import (
	"context"
	"fmt"
	"sync"

	"weir/internal/fault"
)

// commit shares one sync among everybody who waits for one. A caller is
// released only by a sync that began after it asked: whatever the kernel held
// at that moment is then on the disk. There is no timer, so that a lone caller
// pays for exactly one sync, and callers that arrive while one runs share the
// next.
//
// A sync that failed may have dropped the pages it could not write, and asking
// again would report success. The first failure is therefore final: everybody
// who waits, and everybody who asks later, gets it.
type commit struct {
	sync   func() error
	failed chan struct{}

	mu      sync.Mutex
	next    *round // who waits for a sync that has not begun
	running bool
	err     error
	idle    *sync.Cond
}

// round is one sync and those it serves.
type round struct {
	done chan struct{}
	err  error
}

func newCommit(syncAll func() error) *commit {
	c := &commit{sync: syncAll, failed: make(chan struct{})}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// wait returns once a sync that began after the call has ended. When ctx ends
// first, nothing is known of what was written before.
func (c *commit) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	r := c.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		c.next = r
	}
	if !c.running {
		c.running = true
		go c.run()
	}
	c.mu.Unlock()

	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, context.Cause(ctx))
	}
}

// run syncs until nobody waits.
func (c *commit) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next != nil {
		r := c.next
		c.next = nil
		if c.err == nil {
			c.mu.Unlock()
			err := c.sync()
			c.mu.Lock()
			if err != nil {
				c.fail(err)
			}
		}
		r.err = c.err
		close(r.done)
	}
	c.running = false
	c.idle.Broadcast()
}

// fail makes err the answer to everybody from now on. The caller holds mu.
func (c *commit) fail(err error) {
	c.err = fmt.Errorf("%w: the data directory could not be synced: %w", fault.ErrUnavailable, err)
	close(c.failed)
}

// settle waits until no sync runs.
func (c *commit) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running {
		c.idle.Wait()
	}
}

// last syncs once more, for whoever has nobody left to wait for.
func (c *commit) last() error {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	err := c.sync()
	if err != nil {
		c.fail(err)
	}
	return err
}
