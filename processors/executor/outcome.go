package executor

import (
	"cmp"
	"fmt"
	"net/http" //nolint:depguard // no more than the names of statuses
	"strings"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/postcondition"
	"weir/internal/retry"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// outcome turns the end of a call into a verdict in the executor's words.
func (e *Executor) outcome(c schemas.HTTPCall, r call.Result, answer *schemas.Answer) settle.Outcome {
	switch {
	case r.Canceled:
		return settledAs(schemas.OutcomeCanceled, schemas.Canceled, schemas.HTTPResult{
			Variant: schemas.VariantCanceled, Message: "the action was canceled; no further attempt is made",
		})
	case r.Expired:
		return settledAs(schemas.OutcomeExpired, schemas.DeadlineExceeded, schemas.HTTPResult{
			Variant: schemas.VariantExpired, Message: "the action's deadline passed; no further attempt is made",
			History: history(r.Tries),
		})
	case r.Denied:
		return refused(c, r, r.Decision)
	case r.Unknown:
		return settledAs(schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, schemas.HTTPResult{
			Variant: schemas.VariantOutcomeUnknown, Message: schemas.Unprobed(r.Unprobed), History: history(r.Tries), LastError: describe(r),
		})
	case r.Exhausted:
		return exhausted(r, answer)
	case r.Failed:
		return failed(c, r, answer)
	case r.Reconciled: // the schema and the postcondition are for the call's own answer, which is lost
		return settledAs(schemas.OutcomeSucceeded, "", schemas.HTTPResult{Answer: answer, Reconciled: true})
	default:
		return e.answered(c, answer, r.Last.Result.Schema)
	}
}

func settledAs(o schemas.Outcome, code schemas.Code, res schemas.HTTPResult) settle.Outcome {
	return settle.Outcome{Outcome: o, Code: code, Message: res.Message, Result: res}
}

func failedAs(code schemas.Code, variant, message string, a *schemas.Answer) settle.Outcome {
	return settledAs(schemas.OutcomeFailed, code, schemas.HTTPResult{Variant: variant, Message: message, Answer: a})
}

// refused is a refusal by policy. If an earlier attempt did leave, the outcome
// is a failure: denied promises that nothing was sent.
func refused(c schemas.HTTPCall, r call.Result, d schemas.Decision) settle.Outcome {
	outcome := schemas.OutcomeDenied
	for _, t := range r.Tries {
		if t.Result.Sent {
			outcome = schemas.OutcomeFailed
		}
	}
	return settledAs(outcome, d.Code, schemas.HTTPResult{
		Variant: schemas.VariantDisallowedHost, Message: refusal(c, d), Decision: &d, History: history(r.Tries),
	})
}

// refusal names what policy refuses, and why where that is not the host. The protocol has
// one variant for all of it.
func refusal(c schemas.HTTPCall, d schemas.Decision) string {
	if d.Code == schemas.DenyHost || d.Code == schemas.DenyAddress {
		u, _ := policy.Read(c.URL, true)
		return "disallowed host '" + u.Host + "'"
	}
	what := map[schemas.Code]string{
		schemas.DenyKeyUnknown: "allowlist key", schemas.DenyURLInvalid: "url", schemas.DenyScheme: "scheme", schemas.DenyUserinfo: "user in the url",
		schemas.DenyPort: "port", schemas.DenyMethod: "method '" + c.Method + "'", schemas.DenyPath: "path", schemas.DenyHeader: "header",
		schemas.DenyBody: "body", schemas.DenySchema: "response schema", schemas.DenyRedirect: "redirect",
	}[d.Code]
	text := "disallowed " + cmp.Or(what, "request")
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

func exhausted(r call.Result, answer *schemas.Answer) settle.Outcome {
	n := r.Last.Number
	last := describe(r)
	return settledAs(schemas.OutcomeFailed, schemas.RetriesExhausted, schemas.HTTPResult{
		Variant: schemas.VariantRetriesExhausted,
		Message: fmt.Sprintf("every attempt failed, %d in all; the last: %s", n, last),
		Answer:  answer, History: history(r.Tries), LastError: last,
	})
}

// failed is a call without a complete answer that no further attempt can help.
func failed(c schemas.HTTPCall, r call.Result, answer *schemas.Answer) settle.Outcome {
	code := r.Last.Result.Code
	switch {
	case code == schemas.DenyRedirect && answer != nil:
		return refusedRedirect(answer)
	case code.Denied():
		d := r.Last.LastWord()
		if d.Allowed { // refused on the way, after policy had let it pass
			d.Allowed, d.Code, d.Reason = false, code, call.Describe(*r.Last)
		}
		return refused(c, r, d)
	}
	last, begun := describe(r), ""
	if status := r.Last.Result.Status; status != 0 { // the request was received
		begun = fmt.Sprintf("the target answered with status %d, and then: ", status)
	}
	return settledAs(schemas.OutcomeFailed, code, schemas.HTTPResult{
		Variant: schemas.VariantRequest, Message: begun + last, Answer: answer, History: history(r.Tries), LastError: last,
	})
}

func refusedRedirect(a *schemas.Answer) settle.Outcome {
	return failedAs(schemas.DenyRedirect, schemas.VariantHTTPFailure, statusText(a.Status)+"; the entry does not allow this redirect", a)
}

// answered checks a complete answer: status, then the entry's schema and the caller's, then
// postconditions. found is what the entry's schema finds wrong with it.
func (e *Executor) answered(c schemas.HTTPCall, a *schemas.Answer, found *schemas.SchemaFinding) settle.Outcome {
	switch {
	case policy.IsRedirect(a.Status):
		return refusedRedirect(a)
	case a.Status < 200 || a.Status > 299:
		return failedAs(schemas.HTTPFailure, schemas.VariantHTTPFailure, statusText(a.Status), a)
	}
	res := schemas.HTTPResult{Answer: a}
	switch {
	case found == nil:
	case found.Mode == policy.SchemaWarn:
		res.Warnings = found.Violations
	default:
		return failedAs(found.Code, schemas.VariantSchemaValidationFailed, strings.Join(found.Violations, "; "), a)
	}
	if c.ResponseSchema != nil {
		if code, messages := e.violations(c, a); len(messages) > 0 {
			return failedAs(code, schemas.VariantSchemaValidationFailed, strings.Join(messages, "; "), a)
		}
	}
	if c.Postcondition == nil {
		return settledAs(schemas.OutcomeSucceeded, "", res)
	}
	p, err := postcondition.Parse(c.Postcondition)
	if err != nil { // ingress has parsed it before
		return failedAs(schemas.PostconditionFailed, schemas.VariantInvalidPostcondition, "the postcondition cannot be read", a)
	}
	passed, report := p.Evaluate(*a)
	res.Report = report
	if passed {
		return settledAs(schemas.OutcomeSucceeded, "", res)
	}
	res.Variant, res.Message = schemas.VariantPostconditionFailed, "a postcondition does not hold"
	return settledAs(schemas.OutcomeFailed, schemas.PostconditionFailed, res)
}

// violations holds a body against its schema.
func (e *Executor) violations(c schemas.HTTPCall, a *schemas.Answer) (schemas.Code, []string) {
	if a.Hash != "" && !a.JSON {
		return schemas.ResponseNotJSON, []string{"the response body is not JSON"}
	}
	s, err := e.schemas.Compile(c.ResponseSchema)
	if err != nil { // ingress has compiled it before
		return schemas.ResponseSchemaInvalid, []string{"the response schema cannot be compiled"}
	}
	return schemas.ResponseSchemaInvalid, s.Validate(a.Body)
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("the target answered with status %d %s", status, http.StatusText(status)))
}

// describe is the display text of the last attempt's end.
func describe(r call.Result) string {
	res := r.Last.Result
	if res.Code == "" {
		return statusText(res.Status)
	}
	return call.Describe(*r.Last)
}

// history has one record an attempt; the hops of a redirect are one.
func history(tries []ledger.Attempt) []schemas.RetryRecord {
	var h []schemas.RetryRecord
	for _, t := range tries {
		rec := schemas.RetryRecord{Attempt: t.Number, Outcome: retry.Outcome(t.Result.Status, t.Result.Code)}
		if n := len(h); n > 0 && h[n-1].Attempt == t.Number {
			h[n-1] = rec
			continue
		}
		h = append(h, rec)
	}
	return h
}
