// Package problem renders errors as RFC 9457 bodies: the one place where an
// error of a route without an envelope of its own becomes an answer.
package problem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// MediaType is the content type of every body written here.
const MediaType = "application/problem+json"

// defaultRetryAfter is named on 429, 503 and IN_FLIGHT when the error names no delay.
const defaultRetryAfter = time.Second

// fullRetryAfter is for a log that is full: it takes a person, or time.
const fullRetryAfter = time.Minute

// Error is an error that brings members of the body a code alone cannot give.
// Zero members are filled from the code; Cause is never shown.
type Error struct {
	schemas.Problem
	// RetryAfter becomes the header of that name, in whole seconds rounded up.
	RetryAfter time.Duration
	// Details is an object for the bodies that have room for one; a problem has none.
	Details json.RawMessage
	// Limits are what budgets leave, for the headers of the chat surface.
	Limits []schemas.ChatLimit
	// Word is a more specific code, for the errors of the agent API and of chat completions.
	Word  string
	Cause error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }

// Unwrap gives the private cause.
func (e *Error) Unwrap() error { return e.Cause }

// Write answers with err. Nothing may have been written to w before. Only an *Error, a *fault.Error
// and the log's sentinels are distinguished; any other error is INTERNAL and reveals nothing.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	ReportOf(r.Context()).Code = e.Code
	if e.RequestID == "" {
		e.RequestID = RequestID(r.Context())
	}
	e.answer(w, MediaType, append(schemas.Encoded(e.Problem), '\n'))
}

// seconds is a delay as Retry-After names it, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Of reads an error and returns its complete body, request_id aside.
func Of(err error) Error {
	e := read(err)
	if e.Code == "" {
		e.Code = schemas.Internal
	}
	if e.Status == 0 {
		e.Status = Status(e.Code)
	}
	if e.Type == "" {
		e.Type = "about:blank"
	}
	if e.Title == "" {
		e.Title = http.StatusText(e.Status)
	}
	e.Retryable = e.Retryable || Retryable(e.Code)
	return e
}

func read(err error) Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return *own
	}
	if public, ok := errors.AsType[*fault.Error](err); ok {
		e := Error{Problem: schemas.Problem{Code: public.Code, Detail: public.Message}, RetryAfter: public.RetryAfter, Cause: err}
		if public.Code == schemas.InFlight { // it passes by itself
			e.RetryAfter = defaultRetryAfter
		}
		return e
	}
	code, detail := sentinel(err)
	return Error{Problem: schemas.Problem{Code: code, Detail: detail}, Cause: err}
}

// sentinel maps the errors that carry no public sentence of their own.
func sentinel(err error) (schemas.Code, string) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge), errors.Is(err, fault.ErrTooLarge):
		return schemas.PayloadTooLarge, "the body is larger than the limit"
	case errors.Is(err, fault.ErrNotFound):
		return schemas.NotFound, "there is no such record"
	case errors.Is(err, fault.ErrGone):
		return schemas.StreamGone, "the history of this record has been dropped"
	case errors.Is(err, fault.ErrConflict):
		return schemas.Conflict, "the id belongs to another request"
	case errors.Is(err, fault.ErrFenced):
		return schemas.Conflict, "the record changed meanwhile; read it again"
	case errors.Is(err, fault.ErrFull):
		return schemas.LogFull, "the log is full; nothing was stored"
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return schemas.Unavailable, "the log did not answer; try again"
	default:
		return schemas.Internal, "something went wrong on our side"
	}
}

type reportKey struct{}

// Report is what handlers add to the log line and the metrics of a request. Only the request's
// own goroutine uses it.
type Report struct {
	requestID string
	// Surface is the surface of the route; empty: the router sets it.
	Surface string
	// Hint is what the caller alone may read of its request in the detail of a problem.
	Hint string
	// Entry and Called are the entry and the URL of a request to /via; empty: it is another route's.
	Entry, Called string
	// Code is the code of the error, or of the action's end, that the answer has.
	Code schemas.Code
}

// WithRequestID makes Write show id as request_id. The id must be valid by
// schemas.ValidID: it is echoed.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, reportKey{}, &Report{requestID: id})
}

// ReportOf returns the report of a request; without one, a report that is not read.
func ReportOf(ctx context.Context) *Report {
	if r, ok := ctx.Value(reportKey{}).(*Report); ok {
		return r
	}
	return &Report{}
}

// RequestID returns the id that WithRequestID set, or "".
func RequestID(ctx context.Context) string { return ReportOf(ctx).requestID }

// FromGit reports whether the real git asks, or says that it does.
func FromGit(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "git/") }

// WriteGit is Write for a route of git. A client of git gets the sentence alone, as
// text: it shows that to the person, and nothing of anything else. Without a token the
// answer asks for one the way in which git gives it.
func WriteGit(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
	}
	if !FromGit(r) {
		Write(w, r, err)
		return
	}
	e.answer(w, "text/plain; charset=utf-8", []byte(cmp.Or(e.Detail, e.Title)+" ("+string(e.Code)+")\n"))
}

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
	e.answer(w, "application/json", append(schemas.Encoded(body), '\n'))
}

// answer writes the headers that every refusal has, and a body.
func (e *Error) answer(w http.ResponseWriter, mediaType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	e.SetHeaders(h)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// SetHeaders sets the headers that say how to do better, whatever the body's form.
func (e *Error) SetHeaders(h http.Header) {
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
