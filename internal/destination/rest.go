package destination

import (
	"context"
	"sync"
	"time"

	"weir/schemas"
)

// sleepers are actions that this process has put to rest for one reason, in the order in
// which they came. It is no more than that: whoever is not in it wakes when it is due.
type sleepers struct {
	line []sleeper
}

type sleeper struct {
	ref   schemas.Ref
	until time.Time
}

// most is how many actions a line remembers.
const most = 10_000

// add puts an action at the line's end.
func (s *sleepers) add(ref schemas.Ref, until, now time.Time) {
	if len(s.line) >= most {
		s.tidy(now)
	}
	if len(s.line) < most {
		s.line = append(s.line, sleeper{ref, until})
	}
}

// tidy drops those that must have woken.
func (s *sleepers) tidy(now time.Time) {
	kept := s.line[:0]
	for _, a := range s.line {
		if a.until.After(now) {
			kept = append(kept, a)
		}
	}
	s.line = kept
}

// take takes the first n that still sleep from the line; all of them with n < 0.
func (s *sleepers) take(n int, now time.Time) (refs []schemas.Ref) {
	for len(s.line) > 0 && n != 0 {
		first := s.line[0]
		s.line = s.line[1:]
		if first.until.After(now) {
			refs = append(refs, first.ref)
			n--
		}
	}
	if len(s.line) == 0 {
		s.line = nil
	}
	return refs
}

// wakers wake actions, without anybody's waiting for it.
type wakers struct {
	nudge func(context.Context, schemas.Ref) error

	mu    sync.Mutex
	life  context.Context //nolint:containedctx // of the Book, from Start to Stop
	queue []schemas.Ref
	awake chan struct{}
	done  sync.WaitGroup
}

func (w *wakers) start(life context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.life, w.awake = life, make(chan struct{}, 1)
	if w.nudge != nil {
		w.done.Go(func() { w.run(life) })
	}
}

// wake has actions looked at again soon. Those that cannot be told wake when they are due.
func (w *wakers) wake(refs []schemas.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(refs) == 0 || w.nudge == nil || w.life == nil || w.life.Err() != nil {
		return
	}
	w.queue = append(w.queue, refs...)
	select {
	case w.awake <- struct{}{}:
	default:
	}
}

func (w *wakers) run(life context.Context) {
	for {
		select {
		case <-w.awake:
		case <-life.Done():
			return
		}
		w.mu.Lock()
		refs := w.queue
		w.queue = nil
		w.mu.Unlock()
		for _, ref := range refs {
			if life.Err() != nil {
				return
			}
			_ = w.nudge(life, ref) // it wakes when it is due
		}
	}
}
