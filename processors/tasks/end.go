package tasks

import (
	"context"
	"slices"

	"weir/internal/task"
	"weir/processors/settle"
	"weir/schemas"
)

// end stores the evidence of a task's end and returns its verdict. Both follow from the events up
// to the one that decided the end, so that every worker produces the same; later events on the log
// change neither.
func (w *work) end(ctx context.Context) (settle.Outcome, error) {
	v, res := result(w.task)
	u := schemas.TaskUpdate{
		TaskID: w.st.ID, Status: res.Status, What: "settled", Time: w.task.Ended, N: w.task.Last,
		Head: res.Head, Code: v.Code, Reason: res.Reason,
	}
	a := w.audit(u)
	a.Holder = w.task.Holder
	rec, err := record(w.st, endID(w.st.ID), a)
	if err != nil {
		return v, err
	}
	return v, w.recorder.Store(ctx, w.st, rec)
}

// result is how a task ends that is over.
func result(t *task.State) (settle.Outcome, schemas.TaskResult) {
	res := schemas.TaskResult{Status: t.Status, Branch: t.Branch, Base: t.Base, Head: t.Left}
	var v settle.Outcome
	switch r, c := t.Report, t.Closed; {
	case r != nil && r.Completed:
		v.Outcome = schemas.OutcomeSucceeded
	case r != nil:
		v = settle.Outcome{Outcome: schemas.OutcomeFailed, Code: schemas.TaskFailed, Message: failedMessage}
	case c.Status == schemas.TaskStatusCanceled:
		v = settle.Outcome{Outcome: schemas.OutcomeCanceled, Code: c.Code, Message: c.Message}
	case c.Status == schemas.TaskStatusExpired:
		v = settle.Outcome{Outcome: schemas.OutcomeExpired, Code: c.Code, Message: c.Message}
	case slices.Contains(schemas.DenyCodes(), c.Code):
		v = settle.Outcome{Outcome: schemas.OutcomeDenied, Code: c.Code, Message: c.Message}
	default:
		v = settle.Outcome{Outcome: schemas.OutcomeFailed, Code: c.Code, Message: c.Message}
	}
	if t.Report != nil {
		res.Description, res.Reason = t.Report.Description, t.Report.Reason
	}
	v.Result = res
	return v, res
}

const failedMessage = "the agent reported that the task failed; its own words are in the result"
