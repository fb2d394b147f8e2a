package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tmaxmax/go-sse"
)

// Follow reads a stream of events, such as those of an action at /v1/actions/{id}/events or
// /v1/evidence, and resumes it where it was cut. It returns nil when the stream ends by itself or
// ctx ends, and else the error of each, or the server's refusal.
func (c *Client) Follow(ctx context.Context, path string, each func(sse.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	var refused error
	conn := (&sse.Client{
		HTTPClient: c.http,
		ResponseValidator: func(r *http.Response) error {
			switch r.StatusCode {
			case http.StatusNoContent:
				refused = errEnded
			case http.StatusOK:
				refused = c.foreign(r)
			default:
				refused = ErrorOf(r)
			}
			if refused != nil {
				cancel(refused)
			}
			return refused
		},
		Backoff: sse.Backoff{InitialInterval: 200 * time.Millisecond, MaxInterval: 5 * time.Second},
	}).NewConnection(req)
	conn.SubscribeToAll(func(e sse.Event) {
		if err := each(e); err != nil {
			cancel(err)
		}
	})
	err = conn.Connect()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errEnded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errEnded ends a follow: there will be nothing more.
var errEnded = errors.New("the stream has ended")
