package passthrough

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/session"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/internal/token"
	"weir/internal/wire"
	"weir/schemas"
)

// untyped is the media type of a body that came without one.
const untyped = "application/octet-stream"

// call is the call that a request asks for, without its URL and key.
func call(r *http.Request, body []byte) schemas.HTTPCall {
	c := schemas.HTTPCall{Method: r.Method, Headers: headers(r.Header)}
	if len(body) == 0 {
		return c
	}
	c.ContentType = untyped
	if c.TextBody = utf8.Valid(body); c.TextBody {
		c.Body, _ = jsontext.AppendQuote(nil, body) // valid UTF-8: cannot fail
	} else {
		c.Base64Body = true
		c.Body = append(base64.StdEncoding.AppendEncode([]byte{'"'}, body), '"')
	}
	return c
}

// decoded is a body without the coding gzip, in which git's clients and some libraries send theirs.
// Policy and traffic rules read the plain body, and the target receives it. most bounds its bytes.
// The header loses the field of that coding.
func decoded(w http.ResponseWriter, h http.Header, body []byte, most int64) ([]byte, error) {
	switch coding := strings.ToLower(strings.Join(h.Values("Content-Encoding"), ", ")); coding {
	case "":
		return body, nil
	case "gzip", "x-gzip":
	case "identity":
		h.Del("Content-Encoding")
		return body, nil
	default:
		w.Header().Set("Accept-Encoding", "gzip, identity") // RFC 9110, section 15.5.16
		return nil, fault.New(schemas.UnsupportedEncoding, "the body has a coding that is not read here; send it plain, or with Content-Encoding: gzip")
	}
	in, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(in, most+1))
	}
	switch {
	case err != nil:
		return nil, fault.New(schemas.InvalidRequest, "the body is not the gzip that Content-Encoding announces; send it plain, or compress it again")
	case int64(len(body)) > most:
		return nil, fault.New(schemas.PayloadTooLarge, "the decompressed body is larger than "+strconv.FormatInt(most, 10)+" bytes, the limit limits.body of the configuration; send less")
	}
	h.Del("Content-Encoding")
	return body, nil
}

// headers are the fields that are meant for the target, sorted by name. Repeated fields are joined,
// as RFC 9110 permits.
func headers(h http.Header) []schemas.Header {
	var list []schemas.Header
	var named []string
	for _, value := range h["Connection"] {
		named = wire.Named(named, value)
	}
	for name, values := range h {
		if len(values) == 0 || own(name) || slices.Contains(named, name) {
			continue
		}
		value := strings.Join(values, ", ")
		if name == "Cookie" {
			if value = session.Without(strings.Join(values, "; ")); value == "" {
				continue
			}
		}
		list = append(list, schemas.Header{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b schemas.Header) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// own reports whether a field, in canonical case, is of the connection, of Weir, or of a load
// balancer before it.
func own(name string) bool {
	switch name {
	case "Host", "Content-Length", "Expect", "Accept-Encoding", "Prefer", "Idempotency-Key",
		"Traceparent", "Tracestate", "Forwarded", "Via", "X-Real-Ip":
		return true
	}
	return wire.PerConnection(name) || strings.HasPrefix(name, "Weir-") || strings.HasPrefix(name, "X-Forwarded-")
}

// Token is the Weir token of a client that puts its key where the API of its target has it: in
// Authorization with the schemes Bearer and token, as user or password of Basic, or in X-Api-Key.
// It is empty if there is none.
func Token(h http.Header) string {
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		for _, value := range h[name] {
			if text := tokenIn(name, value); text != "" {
				return text
			}
		}
	}
	return ""
}

// withoutTokens are the fields but for the credentials that have a Weir token in them: no target
// gets one, whatever it was sent for.
func withoutTokens(h http.Header) http.Header {
	rest := h.Clone()
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if rest[name] = slices.DeleteFunc(rest[name], func(v string) bool { return tokenIn(name, v) != "" }); len(rest[name]) == 0 {
			delete(rest, name)
		}
	}
	return rest
}

// maxCredential bounds what is looked at of a credential.
const maxCredential = 2048

// tokenIn is the Weir token in the value of a field; empty: there is none.
func tokenIn(name, value string) string {
	if len(value) > maxCredential {
		return ""
	}
	given := []string{strings.TrimSpace(value)}
	if scheme, rest, ok := strings.Cut(value, " "); ok && name == "Authorization" {
		rest = strings.TrimSpace(rest)
		switch {
		case strings.EqualFold(scheme, "Bearer"), strings.EqualFold(scheme, "token"):
			given = []string{rest}
		case strings.EqualFold(scheme, "Basic"):
			pair, _ := base64.StdEncoding.DecodeString(rest) // what cannot be decoded has no token
			user, password, _ := strings.Cut(string(pair), ":")
			given = []string{user, password}
		}
	}
	for _, text := range given {
		if token.Is(text) || task.Is(text) {
			return text
		}
	}
	return ""
}
