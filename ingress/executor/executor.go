// Package executor translates the bodies of POST /v1/execute to calls. It
// performs nothing and knows no HTTP: bytes in, a call or a named error out.
package executor

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/policy"
	"weir/schemas"
)

// Primitive is the only type of primitive that is served.
const Primitive = "Http"

// Policy is what translation asks of the policy in force.
type Policy interface {
	// Evaluate decides about a call, without DNS, and says its class.
	Evaluate(call schemas.HTTPCall) (schemas.Decision, schemas.Class)
	// MaxTimeout is the longest that one attempt may take.
	MaxTimeout() time.Duration
}

// Request is one translated body.
type Request struct {
	// ID is the caller's request_id, or "".
	ID    string
	Call  schemas.HTTPCall
	Class schemas.Class
	// Decision is policy's answer on ingress. The worker evaluates it again.
	Decision schemas.Decision
}

// Denied reports whether policy refused the call. The request must be stored anyway, so that the
// denial has evidence.
func (r Request) Denied() bool { return !r.Decision.Allowed }

// Kept is what is stored of the call: all of it, unless policy denies it. A tenant with traffic rules may have one
// for this action alone, whose id is not known yet, and rules that cannot be read deny for as long as that lasts: then
// the worker decides about the whole call.
func (r Request) Kept() schemas.HTTPCall {
	if !r.Denied() || r.Decision.Traffic != nil || r.Decision.Code == schemas.DenyRule {
		return r.Call
	}
	sent, err := r.Call.Sent()
	if err != nil { // Translate has read it
		sent = r.Call.Body
	}
	d := &schemas.DeniedCall{Decision: r.Decision, BodySHA256: r.Call.BodyBlob, BodyBytes: r.Call.BodyBytes}
	if d.BodyBytes = cmp.Or(d.BodyBytes, len(sent)); d.BodyBytes > 0 && d.BodySHA256 == "" {
		sum := sha256.Sum256(sent)
		d.BodySHA256 = hex.EncodeToString(sum[:])
	}
	return schemas.HTTPCall{Method: r.Call.Method, URL: r.Call.URL, AllowlistKey: r.Call.AllowlistKey, Denied: d}
}

// document is either form of a body: the primitive's envelope, or the bare
// arguments. Members are raw, so that each is refused by its own name.
type document struct {
	Type           jsontext.Value `json:"type"`
	Args           jsontext.Value `json:"args"`
	Postcondition  jsontext.Value `json:"postcondition"`
	IdempotencyKey jsontext.Value `json:"idempotency_key"`
	RequestID      jsontext.Value `json:"request_id"`
	arguments      `json:",inline"`
}

type arguments struct {
	Method         jsontext.Value `json:"method"`
	URL            jsontext.Value `json:"url"`
	Headers        jsontext.Value `json:"headers"`
	Body           jsontext.Value `json:"body"`
	BodyText       jsontext.Value `json:"body_text"`
	BodyBase64     jsontext.Value `json:"body_base64"`
	Form           jsontext.Value `json:"form"`
	ResponseSchema jsontext.Value `json:"response_schema"`
	TimeoutMS      jsontext.Value `json:"timeout_ms"`
	AllowlistKey   jsontext.Value `json:"allowlist_key"`
}

// Translate reads a body that strict.Check has passed. Checks run in a fixed
// order: type, method, url, policy on these, headers; then what is left. The
// first that fails is the error, an *Error.
//
// A call that policy refuses is returned as denied even if a later argument
// is bad. That call is kept in a form that no policy permits, so that a change
// of policy cannot send half of what was asked. Schemas that were compiled before are in a cache.
func Translate(body []byte, p Policy, compiled *jsonschema.Cache) (Request, error) {
	doc, err := open(body)
	if err != nil {
		return Request{}, err
	}
	req := Request{}
	if err := target(&req.Call, doc.arguments); err != nil {
		return Request{}, err
	}
	if req.ID, err = requestID(doc.RequestID); err != nil {
		return Request{}, err
	}
	if err = headers(&req.Call, doc.Headers); err == nil {
		err = rest(&req.Call, doc, p.MaxTimeout(), compiled)
	}
	if err != nil {
		unsendable(&req.Call)
	}
	req.Decision, req.Class = p.Evaluate(req.Call)
	switch code := req.Decision.Code; {
	case unreadable(req.Decision, req.Call.URL):
		return Request{}, badURL(req.Decision)
	case err != nil && (req.Decision.Allowed || code == schemas.DenyHeader || code == schemas.DenyBody):
		return Request{}, err
	default:
		return req, nil
	}
}

// open reads the body as whichever form it has, the arguments in place.
func open(body []byte) (document, error) {
	var doc document
	err := strict.Decode(body, &doc)
	if err != nil {
		return doc, cmp.Or(kindOf(body), unfit(err))
	}
	if doc.Type == nil && doc.Args == nil {
		return doc, misplaced([]member{{"postcondition", doc.Postcondition}, {"idempotency_key", doc.IdempotencyKey}}, "it belongs beside args in the Http primitive")
	}
	if err := kind(doc.Type); err != nil {
		return doc, err
	}
	if strict.Absent(doc.Args) {
		return doc, missing("args")
	}
	if strict.Kind(doc.Args) != '{' {
		return doc, badArgument("args", "must be an object")
	}
	if err := misplaced(doc.members(), "it belongs in args"); err != nil {
		return doc, err
	}
	if err := strict.At("/args", doc.Args, &doc.arguments); err != nil {
		return doc, unfit(err)
	}
	return doc, nil
}

type member struct {
	name  string
	value jsontext.Value
}

func (a arguments) members() []member {
	return []member{
		{"method", a.Method},
		{"url", a.URL},
		{"headers", a.Headers},
		{"body", a.Body},
		{"body_text", a.BodyText},
		{"body_base64", a.BodyBase64},
		{"form", a.Form},
		{"response_schema", a.ResponseSchema},
		{"timeout_ms", a.TimeoutMS},
		{"allowlist_key", a.AllowlistKey},
	}
}

// misplaced refuses members of the other form.
func misplaced(members []member, hint string) error {
	for _, m := range members {
		if m.value != nil {
			return badArgument(m.name, hint)
		}
	}
	return nil
}

// kindOf is the error of the type that a body names, if that is its first
// fault: other primitives have other members.
func kindOf(body []byte) error {
	var outline map[string]jsontext.Value
	if strict.Kind(body) == '{' && json.Unmarshal(body, &outline) == nil && outline["type"] != nil {
		return kind(outline["type"])
	}
	return nil
}

func kind(v jsontext.Value) error {
	if strict.Absent(v) {
		return missing("type")
	}
	name, ok := strict.String(v)
	if !ok {
		return badArgument("type", "must be a string")
	}
	if name != Primitive {
		return &Error{
			Variant: schemas.VariantUnsupportedPrimitive, Code: schemas.ValidationError,
			Message: "unsupported primitive '" + shown(name) + "': only '" + Primitive + "' is served",
		}
	}
	return nil
}

// unreadable reports whether a denial says that the URL is malformed. A denial by an entry says that
// the entry does not permit it: that is stored, as every denial is.
func unreadable(d schemas.Decision, url string) bool {
	if d.Code == schemas.DenyURLInvalid {
		_, wellFormed := policy.Split(url, false)
		return !wellFormed
	}
	return d.Code == schemas.DenyScheme && !strings.Contains(url, "://")
}

// unsendable marks a call whose arguments could not all be read. No policy
// permits a header without a name.
func unsendable(call *schemas.HTTPCall) {
	call.Headers = []schemas.Header{{}}
	call.DropBody()
	call.IdempotencyKey, call.Timeout = "", 0
	call.ResponseSchema, call.Postcondition = nil, nil
}

// unfit words a document that does not fit as the executor's error.
func unfit(err error) error {
	if public, ok := errors.AsType[*fault.Error](err); ok {
		return &Error{Variant: schemas.VariantInvalidArgumentValue, Message: public.Message, Code: public.Code}
	}
	return &Error{Variant: schemas.VariantInvalidArgumentValue, Message: "the body does not fit", Code: schemas.ValidationError}
}
