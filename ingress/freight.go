package ingress

import (
	"context"
	"io"
	"net/http"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// freight bounds the bytes of large bodies that are read and stored at a time: each of
// them costs several times its size until it is on the log, and how many come at once is
// the clients' to choose. Small ones pass without a look.
type freight struct {
	wait time.Duration
	// queue has the one that takes its units, so that who needs many is not passed by
	// those who need few.
	queue chan struct{}
	units chan struct{}
}

const (
	// freightUnit is what is counted, and the least that a body must have to count.
	freightUnit = 256 << 10
	// freightWait is how long a body waits for others to be stored. Its client sends
	// again, so that longer would only fill connections.
	freightWait = 2 * time.Second
)

// newFreight bounds large bodies to so many bytes at a time.
func newFreight(most int64) *freight {
	return &freight{wait: freightWait, queue: make(chan struct{}, 1), units: make(chan struct{}, max(1, most/freightUnit))}
}

// aboard is the body of a request that has to find room before it is read.
type aboard struct {
	io.ReadCloser
	of   *freight
	took int
}

// weigh returns the request with a body that Room.bytes finds room for. Leave gives that
// back, and does nothing where none was taken, or a second time.
func (f *freight) weigh(r *http.Request) (weighed *http.Request, leave func()) {
	body := &aboard{ReadCloser: r.Body, of: f}
	own := *r
	own.Body = body
	return &own, func() { f.give(body.took); body.took = 0 }
}

// enter takes room for a body of n bytes. Without any in time it is refused, and not read.
func (b *aboard) enter(ctx context.Context, n int64) error {
	if n < freightUnit {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.of.wait)
	defer cancel()
	need := min(int((n+freightUnit-1)/freightUnit), cap(b.of.units)) // one alone always fits
	select {
	case b.of.queue <- struct{}{}:
		defer func() { <-b.of.queue }()
	case <-ctx.Done():
		return errCrowded(ctx)
	}
	for b.took < need {
		select {
		case b.of.units <- struct{}{}:
			b.took++
		case <-ctx.Done():
			b.of.give(b.took)
			b.took = 0
			return errCrowded(ctx)
		}
	}
	return nil
}

func (f *freight) give(n int) {
	for range n {
		<-f.units
	}
}

func errCrowded(ctx context.Context) error {
	return &fault.Error{
		Code: schemas.Unavailable, Cause: context.Cause(ctx),
		Message: "too many large requests are being taken just now, and this one was not read; send it again when Retry-After says",
	}
}
