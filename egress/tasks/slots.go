package tasks

import (
	"context"
	"net/http"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/limits"
	"weir/internal/task"
	"weir/schemas"
)

// Slots limit the open streams of each task's holder, whose token does not belong to the tenant. It
// is safe for concurrent use.
type Slots struct{ limit *limits.PerKey[schemas.Ref] }

// NewSlots allows the tokens of one task so many streams on this node; 0: 1000.
func NewSlots(most int) *Slots {
	if most <= 0 {
		most = 1000
	}
	return &Slots{limits.NewPerKey[schemas.Ref](most)}
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
		release, ok := s.limit.TryAcquire(of.Ref())
		if !ok {
			return nil, nil, fault.New(schemas.RateLimited, "this task holds as many streams open as it may; close one first")
		}
		return r.Context(), release, nil
	}
}
