package executor

import (
	"cmp"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/schemas"
)

// Asked is the call that a question to the policy is about, as Translate would
// give it. What Translate refuses stays in it, for policy to say what is wrong.
func Asked(req schemas.ExplainRequest) schemas.HTTPCall {
	call := schemas.HTTPCall{
		Method: upper(cmp.Or(req.Method, http.MethodGet)), URL: req.URL, AllowlistKey: req.AllowlistKey,
		IdempotencyKey: req.IdempotencyKey,
	}
	for name, value := range req.Headers {
		call.Headers = append(call.Headers, schemas.Header{Name: name, Value: value})
	}
	sortByName(call.Headers)
	if !strict.Absent(jsontext.Value(req.Body)) {
		call.Body = req.Body
	}
	return call
}
