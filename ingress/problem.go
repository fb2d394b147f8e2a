package ingress

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/executor"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// The keys of what a handler tells the middleware.
const (
	keyDialect = "weir.dialect"
	keyCode    = "weir.code"
	keyAction  = "weir.action"
	keyTenant  = "weir.tenant"
	keySurface = "weir.surface"
)

// The dialects of errors. Every other route's are problems.
const (
	dialectExecutor = "executor" // the executor's envelope
	dialectRuns     = "runs"     // the run contract's refusal
	dialectRules    = "rules"    // the agent API's envelope
	dialectGit      = "git"      // a sentence, where git asks
	dialectChat     = "chat"     // the error of the chat completions protocol
)

// dialect is that of the route, or, before a route was reached, of its path: the
// run contract, the agent API, git and chat have theirs for every method.
func dialect(c *gin.Context) string {
	if d := c.GetString(keyDialect); d != "" {
		return d
	}
	path := c.Request.URL.EscapedPath()
	if strings.HasPrefix(path, schemas.RouteGit+"/") {
		return dialectGit
	}
	switch path {
	case schemas.RouteRunSync, schemas.RouteRunStream:
		return dialectRuns
	case schemas.RouteAgentAPI, schemas.RouteRulesReset:
		return dialectRules
	}
	if isChat(path) {
		return dialectChat
	}
	return ""
}

// inFlightRetry is when a repeat of an unsettled request is worth a try.
const inFlightRetry = time.Second

// fail is the only place of this room where an error becomes a body. Nothing
// may have been written before.
func fail(c *gin.Context, metrics Metrics, err error) {
	c.Abort()
	err = delayed(err)
	p := problem.Of(err)
	switch dialect(c) {
	case dialectExecutor:
		p.Code = failExecutor(c, p, err)
	case dialectRuns:
		failRun(c, p, err)
	case dialectRules:
		problem.WriteAgent(c.Writer, c.Request, err)
	case dialectChat:
		problem.WriteChat(c.Writer, c.Request, err)
	case dialectGit:
		problem.WriteGit(c.Writer, c.Request, err)
	default:
		problem.Write(c.Writer, c.Request, err)
	}
	c.Set(keyCode, p.Code)
	metrics.Refused(p.Code)
}

// delayed names when to come back for the refusals that pass by themselves.
func delayed(err error) error {
	var public *fault.Error
	if !errors.As(err, &public) || public.Code != schemas.InFlight {
		return err
	}
	return &problem.Error{
		Problem:    schemas.Problem{Code: public.Code, Detail: public.Message},
		RetryAfter: inFlightRetry, Cause: err,
	}
}

// envelope is how the executor's callers read an error.
type envelope struct {
	Error executorError `json:"error"`
}

type executorError struct {
	Variant   string       `json:"variant"`
	Message   string       `json:"message"`
	Code      schemas.Code `json:"code"`
	Retryable bool         `json:"retryable"`
	RequestID string       `json:"request_id,omitempty"`
}

// failExecutor words an error as the executor does. What is wrong with the
// arguments has its own variant; what is wrong with the request is Request.
func failExecutor(c *gin.Context, p problem.Error, err error) schemas.Code {
	e := executorError{
		Variant: schemas.VariantRequest, Message: p.Detail, Code: p.Code,
		Retryable: p.Retryable, RequestID: problem.RequestID(c.Request.Context()),
	}
	status := p.Status
	var own *executor.Error
	switch {
	case errors.As(err, &own):
		e.Variant, e.Message, e.Code, e.Retryable = own.Variant, own.Message, own.Code, false
		status = executor.Status(own.Variant)
	case p.Code == schemas.InvalidRequest, p.Code == schemas.ValidationError:
		e.Variant = schemas.VariantInvalidArgumentValue
		status = executor.Status(e.Variant)
	}
	p.Status = status
	p.Remedy(c.Writer.Header())
	writeJSON(c, status, envelope{Error: e})
	return e.Code
}

// writeJSON answers with a document of our own.
func writeJSON(c *gin.Context, status int, doc any) {
	data, err := ledger.Encode(doc)
	if err != nil {
		problem.Write(c.Writer, c.Request, err)
		return
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(data) // the client is gone if this fails
}
