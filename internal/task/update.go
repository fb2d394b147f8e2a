package task

import (
	"cmp"
	"encoding/json"

	"weir/schemas"
)

// The words of updates beside the TaskWhats.
const (
	whatAccepted = "accepted"
	whatCancel   = "cancel"
	whatSettled  = "settled"
)

// Update is the change that an event makes to a task, as sent to followers of the task; ok is false
// for an event without a change. A cancel request does not contain the status, so the update has
// none: the caller takes it from the folded state.
func Update(id string, ev schemas.Event) (u schemas.TaskUpdate, ok bool) {
	u = schemas.TaskUpdate{TaskID: id, Time: ev.Time, N: ev.N}
	switch ev.Type {
	case schemas.EventAccepted:
		u.What, u.Status = whatAccepted, schemas.TaskStatusQueued
	case schemas.EventCancel:
		u.What = whatCancel
	case schemas.EventSettled:
		if ev.Settled == nil {
			return u, false
		}
		u.What, u.Status, u.Code = whatSettled, StatusOf(ev.Settled.Outcome), ev.Settled.Code
		var res schemas.TaskResult
		if json.Unmarshal(ev.Settled.Result, &res) == nil { // one that lies aside is not fetched for this
			u.Head, u.Reason = res.Head, res.Reason
		}
	case schemas.EventSignal, schemas.EventStatus:
		e := ev.Task
		if e == nil {
			return u, false
		}
		u.What, u.Status, u.Lease, u.Head, u.Push, u.Code = string(e.What), e.Status, e.Lease, cmp.Or(e.Head, e.Base), e.Push, e.Code
		if e.Inquiry != nil {
			u.Inquiry = e.Inquiry.N
		}
		if e.Report != nil {
			u.Reason = e.Report.Reason
		}
	case schemas.EventProgress:
		var out schemas.TaskOutput
		if json.Unmarshal(ev.Data, &out) != nil {
			return u, false
		}
		u.What, u.Status, u.Lease, u.At, u.Text = schemas.TaskWhatOutput, schemas.TaskStatusRunning, out.Lease, out.At, out.Text
	default:
		return u, false
	}
	return u, true
}
