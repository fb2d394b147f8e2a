package stream

import (
	"context"
	"net/http"
)

// Watch lets a request hold a stream open until release is called, and until ctx ends,
// which it may sooner than the request's own; or it refuses it with an error that becomes
// a problem.
type Watch func(r *http.Request) (ctx context.Context, release func(), err error)

// slot is the place of a stream that was taken before there is anything to stream.
type slot struct {
	ctx     context.Context //nolint:containedctx // it bounds the stream, not a call
	release func()
	taken   bool // by the stream, which gives it back
}

type slotKey struct{}

// AcquireSlot takes a stream's place for a request that is still to begin what is streamed: one
// that is refused has begun nothing then. The stream that answers the request which comes
// back needs no other. Leave gives the place back where there is no such stream. All of
// it is for one goroutine. A nil watch is HTTP's.
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

// slot takes the place that a request has already, and otherwise asks watch; nil: HTTP's.
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
