package index

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// action is an action as the index stores it.
type action struct {
	at                int64 // the key, and when the log stored its acceptance
	ref               schemas.Ref
	class             string
	taskType, task    string
	created, deadline int64
	part              int    // the partition of the log that has it
	state             string // accepted, started or waiting: the last status before its end
	end
}

// end is how an action ended.
type end struct {
	status   string // an outcome; empty: it has not ended
	code     string
	entry    string
	settled  int64
	attempts int
}

// columns are those of table action, in the order of fields.
const columns = "at, tenant, kind, id, class, task_type, task, created, deadline, part, state, status, code, entry, settled, attempts"

func (a *action) fields() []any {
	return []any{
		&a.at, &a.ref.Tenant, &a.ref.Kind, &a.ref.ID, &a.class, &a.taskType, &a.task, &a.created, &a.deadline,
		&a.part, &a.state, &a.status, &a.code, &a.entry, &a.settled, &a.attempts,
	}
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action. A payload, of up to a quarter of a megabyte, is not decoded.
func readAccepted(ref schemas.Ref, rec schemas.Record) *action {
	a := &action{at: rec.Time.UnixNano(), ref: ref, created: rec.Time.UnixNano(), state: string(schemas.EventAccepted)}
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, "action."+path) }
	accepted := get("accepted_at").Time()
	if accepted.IsZero() {
		return a
	}
	a.taskType, a.class, a.created = get("task_type").Str, get("class").Str, accepted.UnixNano()
	if deadline := get("deadline").Time(); !deadline.IsZero() {
		a.deadline = deadline.UnixNano()
	}
	switch ref.Kind { //nolint:exhaustive // the others belong to no task
	case schemas.KindTask:
		a.task = ref.ID
	case schemas.KindChat, schemas.KindPush:
		a.task = get("payload.task_id").Str
	}
	return a
}

// readSettled reads a terminal event. Whatever it holds, the action has ended.
func readSettled(rec schemas.Record) end {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	outcome := schemas.Outcome(get("settled.outcome").Str)
	if !gjson.ValidBytes(rec.Data) || get("type").Str != string(schemas.EventSettled) || !slices.Contains(schemas.Outcomes(), outcome) {
		return end{status: string(schemas.OutcomeFailed), code: string(schemas.Poison), settled: rec.Time.UnixNano()}
	}
	entry := get("settled.entry").Str
	if outcome == schemas.OutcomeDenied && entry == "" { // the call was denied, whether the action is the call or a run that makes it
		entry = cmp.Or(get("settled.result.decision.entry").Str, get("settled.result.http.decision.entry").Str)
	}
	return end{string(outcome), get("settled.code").Str, entry, rec.Time.UnixNano(), int(get("settled.attempts").Int())}
}

// resumed is the state of an action that waits no more, if it did; it is accepted or started.
const resumed = "resumed"

// stateAfter is the status of an action that has not ended after an event. Before that it was
// state, which is empty if it is not known here.
func stateAfter(state string, rec schemas.Record) string {
	switch schemas.EventType(gjson.GetBytes(rec.Data, "type").Str) { //nolint:exhaustive // the others change no state
	case schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted:
		return string(schemas.EventStarted)
	case schemas.EventWaiting:
		return string(schemas.EventWaiting)
	case schemas.EventProgress, schemas.EventDelta, schemas.EventSignal, schemas.EventStatus:
		switch state {
		case "":
			return resumed
		case string(schemas.EventWaiting):
			return string(schemas.EventStarted)
		}
	}
	return state
}
