package agent

import (
	"bytes"
	"context"
	"io"
	"time"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/schemas"
)

// mocked reads the answer of a traffic rule as if the agent had given it.
func (e *exchange) mocked(ctx context.Context, r *outbound.Response) (call.Reply, error) {
	l := &decoder{exchange: e, head: head{r.Status, r.Headers, r.RetryAfter}, stream: page{bytes.NewReader(r.Body)}, asked: time.Now()}
	l.reader.opts = e.opts
	return l.decode(ctx)
}

// page is a body that is all there.
type page struct{ *bytes.Reader }

// ReadAll reads what is left, where that is no more than limit.
func (p page) ReadAll(limit int64) ([]byte, error) {
	if int64(p.Len()) > limit {
		return nil, &fault.Call{Code: schemas.UpstreamTooLarge}
	}
	return io.ReadAll(p)
}

// Close does nothing.
func (page) Close() {}
