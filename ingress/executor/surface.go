package executor

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/policy/callbody"
	"weir/internal/problem"
	"weir/schemas"
)

// Config of the surface.
type Config struct {
	// Policy returns what decides about a caller's calls.
	Policy func(who grant.Caller) Policy
	// Batch answers for a batch. An item with a receipt is an accepted action of the tenant: it waits
	// for that action's end as wait says, and calls release once it needs no notice of it any more.
	// The other items are answered as they are.
	Batch func(w http.ResponseWriter, r *http.Request, tenant string, items []schemas.BatchItem, wait func(i int) time.Duration, release func(i int))

	compiled *jsonschema.Cache // of the requests' response schemas
}

// Surface is POST /v1/execute, one call, and POST /v1/batch, many.
func Surface(s *ingress.Server, cfg Config) ingress.Surface {
	cfg.compiled = new(jsonschema.Cache)
	return ingress.Surface{
		Name: "executor", Kind: schemas.KindHTTP, Fail: fail,
		Routes: []ingress.Route{
			ingress.Post("/v1/execute", s.Store(func(who ingress.Identity, body []byte) (ingress.Order, error) {
				return cfg.order(who, cfg.Policy(who.Asks(schemas.KindHTTP, "")), body)
			}), schemas.ScopeActionsWrite).WithHolders(),
			ingress.Post(routeBatch, cfg.batch(s), schemas.ScopeActionsWrite).WithHolders(),
		},
		Redrive:  Redrive(cfg.Policy),
		Canceled: Canceled,
	}
}

func (cfg Config) order(who ingress.Identity, p Policy, body []byte) (ingress.Order, error) {
	req, err := Translate(body, p, cfg.compiled)
	if err == nil {
		err = grant.Entry(req.Call.AllowlistKey, who.Entries)
	}
	if err != nil {
		return ingress.Order{}, err
	}
	return req.Order(), nil
}

// Order is what is stored of the request.
func (r Request) Order() ingress.Order {
	o := ingress.Order{Class: r.Class, ID: r.ID, Payload: r.Call, Denied: r.Denied()}
	if o.Denied {
		o.Kept = r.Kept()
	}
	return o
}

// Redrive completes requests for actions that repeat a stored call; see ingress.Surface.
func Redrive(decides func(who grant.Caller) Policy) func(req *accept.Request, by grant.Caller) error {
	return func(req *accept.Request, by grant.Caller) error {
		call, err := ingress.Payload[schemas.HTTPCall](req.Payload)
		if err != nil {
			return err
		}
		if err := grant.Entry(call.AllowlistKey, by.Entries); err != nil {
			return err
		}
		if call.Denied != nil {
			return fault.New(schemas.Conflict, "the call was denied, and its body and headers are not kept; send it again")
		}
		who := grant.Caller{Tenant: req.Tenant, Kind: req.Kind, Principal: req.Principal, Entries: req.Entries}
		_, req.Class = decides(who).Evaluate(call)
		return nil
	}
}

// Canceled is the result of a call that was canceled; see ingress.Surface.
func Canceled(_ json.RawMessage, message string) (json.RawMessage, error) {
	return json.Marshal(schemas.HTTPResult{Variant: schemas.VariantCanceled, Message: message})
}

// fail writes an error in the executor's form.
func fail(c *gin.Context, p problem.Error, err error) schemas.Code {
	status, e := refused(c, p, err)
	p.Status = status
	p.SetHeaders(c.Writer.Header())
	ingress.WriteJSON(c, status, schemas.ExecuteError{Error: e})
	return e.Code
}

// refused is an error in the executor's form. Errors of the arguments have their own variant; those
// of the request are Request.
func refused(c *gin.Context, p problem.Error, err error) (status int, e schemas.ExecuteFault) {
	e = schemas.ExecuteFault{
		Variant: schemas.VariantRequest, Message: p.Detail, Code: p.Code,
		Retryable: p.Retryable, RequestID: problem.RequestID(c.Request.Context()),
	}
	if own, ok := errors.AsType[*Error](err); ok {
		e.Variant, e.Message, e.Code, e.Retryable = schemas.Variant(own.Variant), own.Message, own.Code, false
		return Status(own.Variant), e
	}
	if p.Code == schemas.InvalidRequest || p.Code == schemas.ValidationError {
		e.Variant = schemas.VariantInvalidArgumentValue
		return Status(schemas.VariantInvalidArgumentValue), e
	}
	return p.Status, e
}

// Asked is the call that a question to the policy is about, as Translate would
// give it. What Translate refuses stays in it, for policy to say what is wrong; a body that cannot be
// read is a *fault.Error.
func Asked(req schemas.ExplainRequest) (schemas.HTTPCall, error) {
	call := schemas.HTTPCall{
		Method: upper(cmp.Or(req.Method, http.MethodGet)), URL: req.URL, AllowlistKey: req.AllowlistKey,
		IdempotencyKey: req.IdempotencyKey,
	}
	for name, value := range req.Headers {
		call.Headers = append(call.Headers, schemas.Header{Name: name, Value: value})
	}
	sortByName(call.Headers)
	body := callbody.Forms{Body: req.Body, Text: req.BodyText, Base64: req.BodyBase64, Form: req.Form}
	if wrong, ok := errors.AsType[*callbody.Error](body.Put(&call)); ok {
		return call, fault.New(schemas.ValidationError, "at /"+wrong.Member+": "+wrong.Reason)
	}
	return call, nil
}
