package dial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/traceparent"
	"weir/schemas"
)

// Secrets fills the placeholders in what an entry adds.
type Secrets interface {
	// Resolve returns the value, and the secrets in it together with their previous values.
	Resolve(template string) (value secrets.Value, used []secrets.Value, err error)
}

// request is what the call of the pass sends, and what takes the entry's secrets and the caller's own
// credentials out of the answer; nil: there is nothing to take out. A redirect carries no secrets, but
// its target may know them anyway, so they are read for redaction. If a secret cannot be read, or does
// not fit, the error is a *fault.Call that was not sent.
//
// A header for the call's span gets the span of ctx.
func (e *exchange) request(ctx context.Context) (req outbound.Request, scrub *redact.Scrubber, err error) {
	c, added := e.pass.Call(), e.pass.Added()
	body, err := c.Sent()
	if err != nil {
		return req, nil, &fault.Call{Code: schemas.DenyBody, Cause: err}
	}
	req = outbound.Request{Headers: c.Headers, Body: body, IdempotencyKey: c.IdempotencyKey}
	if body != nil || c.BodyBlob != "" {
		req.ContentType = cmp.Or(c.ContentType, "application/json")
	}
	own := additions{secrets: e.adapter.Secrets, span: traceparent.From(ctx), secret: credentials(e.pass.Credentials())}
	var members []schemas.Header
	if len(added.Headers) > 0 {
		req.Injected, err = own.fill(added.Headers, headerText)
	}
	if err == nil && len(added.Query) > 0 {
		req.Query, err = own.fill(added.Query, nil)
	}
	if err == nil && len(added.Body) > 0 {
		members, err = own.fill(added.Body, utf8.ValidString)
	}
	if err != nil {
		return req, nil, err
	}
	if e.pass.IsRedirect() {
		req.Injected, req.Query, members = nil, nil, nil
	}
	if len(members) > 0 && body != nil {
		if req.Body, err = withMembers(body, members); err != nil {
			return req, nil, &fault.Call{Code: schemas.DenyBody, Cause: err}
		}
	}
	if len(own.secret) > 0 {
		scrub = redact.Values(own.secret)
	}
	return req, scrub, nil
}

// additions are what an entry adds to one request while its secrets are filled in.
type additions struct {
	secrets Secrets
	secret  []string
	span    string // of the call, for its target
}

// errUnfit is the cause if a secret's value is not allowed at its position.
var errUnfit = errors.New("a value cannot be sent where its entry puts it")

const (
	// minCookie is the shortest value of one cookie that is taken out by itself. Shorter
	// ones are words that answers have for other reasons.
	minCookie = 16
	// maxCookies is how many are: each makes the search slower, and hundreds fit in a
	// header. The longest go first.
	maxCookies = 16
)

// minOwn is the shortest value of a caller's that is taken out of answers. Shorter ones, such as
// null or test, are words that answers have for other reasons.
const minOwn = 8

// credentials are the secrets in headers of the caller's: each value, what follows the scheme of an
// authorization, and the values of cookies.
func credentials(headers []schemas.Header) []string {
	var list []string
	for _, h := range headers {
		list = append(append(list, h.Value), basic(h.Value)...)
		if !strings.EqualFold(h.Name, "Cookie") {
			_, token, _ := strings.Cut(h.Value, " ")
			list = append(list, token)
			continue
		}
		list = append(list, cookies(h.Value)...)
	}
	return slices.DeleteFunc(list, func(value string) bool { return len(value) < minOwn })
}

// cookies are the values in a Cookie header that are taken out by themselves.
func cookies(header string) []string {
	var list []string
	for pair := range strings.SplitSeq(header, ";") {
		_, value, _ := strings.Cut(pair, "=")
		if value = strings.Trim(value, ` "`); len(value) >= minCookie {
			list = append(list, value)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list[:min(len(list), maxCookies)]
}

// fill resolves templates, in the order of their names. fits holds for a value that can be sent
// there; nil: all can.
func (a *additions) fill(templates map[string]string, fits func(string) bool) ([]schemas.Header, error) {
	var list []schemas.Header
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		if policy.IsTrace(name, templates[name]) {
			if a.span != "" {
				list = append(list, schemas.Header{Name: name, Value: a.span})
			}
			continue
		}
		value, parts, err := a.secrets.Resolve(templates[name])
		if err == nil && fits != nil && !fits(value.ExposeSecret()) {
			err = errUnfit
		}
		if err != nil {
			return nil, &fault.Call{Code: schemas.SecretUnavailable, Cause: err}
		}
		text := value.ExposeSecret()
		list = append(list, schemas.Header{Name: name, Value: text})
		for _, p := range parts {
			a.secret = append(a.secret, p.ExposeSecret())
		}
		if len(parts) > 0 || redact.Credential(name) {
			a.secret = append(append(a.secret, text), basic(text)...)
		}
	}
	return list, nil
}

// headerText holds for what is one header value.
func headerText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && unicode.IsControl(r) })
}

// basic are the credentials in a value of the Basic scheme, together and the
// password alone: a target that answers with them has decoded them.
func basic(value string) []string {
	scheme, encoded, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return nil
	}
	encoded = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSpace(encoded)) // of either alphabet
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil
	}
	_, password, _ := strings.Cut(string(decoded), ":")
	return []string{string(decoded), password}
}

// withMembers adds members at the end of a JSON object, without changing any of its bytes. Policy has
// checked that the body is an object without these members. It is checked again here,
// because other text could leak the secret.
func withMembers(body []byte, members []schemas.Header) ([]byte, error) {
	end := bytes.LastIndexByte(body, '}')
	if end < 0 || len(bytes.TrimSpace(body[end+1:])) > 0 || bytes.TrimSpace(body)[0] != '{' {
		return nil, errors.New("the body is not a JSON object")
	}
	out, empty := slices.Clone(body[:end]), bytes.HasSuffix(bytes.TrimSpace(body[:end]), []byte("{"))
	for i, m := range members {
		if i > 0 || !empty {
			out = append(out, ',')
		}
		var err error
		if out, err = jsontext.AppendQuote(out, m.Name); err == nil {
			out, err = jsontext.AppendQuote(append(out, ':'), m.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(out, body[end:]...), nil
}
