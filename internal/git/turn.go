package git

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// smallProcesses is how many commands that only look something up run at a time, beside
	// Config.Processes.
	smallProcesses = 8
	// smallTimeout is the most that one of those may take.
	smallTimeout = time.Minute
)

// turn is the leave to run git.
type turn struct {
	ctx    context.Context //nolint:containedctx // it is one call's, and ends with it
	cancel context.CancelCauseFunc
	end    func()
}

// sending waits for a turn of one that gives out what a repository has.
func (g *Git) sending(ctx context.Context, r repository) (turn, error) {
	return g.wait(ctx, g.reads, r, g.cfg.Timeout)
}

// taking waits for a turn of one that brings objects. These are apart from all others, because one lasts as long as
// somebody elsewhere likes to send. Without a repository, it is for one that is not there yet.
func (g *Git) taking(ctx context.Context, r repository) (turn, error) {
	return g.wait(ctx, g.writes, r, g.cfg.Timeout)
}

// lookUp waits for a turn of a small command.
func (g *Git) lookUp(ctx context.Context) (turn, error) {
	return g.wait(ctx, g.small, "", min(g.cfg.Timeout, smallTimeout))
}

func (g *Git) wait(ctx context.Context, all *turns, r repository, timeout time.Duration) (turn, error) {
	ctx, cancel, end, err := g.live(ctx)
	if err != nil {
		return turn{}, err
	}
	waiting, late := context.WithTimeoutCause(ctx, timeout, ErrBusy)
	give, err := all.take(waiting, r)
	late()
	if err != nil {
		end()
		return turn{}, fmt.Errorf("waiting to run git: %w", err)
	}
	bounded, stop := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	return turn{ctx: bounded, cancel: cancel, end: func() {
		stop()
		give()
		end()
	}}, nil
}

// turns are so many at a time, and of one repository not more than some of them: the others find one.
type turns struct {
	all  chan struct{}
	each int

	mu sync.Mutex
	of map[repository]*queue
}

// queue is who has a turn for a repository, or waits for one.
type queue struct {
	places chan struct{}
	users  int
}

func newTurns(all, each int) *turns {
	return &turns{all: make(chan struct{}, all), each: each, of: map[repository]*queue{}}
}

// take waits for a turn: who waits for others of the same repository is not in the way of the rest.
func (s *turns) take(ctx context.Context, r repository) (give func(), err error) {
	places, leave := s.queue(r)
	if err := place(ctx, places); err != nil {
		leave()
		return nil, err
	}
	if err := place(ctx, s.all); err != nil {
		free(places)
		leave()
		return nil, err
	}
	return func() {
		free(s.all)
		free(places)
		leave()
	}, nil
}

// queue is that of a repository, for as long as somebody is in it. Nothing has none.
func (s *turns) queue(r repository) (places chan struct{}, leave func()) {
	if r == "" {
		return nil, func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[r]
	if q == nil {
		q = &queue{places: make(chan struct{}, s.each)}
		s.of[r] = q
	}
	q.users++
	return q.places, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(s.of, r)
		}
	}
}

func place(ctx context.Context, places chan struct{}) error {
	if err := context.Cause(ctx); err != nil || places == nil {
		return err
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func free(places chan struct{}) {
	if places != nil {
		<-places
	}
}
