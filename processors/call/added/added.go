// Package added computes the additions of a call's entry to its request, with their secrets, and
// the values to redact from the response.
package added

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/traceparent"
	"weir/processors/guard"
	"weir/schemas"
)

// Secrets fills the placeholders in what an entry adds.
type Secrets interface {
	// Resolve returns the value, and the secrets in it together with their previous values.
	Resolve(template string) (value secrets.Value, used []secrets.Value, err error)
}

// Additions are what the entry adds to one request, secrets filled in.
type Additions struct {
	Headers, Query, Body []schemas.Header
	secret               []string
	span                 string // of the call, for its target
}

// Scrubber takes what was added, where it is secret, and the caller's own credentials
// out of an answer.
func (a *Additions) Scrubber() *redact.Scrubber {
	if len(a.secret) == 0 {
		return nil
	}
	return redact.Values(a.secret)
}

// errUnfit is the cause if a secret's value is not allowed at its position.
var errUnfit = errors.New("a value cannot be sent where its entry puts it")

// Read reads the entry's secrets, so it is called as late as possible. A redirect carries no
// secrets, but its target may know them anyway, so they are read for redaction. If a secret cannot
// be read, or does not fit, the error is a *fault.Call that was not sent.
//
// A header for the call's span gets the span of ctx.
func Read(ctx context.Context, s Secrets, p guard.Pass) (Additions, error) {
	a := Additions{span: traceparent.From(ctx), secret: own(p.Credentials())}
	var err error
	if a.Headers, err = a.fill(s, p.Headers(), headerText); err != nil {
		return Additions{}, err
	}
	if a.Query, err = a.fill(s, p.Query(), anyText); err != nil {
		return Additions{}, err
	}
	if a.Body, err = a.fill(s, p.Body(), utf8.ValidString); err != nil {
		return Additions{}, err
	}
	if p.Hop() {
		return Additions{secret: a.secret}, nil
	}
	return a, nil
}

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

// own are the secrets in headers of the caller's: each value, what follows the scheme of an
// authorization, and the values of cookies.
func own(headers []schemas.Header) []string {
	var list []string
	for _, h := range headers {
		list = append(append(list, h.Value), basic(h.Value)...)
		if !strings.EqualFold(h.Name, "Cookie") {
			_, credentials, _ := strings.Cut(h.Value, " ")
			list = append(list, credentials)
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

// fill resolves templates, in the order of their names.
func (a *Additions) fill(s Secrets, templates map[string]string, fits func(string) bool) ([]schemas.Header, error) {
	var list []schemas.Header
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		if policy.IsTrace(name, templates[name]) {
			if a.span != "" {
				list = append(list, schemas.Header{Name: name, Value: a.span})
			}
			continue
		}
		value, parts, err := s.Resolve(templates[name])
		if err == nil && !fits(value.ExposeSecret()) {
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

// anyText: a query can hold every text, escaped.
func anyText(string) bool { return true }

// basic are the credentials in a value of the Basic scheme, together and the
// password alone: a target that answers with them has decoded them.
func basic(value string) []string {
	scheme, encoded, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "basic") {
		return nil
	}
	encoded = strings.TrimRight(strings.TrimSpace(encoded), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		if decoded, err = base64.RawURLEncoding.DecodeString(encoded); err != nil {
			return nil
		}
	}
	_, password, _ := strings.Cut(string(decoded), ":")
	return []string{string(decoded), password}
}

// Members adds members at the end of a JSON object, without changing any of its bytes. Policy has
// checked that the body is an object without these members. Members checks the object again,
// because other text could leak the secret.
func Members(body []byte, members []schemas.Header) ([]byte, error) {
	if len(members) == 0 || body == nil {
		return body, nil
	}
	end := bytes.LastIndexByte(body, '}')
	start := bytes.IndexByte(body, '{')
	if start < 0 || end <= start || len(bytes.TrimSpace(body[:start])) > 0 || len(bytes.TrimSpace(body[end+1:])) > 0 {
		return nil, errors.New("the body is not a JSON object")
	}
	var b bytes.Buffer
	b.Write(body[:end])
	first := len(bytes.TrimSpace(body[start+1:end])) == 0
	for _, m := range members {
		if !first {
			b.WriteByte(',')
		}
		first = false
		if err := quote(&b, m.Name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := quote(&b, m.Value); err != nil {
			return nil, err
		}
	}
	b.Write(body[end:])
	return b.Bytes(), nil
}

// quote writes a JSON string without escaping what HTML would want escaped.
func quote(b *bytes.Buffer, s string) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's line break
	return nil
}
