package plans

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"weir/internal/policy/callbody"
	"weir/internal/policy/callurl"
	"weir/processors/call"
	"weir/schemas"
)

// View is how a decision's call shows in reports and evidence.
type View struct {
	Method string
	// URL is the final URL, with the fragment that is never sent.
	URL string
	// Fingerprint names the call without a value: see callurl.Target.
	Fingerprint string
	// IdempotencyKey is the target state's own, "" where it has none.
	IdempotencyKey string

	asked string // the URL as the decision gave it
	key   string // the allowlist key
}

// The refusals of a target state, word for word as controllers know them.
var (
	errNoURL   = errors.New("http target_state requires 'url'")
	errHeaders = errors.New("http target_state headers must be a mapping")
	errParams  = errors.New("http target_state params must be a mapping")
	errNoKey   = errors.New("http target_state must include allowlist_key")
)

// maxNesting is how deep a target state may be nested.
const maxNesting = 100

// Translate turns a decision's target state into the call it describes. It
// checks the form alone, in the order url, headers, params, allowlist key; policy
// checks the rest. Unknown members are ignored. The error's text is the message for the report. A body without
// a Content-Type header is left for the adapter to name.
func Translate(raw json.RawMessage) (schemas.HTTPCall, View, error) {
	var st map[string]json.RawMessage // a struct would take other spellings of a name
	if !call.Shallow(raw, maxNesting) || json.Unmarshal(raw, &st) != nil {
		return schemas.HTTPCall{}, View{}, Failure("the target_state cannot be read")
	}
	asked, ok := str(st["url"])
	if !ok {
		return schemas.HTTPCall{}, View{}, errNoURL
	}
	headers, err := mapping(st["headers"], errHeaders)
	if err != nil {
		return schemas.HTTPCall{}, View{}, err
	}
	params, err := mapping(st["params"], errParams)
	if err != nil {
		return schemas.HTTPCall{}, View{}, err
	}
	key, _ := str(st["allowlist_key"])
	if key == "" {
		return schemas.HTTPCall{}, View{}, errNoKey
	}
	call := schemas.HTTPCall{Method: method(st["method"]), AllowlistKey: key}
	if call.Headers, err = fields(headers); err != nil {
		return schemas.HTTPCall{}, View{}, err
	}
	if err := body(&call, st); err != nil {
		return schemas.HTTPCall{}, View{}, err
	}
	pairs := make([]callurl.Pair, 0, len(params))
	for _, m := range params {
		pairs = append(pairs, callurl.Pair{Name: m.name, Value: text(m.value)})
	}
	view := View{Method: call.Method, URL: callurl.With(asked, pairs), asked: asked, key: key}
	view.Fingerprint = callurl.Target(call.Method, view.URL)
	if !falsy(st["idempotency_key"]) {
		view.IdempotencyKey = text(st["idempotency_key"])
	}
	call.URL = callurl.Sendable(view.URL)
	idempotency(&call, view.IdempotencyKey)
	return call, view, nil
}

// method is upper-cased; absent, it is GET.
func method(raw json.RawMessage) string {
	if absent(raw) {
		return http.MethodGet
	}
	return strings.ToUpper(text(raw))
}

// body gives a call its body: in body the content of a string, or the JSON of any other value, byte for
// byte. An empty string there is no body.
func body(call *schemas.HTTPCall, st map[string]json.RawMessage) error {
	forms := callbody.Forms{Body: st["body"], Text: st["body_text"], Base64: st["body_base64"], Form: st["form"]}
	s, isText := str(forms.Body)
	if isText && s == "" {
		forms.Body = nil
	}
	if wrong, ok := errors.AsType[*callbody.Error](forms.Put(call)); ok {
		return errors.New("http target_state " + wrong.Error())
	}
	call.TextBody = call.TextBody || isText && s != ""
	return nil
}

// idempotency names the key that goes out: the caller's own header, else the
// target state's key, which only a call that may change something has. Either is
// a key to policy, and no header.
func idempotency(call *schemas.HTTPCall, key string) {
	own := slices.IndexFunc(call.Headers, func(h schemas.Header) bool {
		return strings.EqualFold(h.Name, "Idempotency-Key")
	})
	if own >= 0 && call.Headers[own].Value != "" {
		call.IdempotencyKey = call.Headers[own].Value
		call.Headers = slices.Delete(call.Headers, own, own+1)
		return
	}
	if own < 0 && call.Method != http.MethodGet && call.Method != http.MethodHead {
		call.IdempotencyKey = key
	}
}

// fields are the caller's headers, sorted by name. A value that is a number or a
// boolean is sent as its text; anything else that is no string is refused.
func fields(m []member) ([]schemas.Header, error) {
	if len(m) == 0 {
		return nil, nil
	}
	list := make([]schemas.Header, 0, len(m))
	for _, h := range m {
		switch h.value[0] {
		case '{', '[', 'n':
			return nil, Failure("header values must be strings")
		}
		list = append(list, schemas.Header{Name: h.name, Value: text(h.value)})
	}
	slices.SortStableFunc(list, func(a, b schemas.Header) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list, nil
}

// mapping reads an object's members in their order. What counts as nothing
// (null, false, 0, "", an empty list) is an empty mapping.
func mapping(raw json.RawMessage, other error) ([]member, error) {
	if falsy(raw) {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, other
	}
	return members(raw), nil
}

// absent reports whether a member is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// str is a JSON string's content.
func str(raw json.RawMessage) (s string, ok bool) {
	ok = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// Failure is the message of a permitted call that failed.
func Failure(cause string) error { return errors.New("http connector failed: " + cause) }

// Denied is the message of a call that policy refuses, in the exact text that controllers know. The
// URL is shown as in the decision, without the user before the host's '@'.
func (v View) Denied(d schemas.Decision) string {
	if d.Code == schemas.DenyKeyUnknown {
		return "unknown allowlist key '" + v.key + "'"
	}
	message := "http target '" + anonymous(v.asked) + "' is not allowed for '" + v.Method + "'"
	switch d.Code {
	case schemas.DenyHeader, schemas.DenyBody, schemas.DenySchema:
		// The target is allowed; the request is not, which the words do not tell.
		if d.Reason != "" {
			message += ": " + d.Reason
		}
	default:
	}
	return message
}

// anonymous hides user information.
func anonymous(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return scheme + "://REDACTED" + rest[at:]
	}
	return url
}
