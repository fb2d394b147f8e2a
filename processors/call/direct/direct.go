// Package direct is the outward adapter for plain HTTP: the call as the caller
// asked for it, to the target that policy matched.
package direct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// Secrets fills the placeholders in an entry's header values.
type Secrets interface {
	// Resolve returns the value and the secrets that went into it.
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
	injected, used, err := e.credentials()
	if err != nil {
		return call.Reply{}, err
	}
	c := e.pass.Call()
	body, err := Body(c)
	if err != nil {
		return call.Reply{}, &fault.Call{Code: schemas.DenyBody, Cause: err}
	}
	req := outbound.Request{Headers: c.Headers, Injected: injected, Body: body, IdempotencyKey: c.IdempotencyKey}
	if body != nil {
		req.ContentType = "application/json"
	}
	resp, err := e.conn.Do(ctx, req)
	if err != nil {
		return call.Reply{}, err
	}
	return call.Reply{Answer: e.answer(resp, used), Location: resp.Location}, nil
}

// credentials are the headers that the entry adds, and the secrets in them. A
// redirect carries none, but what it leads to may know them all the same.
func (e *exchange) credentials() (injected []schemas.Header, used []string, err error) {
	for name, template := range e.pass.Headers() {
		value, parts, err := e.adapter.secrets.Resolve(template)
		if err != nil {
			return nil, nil, &fault.Call{Code: schemas.SecretUnavailable, Cause: err}
		}
		if !e.pass.Hop() {
			injected = append(injected, schemas.Header{Name: name, Value: value.ExposeSecret()})
		}
		for _, s := range parts {
			used = append(used, s.ExposeSecret())
		}
	}
	return injected, used, nil
}

// snippetLength is how many code points of a body are kept in the open.
const snippetLength = 512

// answer is the response as it is kept: secrets taken out by value, headers by
// name, and only then cut.
func (e *exchange) answer(r *outbound.Response, used []string) schemas.Answer {
	raw, headers := r.Body, r.Headers
	if len(used) > 0 {
		scrub := redact.Values(used)
		raw = scrub.Bytes(raw)
		headers = make([]schemas.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = schemas.Header{Name: h.Name, Value: scrub.String(h.Value)}
		}
	}
	body, isJSON := document(raw)
	a := schemas.Answer{
		Status: r.Status, Headers: e.adapter.redactor.Headers(headers),
		Body: body, JSON: isJSON, Snippet: snippet(raw), RetryAfter: r.RetryAfter,
	}
	if len(r.Body) > 0 {
		sum := sha256.Sum256(r.Body)
		a.Hash = hex.EncodeToString(sum[:])
	}
	return a
}

// document is a body as JSON: itself where it is JSON, a string where it is
// anything else, null where there is none.
func document(raw []byte) (doc json.RawMessage, isJSON bool) {
	if len(raw) == 0 {
		return json.RawMessage("null"), false
	}
	if call.Shallow(raw, maxDepth) && utf8.Valid(raw) && json.Valid(raw) {
		return bytes.TrimSpace(raw), true
	}
	text, err := json.Marshal(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if err != nil { // a string always marshals
		return json.RawMessage("null"), false
	}
	return text, false
}

// maxDepth is how deep an answer's JSON may be nested and still be kept as JSON.
// It lies inside records that lie inside answers, and every reader on the way has
// a limit of its own.
const maxDepth = 512

// snippet is the first code points of a body, invalid bytes dropped.
func snippet(raw []byte) string {
	text := strings.ToValidUTF8(string(raw), "")
	n := 0
	for i := range text {
		if n == snippetLength {
			return text[:i]
		}
		n++
	}
	return text
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
