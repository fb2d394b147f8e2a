// Package callers has the clients of a Weir under faults: they send actions of each class, repeat
// those whose end they did not receive, follow events over cut streams, and record the answers, for
// package history to check.
package callers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
)

// The classes of what is asked for.
const (
	Get    = "get"
	Put    = "put"
	Post   = "post"
	Keyed  = "keyed"
	Denied = "deny"
)

// Classes are all of them.
func Classes() []string { return []string{Get, Put, Post, Keyed, Denied} }

// Config says what a crowd is like.
type Config struct {
	Target *Target
	// Write and Read are where actions are asked for and read, a base URL; another one each
	// time where there are several. Empty: nowhere at the moment.
	Write, Read func() string
	// Name begins the name of each action.
	Name string
	// Clients ask at a time; default 8.
	Clients int
	// Patience is how long one request is waited for; default 15 s.
	Patience time.Duration
	// Event, if it is set, is called for each event that a reader of an action is given.
	Event func(action, frame string)
	// Pad is how many bytes the bodies of calls have beside the name.
	Pad int
}

// Counts are what a crowd was told so far.
type Counts struct {
	// Ended are orders whose end was told, Unheard requests that nothing came of, Away those
	// of them that were answered with 503, and Streams the readers that saw the end.
	Ended, Unheard, Away, Streams int
	// Gap is the longest time in which no order's end was told.
	Gap time.Duration
}

// Callers is at work between Start and Rest. It is safe for concurrent use.
type Callers struct {
	cfg    Config
	client *http.Client

	mu      sync.Mutex
	asked   []history.Asked
	watched []*history.Watched
	errs    []error
	counts  Counts
	last    time.Time
	names   int
	changed chan struct{}

	leave func()
	wg    sync.WaitGroup
}

// New is a crowd that waits to be started.
func New(cfg Config) *Callers {
	cfg.Clients, cfg.Patience = cmp.Or(cfg.Clients, 8), cmp.Or(cfg.Patience, 15*time.Second)
	return &Callers{cfg: cfg, changed: make(chan struct{}), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cfg.Clients}}}
}

// Start has the clients work until Rest; what they have begun they go on with until ctx ends.
func (c *Callers) Start(ctx context.Context) {
	fresh, leave := context.WithCancel(ctx)
	c.leave = leave
	c.last = time.Now()
	for range c.cfg.Clients {
		c.wg.Go(func() {
			for fresh.Err() == nil {
				c.send(ctx, c.next())
				_ = poll.Rest(fresh, 25*time.Millisecond)
			}
		})
	}
}

// Stop begins nothing new and returns when the end of all that was begun was told, or ctx
// of Start has ended, which is an error.
func (c *Callers) Stop() error {
	if c.leave != nil {
		c.leave()
	}
	c.wg.Wait()
	c.client.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// Await blocks until the counts fit.
func (c *Callers) Await(ctx context.Context, what string, fit func(Counts) bool) error {
	for {
		c.mu.Lock()
		counts, changed := c.counts, c.changed
		c.mu.Unlock()
		if fit(counts) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%+v)", what, ctx.Err(), counts)
		}
	}
}

// Counts is what was told so far.
func (c *Callers) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Fill adds what the clients know to a run. The crowd must rest.
func (c *Callers) Fill(run *history.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run.Asked = append(run.Asked, c.asked...)
	for _, w := range c.watched {
		run.Watched = append(run.Watched, *w)
	}
	for _, h := range c.cfg.Target.Hits(c.cfg.Name + "-") {
		h.Tenant = Tenant
		run.Hits = append(run.Hits, h)
	}
}

// Order is one thing that is to be done once.
type Order struct {
	Name, Class string
	// Async asks for it with respond-async first, and Watch follows its events.
	Async, Watch bool
}

// Order is one with the class of a name of its own.
func (c *Callers) Order(class string) Order {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names++
	return Order{Name: fmt.Sprintf("%s-%s-%d", c.cfg.Name, class, c.names), Class: class}
}

func (c *Callers) next() Order {
	c.mu.Lock()
	n := c.names
	c.mu.Unlock()
	o := c.Order(Classes()[n%len(Classes())])
	o.Async, o.Watch = n%4 == 0, n%3 == 0
	return o
}

// Send asks for an order until its end is told, in the background.
func (c *Callers) Send(ctx context.Context, o Order) { c.wg.Go(func() { c.send(ctx, o) }) }

func (c *Callers) send(ctx context.Context, o Order) {
	if o.Watch {
		c.Watch(ctx, o.Name, nil)
	}
	for async := o.Async; ; async = false {
		a, err := c.ask(ctx, o, async)
		c.note(func() {
			c.asked = append(c.asked, a)
			if a.Answer == history.Unheard {
				c.counts.Unheard++
			}
			if errors.Is(err, ErrAway) {
				c.counts.Away++
			}
			if a.Outcome != "" {
				now := time.Now()
				c.counts.Ended++
				c.counts.Gap = max(c.counts.Gap, now.Sub(c.last))
				c.last = now
			}
		})
		if a.Outcome != "" {
			return
		}
		if err = errors.Join(err, poll.Rest(ctx, pause)); ctx.Err() != nil {
			c.note(func() { c.errs = append(c.errs, fmt.Errorf("%s was never told its end: %w", o.Name, err)) })
			return
		}
	}
}

// Ended reports whether somebody was told the end of what has a name.
func (c *Callers) Ended(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.asked, func(a history.Asked) bool { return a.Name == name && a.Outcome != "" })
}

func (c *Callers) note(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
	close(c.changed)
	c.changed = make(chan struct{})
}

// pause keeps a client from asking in a hot loop.
const pause = 100 * time.Millisecond
