package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/settle"
	"weir/schemas"
)

// outcome turns the end of a call to an agent into the run's verdict.
func (m *Remote) outcome(ctx context.Context, st *ledger.State, r call.Result) (settle.Outcome, error) {
	switch {
	case r.Canceled, r.Expired:
		return stopped(r.Canceled)
	case r.Denied:
		if err := settle.Deny(ctx, m.recorder, r.Task, r.Decision); err != nil {
			return settle.Outcome{}, err
		}
		return refused(r.Decision.Code)
	case r.Unknown:
		return failed(schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, task(schemas.UnknownText),
			details{Code: schemas.OutcomeUnknownCode, ResolveURL: "/v1/actions/" + st.ID + "/resolve"})
	case r.Failed:
		return broken(r.Last)
	}
	answer, err := m.answers.Answer(ctx, r.Last)
	if err != nil {
		return settle.Outcome{}, err
	}
	return answered(answer, r.Last.Result)
}

func refused(code schemas.Code) (settle.Outcome, error) {
	return failed(schemas.OutcomeDenied, code, task("policy does not let the call to the agent pass"), details{Code: code})
}

// broken is a call that brought no end of the run, and is known to have failed.
func broken(last *ledger.Attempt) (settle.Outcome, error) {
	res := last.Result
	switch {
	case res.Code.Denied():
		return refused(res.Code)
	case last.Mocked():
		return failed(schemas.OutcomeFailed, res.Code, task(describe(last)+"; a traffic rule answered in the agent's place"), details{Code: res.Code})
	case !res.Sent:
		return unavailable(call.Describe(*last), details{Code: res.Code})
	default:
		return failed(schemas.OutcomeFailed, res.Code, task(describe(last)+"; "+repeatWarning), details{Code: res.Code})
	}
}

// repeatWarning warns before a repeat of a run.
const repeatWarning = "the agent's work until then stays in effect: look at it before the run is sent again"

// describe says how an answer broke off, or was none.
func describe(last *ledger.Attempt) string {
	if last.Result.Code == schemas.UpstreamProtocol {
		return "the agent did not answer as the run contract has it"
	}
	if last.Result.Code == schemas.UpstreamTruncated {
		return "the agent's answer ended before it said how the run did"
	}
	return "the agent's answer broke off: " + call.Describe(*last)
}

// unavailable is a run that was not started.
func unavailable(why string, more any) (settle.Outcome, error) {
	return failed(schemas.OutcomeFailed, schemas.AgentUnavailable,
		schemas.RunError{Code: string(schemas.AgentUnavailable), Message: "the agent could not be asked: " + why}, more)
}

// answered checks a complete answer.
func answered(a *schemas.Answer, res *schemas.Attempted) (settle.Outcome, error) {
	var told schemas.RunResult
	if err := json.Unmarshal(a.Body, &told); err != nil {
		return settle.Outcome{}, &fault.Terminal{Code: schemas.Poison, Reason: "the stored end of the run cannot be read", Cause: err}
	}
	switch {
	case slices.Contains([]int{429, 503}, a.Status):
		return unavailable(fmt.Sprintf("it answered with status %d", a.Status), quoting(a, told))
	case slices.Contains([]int{502, 504}, a.Status):
		return failed(schemas.OutcomeFailed, schemas.TaskFailed, task(fmt.Sprintf(mayHaveBegun, a.Status)), quoting(a, told))
	case a.Status < 200 || a.Status > 299:
		return refusal(a.Status, told)
	case told.Error != nil:
		return settle.Outcome{
			Outcome: schemas.OutcomeFailed, Code: schemas.TaskFailed, Message: agent.NoWords, Result: agent.Timed(told, res.Duration),
		}, nil
	default:
		return settle.Outcome{Outcome: schemas.OutcomeSucceeded, Result: agent.Timed(told, res.Duration)}, nil
	}
}

// mayHaveBegun is for statuses that a proxy in front of an agent may send after it has forwarded
// the run.
const mayHaveBegun = "the agent, or a proxy in front of it, answered with status %d; the agent may have begun: look at it before the run is sent again"

// unprocessable is the status of a request that the agent finds invalid.
const unprocessable = 422

// refusal is an answer that says by its status that nothing came of the run.
func refusal(status int, told schemas.RunResult) (settle.Outcome, error) {
	message := fmt.Sprintf("the agent answered with status %d", status)
	if told.Error == nil {
		e, err := detailed(task(message), details{Status: status})
		if err != nil {
			return settle.Outcome{}, err
		}
		told.Error = &e
	}
	if status == unprocessable && told.Error.Code == string(schemas.TaskFailed) {
		told.Error.Code = string(schemas.ValidationError)
	}
	return settle.Outcome{
		Outcome: schemas.OutcomeFailed, Code: schemas.TaskFailed, Message: message, Result: told,
	}, nil
}

// overError is the end of a run for which no call is made any more.
type overError struct{ settle.Outcome }

func (*overError) Error() string { return "the run is over" }

// ends is a verdict as an error, or the error behind it.
func ends(v settle.Outcome, err error) error {
	if err != nil {
		return err
	}
	return &overError{v}
}

// paused is a run whose agent's breaker is open.
func paused(after time.Duration) error {
	return ends(unavailable(fmt.Sprintf("it failed several times in a row and is left alone; try again in %d s", int(math.Ceil(after.Seconds()))),
		details{RetryAfterMS: max(1, after.Milliseconds())}))
}

// early is the verdict in an error.
func early(err error) (settle.Outcome, error) {
	if over, ok := errors.AsType[*overError](err); ok {
		return over.Outcome, nil
	}
	return settle.Outcome{}, err
}

// quoting is an answer's status with what else came with it.
func quoting(a *schemas.Answer, told schemas.RunResult) details {
	d := details{Status: a.Status, RetryAfterMS: a.RetryAfter.Milliseconds()}
	if e := told.Error; e != nil && e.Message != agent.NoWords {
		d.AgentError = &quote{Code: e.Code, Message: agent.Shorten(e.Message)}
	} else if e != nil && e.Code != string(schemas.TaskFailed) {
		d.AgentError = &quote{Code: e.Code}
	}
	return d
}

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
	res, _ := v.Result.(schemas.HTTPResult) // no other is an executor's
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
	report, _ := v.Result.(schemas.PlanResult)
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
