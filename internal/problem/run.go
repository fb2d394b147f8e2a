package problem

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"weir/schemas"
)

// WriteRun is Write in the words of the run contract. requestID is the run's, and
// empty where none could be read. A body that says something wrong is 422 there,
// whatever is wrong with it; one that asks for an agent that is not known is 400.
// An *Error that names a status has its own.
func WriteRun(w http.ResponseWriter, requestID string, err error) {
	e := Of(err)
	body := schemas.RunRefusal{
		RequestID: requestID, Status: schemas.RunFault, Outputs: json.RawMessage(`{}`), Warnings: []string{},
		Error: schemas.RunError{Code: string(e.Code), Message: e.Detail}, Code: e.Code, Retryable: e.Retryable,
	}
	if body.Error.Message == "" {
		body.Error.Message = e.Title
	}
	body.Error.Details = e.Details
	if e.EarliestID != "" {
		body.Error.Details = json.RawMessage(`{"earliest_id":` + strconv.Quote(e.EarliestID) + `}`)
	}
	switch own, _ := errors.AsType[*Error](err); {
	case e.Code == schemas.UnsupportedTaskType:
		body.Code = schemas.ValidationError
	case own != nil && own.Status != 0:
	case e.Code == schemas.InvalidRequest, e.Code == schemas.ValidationError:
		e.Status = http.StatusUnprocessableEntity
	}
	e.answer(w, "application/json", body)
}

// answer writes the headers that every refusal has, and a body.
func (e *Error) answer(w http.ResponseWriter, mediaType string, body any) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	e.Remedy(h)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) //nolint:errchkjson // strings, numbers and booleans: cannot fail
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(e.Status)
	_, _ = w.Write(b.Bytes()) // the client is gone if this fails
}

// Remedy sets the headers that say how to do better, whatever the body's form.
func (e *Error) Remedy(h http.Header) {
	after := e.RetryAfter
	switch e.Status {
	case http.StatusUnauthorized:
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", "Bearer")
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after <= 0 {
			after = defaultRetryAfter
			if e.Code == schemas.LogFull {
				after = fullRetryAfter
			}
		}
	}
	if after > 0 {
		h.Set("Retry-After", seconds(after))
	}
}
