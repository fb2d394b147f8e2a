package egress

import (
	"context"
	"net/http"
	"sync"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/task"
	"weir/schemas"
)

// Seat takes the place of one more open stream for whoever sends a request, before
// anything is stored for it. Stream or Chat takes it over with the request that comes
// back; leave gives it back where neither is called, and does nothing behind them.
func (e *Room) Seat(r *http.Request) (seated *http.Request, leave func(), err error) {
	return e.events.Seat(r, e.watching(r))
}

// watching is the way to a stream for the holder of a task, whose token is none of the
// tenant's; nil: whoever may hold event streams open may do so.
func (e *Room) watching(r *http.Request) stream.Watch {
	token, _ := githttp.Token(r.Header.Values("Authorization"), false)
	if !task.Is(token) {
		return nil
	}
	of, _ := task.Parse(token) // whether it is in force was found out before
	return func(r *http.Request) (context.Context, func(), error) {
		leave, err := e.places.take(of.Ref())
		return r.Context(), leave, err
	}
}

// places counts the streams that are open here for tasks.
type places struct {
	most int

	mu sync.Mutex
	of map[schemas.Ref]int
}

// take counts one more, until it is left once.
func (p *places) take(ref schemas.Ref) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[ref] >= p.most {
		return nil, fault.New(schemas.RateLimited, "this task holds as many streams open as it may; close one first")
	}
	p.of[ref]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[ref]--; p.of[ref] == 0 {
			delete(p.of, ref)
		}
	}, nil
}
