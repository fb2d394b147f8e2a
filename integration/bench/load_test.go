//go:build nightly

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// target is what a load is put on: a program, or the upstream itself.
type target struct {
	name    string
	method  string
	url     string
	body    string
	next    func() string // the body of each call; nil: body
	patient bool          // who is told to come later does
	header  map[string]string
	status  int      // of the answer that is expected
	process *process // nil: the upstream, which is this process
}

// sample is what one load measured.
type sample struct {
	done    int
	elapsed time.Duration
	took    []time.Duration // sorted
	cpu     time.Duration   // of the program's process
	later   int64           // how often somebody was told to come later, and did
}

func (s sample) rate() float64 { return float64(s.done) / s.elapsed.Seconds() }

func (s sample) percentile(p int) time.Duration {
	return s.took[min(len(s.took)*p/100, len(s.took)-1)]
}

// work is the processor's time of the program for each call.
func (s sample) work() time.Duration { return s.cpu / time.Duration(s.done) }

// caller makes calls over connections that it keeps.
type caller struct {
	target
	client http.Client
	later  atomic.Int64
}

func newCaller(t target, most int) *caller {
	return &caller{target: t, client: http.Client{Transport: &http.Transport{MaxIdleConns: most, MaxIdleConnsPerHost: most}}}
}

func (c *caller) close() { c.client.CloseIdleConnections() }

// laterPause is between two times that somebody asks for the same, laterTries how often.
const (
	laterPause = 100 * time.Millisecond
	laterTries = 600
)

var errLater = errors.New("not now")

func (c *caller) call(ctx context.Context) error {
	body := c.body
	if c.next != nil {
		body = c.next()
	}
	for try := 1; ; try++ {
		err := c.ask(ctx, body)
		if !c.patient || !errors.Is(err, errLater) || try == laterTries {
			return err
		}
		c.later.Add(1)
		select {
		case <-time.After(laterPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *caller) ask(ctx context.Context, body string) error {
	req, err := http.NewRequestWithContext(ctx, c.method, c.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil || resp.StatusCode == c.status:
		return err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %s: %s: %s", errLater, c.name, resp.Status, text)
	default:
		return fmt.Errorf("%s: %s: %s", c.name, resp.Status, text)
	}
}

// limit ends a load: after a time, or after a number of calls where the time is zero.
type limit struct {
	span  time.Duration
	calls int
}

// closed has each of a number of callers make one call after the other.
func closed(ctx context.Context, t target, callers int, l limit) (sample, error) {
	c := newCaller(t, callers)
	defer c.close()
	var begun atomic.Int64
	var mu sync.Mutex
	var s sample
	var failed error
	until := time.Now().Add(l.span)
	more := func() bool {
		if l.span > 0 {
			return time.Now().Before(until)
		}
		return begun.Add(1) <= int64(l.calls)
	}
	return measure(t, &s, func() error {
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				var took []time.Duration
				var err error
				for err == nil && more() {
					start := time.Now()
					if err = c.call(ctx); err == nil {
						took = append(took, time.Since(start))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				s.took = append(s.took, took...)
				if err != nil {
					failed = err
				}
			})
		}
		group.Wait()
		s.later = c.later.Load()
		return failed
	})
}

// open makes calls at a fixed rate, whether those before have ended or not. How long a call
// took counts from when it was planned, so that one which others held up does not look quick.
func open(ctx context.Context, t target, rate int, l limit) (sample, error) {
	n := l.calls
	if l.span > 0 {
		n = max(int(l.span.Seconds()*float64(rate)), 1)
	}
	c := newCaller(t, n)
	defer c.close()
	s := sample{took: make([]time.Duration, n)}
	var failed atomic.Pointer[error]
	return measure(t, &s, func() error {
		var group sync.WaitGroup
		timer := time.NewTimer(0)
		defer timer.Stop()
		<-timer.C
		start := time.Now()
		for i := range n {
			planned := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			if wait := time.Until(planned); wait > 0 {
				timer.Reset(wait)
				<-timer.C
			}
			group.Go(func() {
				if err := c.call(ctx); err != nil {
					failed.Store(&err)
				}
				s.took[i] = time.Since(planned)
			})
		}
		group.Wait()
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	})
}

// measure fills in what do, which notes how long each call took, took altogether.
func measure(t target, s *sample, do func() error) (sample, error) {
	var before time.Duration
	if t.process != nil {
		before = t.process.cpu()
	}
	begun := time.Now()
	err := do()
	s.elapsed = time.Since(begun)
	if t.process != nil {
		s.cpu = t.process.cpu() - before
	}
	s.done = len(s.took)
	slices.Sort(s.took)
	if err == nil && s.done == 0 {
		err = fmt.Errorf("%s: no call was made", t.name)
	}
	return *s, err
}
