package stream

import (
	"context"
	"net/http"
	"sync"
)

// Watch permits a stream for a request until release is called or ctx ends, which may be before the
// request's own context; or it refuses the request with an error that becomes a problem.
type Watch func(r *http.Request) (ctx context.Context, release func(), err error)

// slot is one of the sender's streams, reserved before anything is streamed.
type slot struct {
	ctx     context.Context //nolint:containedctx // it bounds the stream, not a call
	release func()          // the first call counts
}

type slotKey struct{}

// AcquireSlot reserves a stream for a request before its action is stored, so that a refused request
// has stored nothing. The stream that answers the returned request uses the slot. Call leave after
// the answer, whether there was a stream or not. A nil watch is HTTP's.
func (e *Events) AcquireSlot(r *http.Request, watch Watch) (seated *http.Request, leave func(), err error) {
	s, err := e.slot(r, watch)
	if err != nil {
		return nil, nil, err
	}
	return r.WithContext(context.WithValue(r.Context(), slotKey{}, s)), s.release, nil
}

// slot is the request's slot or, without one, one that watch permits; nil: HTTP's.
func (e *Events) slot(r *http.Request, watch Watch) (*slot, error) {
	if s, ok := r.Context().Value(slotKey{}).(*slot); ok {
		return s, nil
	}
	if watch == nil {
		watch = e.cfg.Watch
	}
	ctx, release, err := watch(r)
	if err != nil {
		return nil, err
	}
	return &slot{ctx, sync.OnceFunc(release)}, nil
}
