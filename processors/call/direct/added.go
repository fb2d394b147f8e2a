package direct

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/fault"
	"weir/internal/redact"
	"weir/schemas"
)

// additions are what the entry adds to one request, secrets filled in, and what
// is to be scrubbed from whatever comes back.
type additions struct {
	headers, query, body []schemas.Header
	secret               []string
}

// errUnfit is behind the refusal of a secret that cannot stand where it is to go.
var errUnfit = errors.New("a value cannot be sent where its entry puts it")

// additions reads the entry's secrets, which is as late as it can be. A redirect
// carries none of them, but what it leads to may know them all the same: they
// are read for what is to be scrubbed. A secret that cannot be read, or does not
// fit, fails the call before anything is sent.
func (e *exchange) additions() (additions, error) {
	var a additions
	var err error
	if a.headers, err = e.fill(e.pass.Headers(), headerText, &a.secret); err != nil {
		return additions{}, err
	}
	if a.query, err = e.fill(e.pass.Query(), anyText, &a.secret); err != nil {
		return additions{}, err
	}
	if a.body, err = e.fill(e.pass.Body(), utf8.ValidString, &a.secret); err != nil {
		return additions{}, err
	}
	if e.pass.Hop() {
		return additions{secret: a.secret}, nil
	}
	return a, nil
}

// fill resolves templates, in the order of their names.
func (e *exchange) fill(templates map[string]string, fits func(string) bool, secret *[]string) ([]schemas.Header, error) {
	var list []schemas.Header
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		value, parts, err := e.adapter.secrets.Resolve(templates[name])
		if err == nil && !fits(value.ExposeSecret()) {
			err = errUnfit
		}
		if err != nil {
			return nil, &fault.Call{Code: schemas.SecretUnavailable, Cause: err}
		}
		text := value.ExposeSecret()
		list = append(list, schemas.Header{Name: name, Value: text})
		for _, p := range parts {
			*secret = append(*secret, p.ExposeSecret())
		}
		if len(parts) > 0 || redact.Credential(name) {
			*secret = append(append(*secret, text), basic(text)...)
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

// withMembers adds members behind the last one of a JSON object, of which no
// byte is changed. Policy has seen to it that a body is an object and has none
// of them; that it is an object is looked at again, as what is not would carry
// the secret who knows where.
func withMembers(body []byte, members []schemas.Header) ([]byte, error) {
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
