package passthrough

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/accept"
	"weir/ingress/session"
	"weir/internal/ledger"
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
		switch name {
		case "Cookie":
			value = session.Without(strings.Join(values, "; "))
		case "Prefer":
			value = accept.Foreign(values)
		}
		if value == "" && (name == "Cookie" || name == "Prefer") {
			continue
		}
		list = append(list, schemas.Header{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b schemas.Header) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// recognised is what a repeat of a call with the same key must have in common with it. Clients change some
// fields when they try again.
func recognised(c schemas.HTTPCall) (json.RawMessage, error) {
	c.Headers = slices.DeleteFunc(slices.Clone(c.Headers), func(h schemas.Header) bool {
		name := strings.ToLower(h.Name)
		return slices.Contains(perTry(), name) || slices.ContainsFunc(perTryPrefixes(), func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	return ledger.Encode(c)
}

// perTry are the fields that name a program, a trace or a try, and do not change what a call does.
func perTry() []string {
	return []string{
		"b3", "baggage", "date", "priority", "sentry-trace", "user-agent", "x-amzn-trace-id", "x-client-request-id", "x-cloud-trace-context",
		"x-correlation-id", "x-goog-api-client", "x-ms-client-request-id", "x-request-id",
	}
}

func perTryPrefixes() []string {
	return []string{"amz-sdk-", "x-b3-", "x-datadog-", "x-retry-", "x-stainless-"}
}

// own reports whether a field, in canonical case, is of the connection, of Weir, or of a load
// balancer before it.
func own(name string) bool {
	switch name {
	case "Host", "Content-Length", "Expect", "Accept-Encoding", "Idempotency-Key",
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
