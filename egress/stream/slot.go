package stream

import (
	"context"
	"net/http"
)

// Watch permits a stream for a request until release is called or ctx ends, which may be before the
// request's own context; or it refuses the request with an error that becomes a problem.
type Watch func(r *http.Request) (ctx context.Context, release func(), err error)

// slot is one of the sender's streams, reserved before there is anything to stream.
type slot struct {
	ctx     context.Context //nolint:containedctx // it bounds the stream, not a call
	release func()
	taken   bool // by the stream, which releases it
}

type slotKey struct{}

// AcquireSlot reserves a stream for a request before its action is stored, so that a refused request
// has stored nothing. The stream that answers the returned request uses the slot. Without such a
// stream, leave releases it. All of it is for one goroutine. A nil watch is HTTP's.
func (e *Events) AcquireSlot(r *http.Request, watch Watch) (seated *http.Request, leave func(), err error) {
	if watch == nil {
		watch = e.cfg.Watch
	}
	ctx, release, err := watch(r)
	if err != nil {
		return nil, nil, err
	}
	s := &slot{ctx: ctx, release: release}
	leave = func() {
		if !s.taken {
			s.taken = true
			release()
		}
	}
	return r.WithContext(context.WithValue(r.Context(), slotKey{}, s)), leave, nil
}

// slot uses the request's slot or, without one, calls watch; nil: HTTP's.
func (e *Events) slot(r *http.Request, watch Watch) (ctx context.Context, release func(), err error) {
	if s, ok := r.Context().Value(slotKey{}).(*slot); ok && !s.taken {
		s.taken = true
		return s.ctx, s.release, nil
	}
	if watch == nil {
		watch = e.cfg.Watch
	}
	return watch(r)
}
