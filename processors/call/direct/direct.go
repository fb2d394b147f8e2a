// Package direct is the outward adapter for plain HTTP: the call as the caller
// asked for it, to the target that policy matched.
package direct

import (
	"context"
	"encoding/json"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Secrets fills the placeholders in what an entry adds.
type Secrets interface {
	// Resolve returns the value, and the secrets that went into it with those that
	// stood in their place before.
	Resolve(template string) (value secrets.Value, used []secrets.Value, err error)
}

// Adapter makes calls through the guarded client.
type Adapter struct {
	client   *outbound.Client
	secrets  Secrets
	redactor *redact.Redactor
}

// New returns an Adapter. The redactor decides which headers' values are hidden
// in the answers that are kept.
func New(c *outbound.Client, s Secrets, r *redact.Redactor) *Adapter {
	return &Adapter{client: c, secrets: s, redactor: r}
}

// Open dials the target of the pass.
func (a *Adapter) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	if !p.Valid() {
		return nil, call.ErrNoPass
	}
	conn, err := a.client.Open(ctx, p.Permit())
	if err != nil {
		return nil, err
	}
	return &exchange{adapter: a, conn: conn, pass: p}, nil
}

type exchange struct {
	adapter *Adapter
	conn    *outbound.Conn
	pass    guard.Pass
}

func (e *exchange) Close() { e.conn.Close() }

// Do reads the entry's secrets, which is as late as it can be, and sends.
func (e *exchange) Do(ctx context.Context) (call.Reply, error) {
	own, err := e.additions()
	if err != nil {
		return call.Reply{}, err
	}
	c := e.pass.Call()
	body, err := Body(c)
	if err == nil {
		body, err = withMembers(body, own.body)
	}
	if err != nil {
		return call.Reply{}, &fault.Call{Code: schemas.DenyBody, Cause: err}
	}
	req := outbound.Request{
		Headers: c.Headers, Injected: own.headers, Query: own.query,
		Body: body, IdempotencyKey: c.IdempotencyKey,
	}
	if body != nil {
		req.ContentType = "application/json"
	}
	resp, err := e.conn.Do(ctx, req)
	if err != nil {
		return call.Reply{}, err
	}
	return e.answer(resp, own.secret), nil
}

// Body is what a call sends: its JSON as it came, or the text in it.
func Body(c schemas.HTTPCall) ([]byte, error) {
	if c.Body == nil || !c.TextBody {
		return c.Body, nil
	}
	var text string
	if err := json.Unmarshal(c.Body, &text); err != nil {
		return nil, err
	}
	return []byte(text), nil
}
