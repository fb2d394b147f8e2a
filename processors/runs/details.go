package runs

import (
	"cmp"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

// details are the members that Weir itself puts beside an error's message.
type details struct {
	// Code is the code that the action settles with, or that its call ended with.
	Code       schemas.Code `json:"code,omitempty"`
	ResolveURL string       `json:"resolve_url,omitempty"`
	// Status is that of an answer which is known by its status alone. RetryAfterMS is the agent's own
	// wish, or the time until it is asked again.
	Status       int    `json:"status,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	AgentError   *quote `json:"agent_error,omitempty"`
}

// quote is what an agent says of its own error.
type quote struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// failed is a verdict with an error of Weir's own words.
func failed(o schemas.Outcome, code schemas.Code, e schemas.RunError, more any) (settle.Outcome, error) {
	e, err := detailed(e, more)
	return settle.Outcome{Outcome: o, Code: code, Message: e.Message, Result: schemas.RunResult{Error: &e}}, err
}

// detailed is an error with its details, if there is anything in them.
func detailed(e schemas.RunError, more any) (schemas.RunError, error) {
	doc, err := ledger.Encode(more)
	if string(doc) != "{}" {
		e.Details = doc
	}
	return e, err
}

// task is the error of a run that its task has failed in.
func task(message string) schemas.RunError {
	return schemas.RunError{Code: string(schemas.TaskFailed), Message: message}
}

// stopped is the verdict of a run that must stop, or whose deadline has passed.
func stopped(canceled bool) (settle.Outcome, error) {
	if canceled {
		return failed(schemas.OutcomeCanceled, schemas.Canceled, task("the run was canceled"), details{Code: schemas.Canceled})
	}
	return failed(schemas.OutcomeExpired, schemas.DeadlineExceeded, task("the run's time is up"), details{Code: schemas.DeadlineExceeded})
}

// called turns the end of a call into the end of its run.
func called(v settle.Outcome) (settle.Outcome, error) {
	res, ok := v.Result.(schemas.HTTPResult)
	if !ok {
		return v, errResult
	}
	out := schemas.RunResult{HTTP: &res}
	if v.Outcome != schemas.OutcomeSucceeded {
		e, err := detailed(task(cmp.Or(v.Message, "the call failed")), details{Code: v.Code})
		if err != nil {
			return v, err
		}
		out.Error = &e
	}
	v.Result = out
	return v, nil
}

// planned turns the end of a plan into the end of its run. The results of its decisions are
// reported after a failure, too.
func planned(v settle.Outcome) (settle.Outcome, error) {
	report, ok := v.Result.(schemas.PlanResult)
	if !ok {
		return v, errResult
	}
	if v.Outcome != schemas.OutcomeSucceeded {
		return failed(v.Outcome, v.Code, task(cmp.Or(v.Message, planFailed)), struct {
			Code schemas.Code `json:"code,omitempty"`
			schemas.PlanResult
		}{v.Code, report})
	}
	outputs, err := ledger.Encode(report)
	if err != nil {
		return v, err
	}
	v.Result = schemas.RunResult{Outputs: outputs}
	return v, nil
}

const planFailed = "not every decision of the plan was applied; the report says which"

// errResult says that an executor gave another document than its kind's.
var errResult = &fault.Terminal{Code: schemas.Poison, Reason: "the result is not a document of its kind"}
