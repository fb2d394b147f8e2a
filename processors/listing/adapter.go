package listing

import (
	"context"
	"encoding/json"

	"weir/processors/call"
	"weir/processors/guard"
)

// reader is the adapter of one call. It puts the list into page, and leaves it out of the answer.
type reader struct {
	call.Adapter

	page *page
}

// Open dials the provider.
func (r reader) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	x, err := r.Adapter.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	return exchange{x, r.page}, nil
}

type exchange struct {
	call.Exchange

	page *page
}

// Do asks the provider. No text of its answer leaves this package but the list.
func (x exchange) Do(ctx context.Context) (call.Reply, error) {
	reply, err := x.Exchange.Do(ctx)
	if err != nil {
		return reply, err
	}
	if a := &reply.Answer; a.Status == statusOK && a.JSON {
		*x.page = parse(a.Body)
	}
	reply.Answer.Body, reply.Answer.Snippet = json.RawMessage("null"), ""
	return reply, nil
}
