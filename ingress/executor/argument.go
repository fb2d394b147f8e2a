package executor

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"weir/ingress/strict"
	"weir/internal/jsonschema"
	"weir/internal/policy/callbody"
	"weir/internal/postcondition"
	"weir/internal/redact"
	"weir/schemas"
)

// target reads what policy decides on first: method, url, allowlist_key.
func target(call *schemas.HTTPCall, a arguments) error {
	if strict.Absent(a.Method) {
		return missing("method")
	}
	method, ok := strict.String(a.Method)
	if !ok {
		return badArgument("method", "must be a string")
	}
	if call.Method = upper(method); !schemas.KnownMethod(call.Method) {
		return &Error{Variant: schemas.VariantInvalidMethod, Message: "invalid http method: " + shown(method), Code: schemas.DenyMethod}
	}
	if strict.Absent(a.URL) {
		return missing("url")
	}
	if call.URL, ok = strict.String(a.URL); !ok {
		return badArgument("url", "must be a string")
	}
	if strict.Absent(a.AllowlistKey) {
		return nil
	}
	if call.AllowlistKey, ok = strict.String(a.AllowlistKey); !ok || call.AllowlistKey == "" {
		return badArgument("allowlist_key", "must be the name of an entry; leave it out for the first entry that fits")
	}
	return nil
}

// upper folds ASCII alone: Unicode folding would turn other letters into the
// ones of a method.
func upper(s string) string {
	m := []byte(s)
	for i, c := range m {
		if 'a' <= c && c <= 'z' {
			m[i] = c - 'a' + 'A'
		}
	}
	return string(m)
}

func requestID(v jsontext.Value) (string, error) {
	if strict.Absent(v) {
		return "", nil
	}
	id, ok := strict.String(v)
	if !ok || !schemas.ValidID(id) {
		return "", badArgument("request_id", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
	}
	return id, nil
}

// headers reads the headers, sorted by name, in the caller's spelling.
func headers(call *schemas.HTTPCall, v jsontext.Value) error {
	if strict.Absent(v) {
		return nil
	}
	var raw map[string]jsontext.Value
	if strict.Kind(v) != '{' || json.Unmarshal(v, &raw) != nil {
		return badArgument("headers", "must be an object of names and strings")
	}
	list := make([]schemas.Header, 0, len(raw))
	for name, v := range raw {
		value, ok := strict.String(v)
		if !ok {
			e := badArgument("headers", "header values must be strings")
			e.Code = schemas.DenyHeader
			return e
		}
		list = append(list, schemas.Header{Name: name, Value: value})
	}
	sortByName(list)
	for i, h := range list {
		switch {
		case !httpguts.ValidHeaderFieldName(h.Name):
			return &Error{Variant: schemas.VariantInvalidHeaderName, Message: "invalid header name '" + shown(h.Name) + "'", Code: schemas.DenyHeader}
		case !redact.Printable(h.Value):
			return &Error{
				Variant: schemas.VariantInvalidHeaderValue, Code: schemas.DenyHeader,
				Message: "invalid header value for '" + shown(h.Name) + "': only visible ASCII, space and tab are allowed",
			}
		case i > 0 && strings.EqualFold(list[i-1].Name, h.Name):
			return badArgument("headers", "'"+shown(h.Name)+"' stands twice, in two spellings; send it once")
		}
	}
	call.Headers = list
	return nil
}

func sortByName(list []schemas.Header) {
	slices.SortFunc(list, func(a, b schemas.Header) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name))
	})
}

// rest reads what says nothing about where the call goes.
func rest(call *schemas.HTTPCall, doc document, longest time.Duration, compiled *jsonschema.Cache) error {
	err := callbody.Forms{Body: doc.Body, Text: doc.BodyText, Base64: doc.BodyBase64, Form: doc.Form}.Put(call)
	if wrong, ok := errors.AsType[*callbody.Error](err); ok {
		return badArgument(wrong.Member, wrong.Reason)
	}
	if err == nil && !strict.Absent(doc.TimeoutMS) {
		err = timeout(call, doc.TimeoutMS, longest)
	}
	if err == nil && !strict.Absent(doc.IdempotencyKey) {
		err = key(call, doc.IdempotencyKey)
	}
	if err == nil && !strict.Absent(doc.ResponseSchema) {
		err = responseSchema(call, doc.ResponseSchema, compiled)
	}
	if err == nil && !strict.Absent(doc.Postcondition) {
		err = assertions(call, doc.Postcondition)
	}
	return err
}

func timeout(call *schemas.HTTPCall, v jsontext.Value, longest time.Duration) error {
	ms, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
	if err != nil || ms < 1 || ms > longest.Milliseconds() {
		return badArgument("timeout_ms", "must be a whole number of milliseconds from 1 to "+strconv.FormatInt(longest.Milliseconds(), 10))
	}
	call.Timeout = time.Duration(ms) * time.Millisecond
	return nil
}

// maxKey is the longest idempotency key that is sent on.
const maxKey = 255

func key(call *schemas.HTTPCall, v jsontext.Value) error {
	k, ok := strict.String(v)
	if !ok || k == "" || len(k) > maxKey || !redact.Printable(k) || strings.TrimSpace(k) != k {
		return badArgument("idempotency_key", "must be 1 to 255 visible ASCII characters")
	}
	call.IdempotencyKey = k
	return nil
}

// responseSchema reads a document that is used only when the answer is there, like assertions. A bad one is
// refused at once.
func responseSchema(call *schemas.HTTPCall, v jsontext.Value, compiled *jsonschema.Cache) error {
	switch strict.Kind(v) {
	case '{', 't', 'f':
	default:
		return badArgument("response_schema", "must be a JSON Schema: an object, true or false")
	}
	if _, err := compiled.Compile(stdjson.RawMessage(v)); err != nil {
		return &Error{
			Variant: schemas.VariantInvalidSchema, Code: schemas.DenySchema,
			Message: "invalid response schema: " + sentence(err),
		}
	}
	call.ResponseSchema = stdjson.RawMessage(v)
	return nil
}

func assertions(call *schemas.HTTPCall, v jsontext.Value) error {
	if _, err := postcondition.Parse(stdjson.RawMessage(v)); err != nil {
		variant, what := schemas.VariantInvalidPostcondition, "invalid"
		if bad, ok := errors.AsType[*postcondition.Error](err); ok && bad.Variant == schemas.VariantUnsupportedPostcondition {
			variant, what = bad.Variant, "unsupported"
		}
		return &Error{Variant: variant, Code: schemas.ValidationError, Message: what + " postcondition: " + sentence(err)}
	}
	call.Postcondition = stdjson.RawMessage(v)
	return nil
}
