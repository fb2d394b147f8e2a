package casefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"weir/internal/policy"
	"weir/schemas"
)

// request reads what the row asks. Where a member has a type that no surface
// takes, the code says which check would have refused it; the order of checks
// is kept by the caller, which asks policy first about what comes earlier.
func (q *rowRequest) request() (policy.Request, schemas.Code) {
	r := policy.Request{Method: "GET"}
	var late schemas.Code // what is wrong behind the URL and the method

	if q.AllowlistKey != nil {
		r.KeyRequired = true
		if given(q.AllowlistKey) && json.Unmarshal(q.AllowlistKey, &r.Key) != nil {
			r.Key = ""
		}
	}
	if json.Unmarshal(q.URL, &r.URL) != nil {
		r.URL = ""
	}
	if given(q.Method) && json.Unmarshal(q.Method, &r.Method) != nil {
		r.Method = ""
	}
	if given(q.Params) {
		var err error
		if r.URL, err = merge(r.URL, q.Params); err != nil {
			late = schemas.ValidationError
		}
	}
	if given(q.Headers) {
		headers, err := readHeaders(q.Headers)
		if err != nil {
			late = schemas.DenyHeader
		}
		r.Headers = headers
	}
	if given(q.IdempotencyKey) && json.Unmarshal(q.IdempotencyKey, &r.IdempotencyKey) != nil {
		late = schemas.DenyHeader
	}
	r.Headers, r.IdempotencyKey = policy.DeclareKey(r.Headers, r.IdempotencyKey)
	if given(q.Body) {
		b := readBody(q.Body)
		r.HasBody, r.BodySize, r.BodyDepth = true, b.size, b.depth
		r.Body, r.TextBody = b.value, b.value == nil
		if !b.valid && late == "" {
			late = schemas.DenyBody
		}
	}
	return r, late
}

var errHeaders = errors.New("headers are not an object of strings")

// readHeaders keeps repeats, which a map would lose.
func readHeaders(raw json.RawMessage) ([]schemas.Header, error) {
	var list []schemas.Header
	err := members(raw, func(name string, value json.RawMessage) error {
		h := schemas.Header{Name: name}
		if !isString(value) || json.Unmarshal(value, &h.Value) != nil {
			return errHeaders
		}
		list = append(list, h)
		return nil
	})
	return list, err
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// members calls fn for every member of an object, in order, repeats too.
func members(raw json.RawMessage, fn func(name string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return errors.New("not an object")
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if err := fn(name, value); err != nil {
			return err
		}
	}
	return nil
}

// merge appends params to a URL's query, form-encoded.
func merge(u string, raw json.RawMessage) (string, error) {
	var b strings.Builder
	b.WriteString(u)
	next := byte('?')
	if strings.Contains(u, "?") {
		next = '&'
	}
	err := members(raw, func(name string, value json.RawMessage) error {
		b.WriteByte(next)
		next = '&'
		formEncode(&b, name)
		b.WriteByte('=')
		formEncode(&b, paramText(value))
		return nil
	})
	return b.String(), err
}

func paramText(raw json.RawMessage) string {
	var s string
	switch {
	case isString(raw) && json.Unmarshal(raw, &s) == nil:
		return s
	case string(raw) == "true":
		return "True"
	case string(raw) == "false":
		return "False"
	case string(raw) == "null":
		return "None"
	}
	return string(raw)
}

func formEncode(b *strings.Builder, s string) {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			b.WriteByte('+')
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
}
