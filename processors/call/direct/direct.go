// Package direct is the outward adapter for plain HTTP: the call as the caller
// asked for it, to the target that policy matched.
package direct

import (
	"cmp"
	"context"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/processors/call"
	"weir/processors/call/added"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

// Adapter makes calls through the guarded client.
type Adapter struct {
	client   *outbound.Client
	secrets  added.Secrets
	redactor *redact.Redactor
}

// New returns an Adapter. The redactor decides which headers' values are hidden
// in the answers that are kept.
func New(c *outbound.Client, s added.Secrets, r *redact.Redactor) *Adapter {
	return &Adapter{client: c, secrets: s, redactor: r}
}

// Open dials the target of the pass.
func (a *Adapter) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	line, err := dial.Take(ctx, a.client, p)
	if err != nil {
		return nil, err
	}
	return &exchange{line, a}, nil
}

type exchange struct {
	*dial.Base
	adapter *Adapter
}

// Do reads the entry's secrets, which is as late as it can be, and sends. Where a
// traffic rule answers, neither is done.
func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	if e.Pass.Mocked() {
		return e.answer(e.Mock(), nil), nil
	}
	req, scrub, err := e.request(ctx)
	if err != nil {
		return call.Reply{}, err
	}
	resp, err := e.Conn.Do(ctx, req)
	if err != nil {
		return call.Reply{}, err
	}
	return e.answer(resp, scrub), nil
}

// request is what the call sends, with what its entry adds, and what takes the secrets of both out of
// the answer.
func (e *exchange) request(ctx context.Context) (outbound.Request, *redact.Scrubber, error) {
	own, err := added.Read(ctx, e.adapter.secrets, e.Pass)
	if err != nil {
		return outbound.Request{}, nil, err
	}
	c := e.Pass.Call()
	body, err := Body(c)
	if err == nil {
		body, err = added.Members(body, own.Body)
	}
	if err != nil {
		return outbound.Request{}, nil, &fault.Call{Code: schemas.DenyBody, Cause: err}
	}
	req := outbound.Request{
		Headers: c.Headers, Injected: own.Headers, Query: own.Query,
		Body: body, IdempotencyKey: c.IdempotencyKey,
	}
	if body != nil {
		req.ContentType = cmp.Or(c.ContentType, "application/json")
	}
	return req, own.Scrubber(), nil
}

// Body is what a call sends: its JSON as it came, or the text or the bytes in it.
func Body(c schemas.HTTPCall) ([]byte, error) { return c.Sent() }
