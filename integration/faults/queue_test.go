//go:build nightly

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
)

// deepQueue has far more accepted than is under way, has every seventh canceled, and kills a
// server and a worker while the rest is worked off.
func deepQueue(ctx context.Context, s *scene) {
	s.target.Hold(s.slug())
	depth := s.times(200, 1000)
	s.queue(ctx, s.crowd, depth, 7)
	waits, _, err := s.log.backlog(ctx)
	s.must(err)
	s.bite("queued", int(waits))
	s.bite("canceled", depth/7)
	s.target.Release()
	s.cluster.Servers[s.chance.IntN(len(s.cluster.Servers))].Kill()
	s.workers()[0].kill()
	s.goOn(ctx, "the load behind the queue")
	s.must(s.heal(ctx))
}

// queue has so many actions accepted, and every nth canceled; 0: none.
func (s *scene) queue(ctx context.Context, c *crowd.Crowd, depth, nth int) {
	var group sync.WaitGroup
	errs := make(chan error, depth)
	slots := make(chan struct{}, 16)
	for i := range depth {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs <- s.enqueue(ctx, c, crowd.Classes()[i%len(crowd.Classes())], nth > 0 && i%nth == nth-1)
		})
	}
	group.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	s.must(errors.Join(all...))
}

// enqueue has one action accepted, at whatever node, and canceled.
func (s *scene) enqueue(ctx context.Context, c *crowd.Crowd, class string, cancel bool) error {
	o := c.Order(class)
	o.Async = true
	for {
		base := s.somewhere(func(r role) bool { return r.write })
		a, err := c.Ask(ctx, base, o)
		if a.Answer == history.Accepted {
			break
		}
		if wait := poll.Rest(ctx, pause); wait != nil {
			return errors.Join(wait, err)
		}
	}
	if !cancel {
		return nil
	}
	for {
		base := s.somewhere(func(r role) bool { return r.write })
		status, text := fetch(ctx, http.MethodPost, base+"/v1/actions/"+o.Name+"/cancel", "")
		if status/100 == 2 || status == http.StatusConflict { // or it has ended: a call that is denied does at once
			return nil
		}
		if wait := poll.Rest(ctx, pause); wait != nil {
			return fmt.Errorf("%s is not canceled: %d %s: %w", o.Name, status, text, wait)
		}
	}
}
