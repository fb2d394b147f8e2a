package tasks

import (
	"context"
	"net/http"
	"sync"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

// Slots limit the open streams of each task's holder, whose token does not belong to the tenant. It
// is safe for concurrent use.
type Slots struct {
	server *egress.Server
	most   int

	mu sync.Mutex
	of map[schemas.Ref]int
}

// NewSlots allows the tokens of one task so many streams on this node; 0: 1000.
func NewSlots(s *egress.Server, most int) *Slots {
	if most <= 0 {
		most = 1000
	}
	return &Slots{server: s, most: most, of: map[schemas.Ref]int{}}
}

// Acquire acquires a slot for the sender of a request, before anything is stored for it. The answer's
// stream takes it over with the request that is returned; release gives it back if there is no
// stream, and else does nothing.
func (s *Slots) Acquire(r *http.Request) (held *http.Request, release func(), err error) {
	return s.server.Events().AcquireSlot(r, s.Watch(r))
}

// Watch is the way to a stream for the holder of a task; nil: the sender may hold event streams
// open as others do.
func (s *Slots) Watch(r *http.Request) stream.Watch {
	token, _ := githttp.BearerToken(r.Header.Values("Authorization"), false)
	if !task.Is(token) {
		return nil
	}
	of, _ := task.Parse(token) // whether it is in force was checked before
	return func(r *http.Request) (context.Context, func(), error) {
		release, err := s.take(of.Ref())
		return r.Context(), release, err
	}
}

// take counts one more, until it is released once.
func (s *Slots) take(ref schemas.Ref) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[ref] >= s.most {
		return nil, fault.New(schemas.RateLimited, "this task holds as many streams open as it may; close one first")
	}
	s.of[ref]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[ref]--; s.of[ref] == 0 {
			delete(s.of, ref)
		}
	}, nil
}
