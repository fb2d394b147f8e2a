package chat

import (
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"weir/internal/fault"
	"weir/schemas"
)

// bodies bounds the bytes of large bodies that are read and stored at a time: each of
// them costs several times its size until it is on the log, and how many arrive at once is
// up to the clients. Requests wait in their order, so that a large one is not passed by small
// ones. Bodies below smallBody are not counted.
type bodies struct {
	bytes *semaphore.Weighted
	most  int64
	wait  time.Duration
}

const (
	smallBody = 256 << 10
	// bodyWait is how long a body waits for others to be stored. Its client sends
	// again, so that a longer wait would only fill connections.
	bodyWait = 2 * time.Second
)

// newBodies bounds large bodies to so many bytes at a time.
func newBodies(most int64) *bodies {
	most = max(1, most)
	return &bodies{bytes: semaphore.NewWeighted(most), most: most, wait: bodyWait}
}

// counted is a body that reserves its bytes before it is read.
type counted struct {
	io.ReadCloser
	of       *bodies
	reserved int64
}

// count returns the request with a body that is counted. release gives its bytes back, once.
func (b *bodies) count(r *http.Request) (own *http.Request, release func()) {
	body := &counted{ReadCloser: r.Body, of: b}
	copied := *r
	copied.Body = body
	return &copied, func() { b.bytes.Release(body.reserved); body.reserved = 0 }
}

// Reserve reserves n bytes, or all there are for a larger body. If they are not free in time,
// the request is refused.
func (c *counted) Reserve(ctx context.Context, n int64) error {
	if n < smallBody {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.of.wait)
	defer cancel()
	n = min(n, c.of.most)
	if err := c.of.bytes.Acquire(ctx, n); err != nil {
		return &fault.Error{
			Code: schemas.Unavailable, Cause: err,
			Message: "too many large requests are being taken just now, and this one was not read; send it again when Retry-After says",
		}
	}
	c.reserved = n
	return nil
}
