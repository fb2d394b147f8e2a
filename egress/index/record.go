package index

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/schemas"
)

// action is a row of table action. The entry's Status is accepted, started or waiting until the action
// has ended; its times, and what follows from other fields, are not set in it.
type action struct {
	at                         int64 // the key, and when the log stored its acceptance
	part                       int   // the partition of the log that has it
	created, deadline, settled int64
	outcome                    string // empty: it has not ended
	nanoUSD                    int64
	schemas.ActionEntry
}

// fields are the columns of table action, in their order.
func (a *action) fields() []any {
	return []any{
		&a.at, &a.part, &a.Tenant, &a.Kind, &a.ID, &a.Class, &a.Agent, &a.Task, &a.Caller,
		&a.Method, &a.Host, &a.Path, &a.Calls, &a.created, &a.deadline, &a.settled,
		&a.Status, &a.outcome, &a.Code, &a.Entry, &a.Attempts, &a.Resolution,
		&a.HTTPStatus, &a.Model, &a.TokensIn, &a.TokensOut, &a.nanoUSD, &a.TTFTMS,
	}
}

// listed is what a list shows of an action.
func (a *action) listed(tenant bool) schemas.ActionEntry {
	e := a.ActionEntry
	e.Created, e.Deadline, e.Settled = instant(a.created), instant(a.deadline), instant(a.settled)
	e.URL, e.EventsURL, e.CostUSD = stream.ActionURL(e.ID), stream.EventsURL(e.ID), float64(a.nanoUSD)/1e9
	if e.Kind == schemas.KindRun {
		e.TaskType = e.Agent
	}
	if !tenant {
		e.Tenant = ""
	}
	if a.outcome != "" {
		ms := stream.Milliseconds(time.Duration(max(a.settled-a.at, 0))) // both by the log's clock, which may have been set between
		e.DurationMS = &ms
	}
	return e
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action.
func readAccepted(ref schemas.Ref, rec schemas.Record, part int) action {
	at := rec.Time.UnixNano()
	a := action{at: at, part: part, created: at, ActionEntry: schemas.ActionEntry{
		Tenant: ref.Tenant, Kind: ref.Kind, ID: ref.ID, Status: schemas.Status(schemas.EventAccepted),
	}}
	bare := a
	var accepted, deadline time.Time
	var principal string
	var called, payload gjson.Result
	doc := schemas.Action{Kind: ref.Kind}
	gjson.GetBytes(rec.Data, "action").ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "accepted_at":
			accepted = v.Time()
		case "deadline":
			deadline = v.Time()
		case "task_type":
			a.Agent = v.Str
		case "class":
			a.Class = schemas.Class(v.Str)
		case "sensitive":
			doc.Sensitive = v.Bool()
		case "principal":
			principal = v.Str
		case "task":
			a.Task = v.Str
		case "caller":
			a.Caller = v.Str
		case "called":
			called = v
		case "payload":
			payload = v
		}
		return true
	})
	if accepted.IsZero() {
		return bare
	}
	a.Caller, a.created = cmp.Or(a.Caller, principal), accepted.UnixNano()
	if !deadline.IsZero() {
		a.deadline = deadline.UnixNano()
	}
	switch ref.Kind {
	case schemas.KindTask:
		a.Task = ref.ID
	case schemas.KindPush:
		a.Task, a.Called = payload.Get("task_id").Str, readCalled(doc, called, payload.Raw)
	case schemas.KindChat:
		a.Task = cmp.Or(a.Task, payload.Get("task_id").Str)
		a.answeredBy(payload.Get("model").Str)
	default:
		a.Called = readCalled(doc, called, payload.Raw)
	}
	return a
}

// longestCalled is the number of bytes of a part of a call that a list shows, whatever the log has.
const longestCalled = 512

// readCalled is the call of an accepted event: the one beside a payload that is stored as a
// blob, or the one in the payload.
func readCalled(doc schemas.Action, beside gjson.Result, payload string) schemas.Called {
	if c := ledger.CalledIn(doc, payload); doc.Sensitive || c != (schemas.Called{}) {
		return c
	}
	text := func(name string) string {
		v := beside.Get(name).Str
		return v[:min(len(v), longestCalled)]
	}
	return schemas.Called{Method: text("method"), Host: text("host"), Path: text("path"), Calls: int(beside.Get("calls").Int())}
}

// answeredBy notes the model of a completion.
func (a *action) answeredBy(model string) {
	if schemas.ValidModel(model) {
		a.Model = model
	}
}

// settle ends an action, whatever its last event holds. What that does not say stays as earlier events
// said it.
func (a *action) settle(rec schemas.Record) {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	outcome := schemas.Outcome(get("settled.outcome").Str)
	a.settled = rec.Time.UnixNano()
	if !gjson.ValidBytes(rec.Data) || get("type").Str != string(schemas.EventSettled) || !slices.Contains(schemas.Outcomes(), outcome) {
		outcome, a.Code = schemas.OutcomeFailed, schemas.Poison
	} else {
		a.Code, a.Entry, a.Attempts = schemas.Code(get("settled.code").Str), get("settled.entry").Str, int(get("settled.attempts").Int())
		if outcome == schemas.OutcomeDenied && a.Entry == "" { // the call was denied, whether the action is the call or a run that makes it
			a.Entry = cmp.Or(get("settled.result.decision.entry").Str, get("settled.result.http.decision.entry").Str)
		}
	}
	a.outcome, a.Status = string(outcome), schemas.Status(outcome)
	a.HTTPStatus = cmp.Or(int(get("attempted.status").Int()), a.HTTPStatus)
	if a.Kind != schemas.KindChat {
		return
	}
	a.answeredBy(get("settled.result.model").Str)
	used := get("settled.result.usage")
	a.TokensIn, a.TokensOut, a.nanoUSD = used.Get("prompt_tokens").Int(), used.Get("completion_tokens").Int(), used.Get("cost_nanousd").Int()
	a.TTFTMS = get("settled.result.first_ms").Float()
}

// fold adds an event after the acceptance. An action that has ended keeps its end; a person may still
// resolve it.
func (a *action) fold(rec schemas.Record) {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	typ := schemas.EventType(get("type").Str)
	switch {
	case rec.Ends():
		if a.outcome == "" {
			a.settle(rec)
		}
		return
	case typ == schemas.EventResolution:
		a.Resolution = get("resolution.effect").Str
		return
	case a.outcome != "":
		return
	}
	switch typ { //nolint:exhaustive // the others change nothing
	case schemas.EventStarted, schemas.EventWaiting:
		a.Status = schemas.Status(typ)
	case schemas.EventAttempt, schemas.EventAttempted:
		a.Status = schemas.Status(schemas.EventStarted)
		if ledger.Remote(a.Kind) && a.Host == "" {
			a.Called = ledger.CallOf(get("attempt.method").Str, get("attempt.url").Str).For(a.Called)
		}
		if typ == schemas.EventAttempted && !get("attempted.probe").Exists() {
			a.HTTPStatus = cmp.Or(int(get("attempted.status").Int()), a.HTTPStatus)
		}
	case schemas.EventProgress, schemas.EventDelta, schemas.EventSignal, schemas.EventStatus:
		if a.Status == schemas.Status(schemas.EventWaiting) { // it waits no more
			a.Status = schemas.Status(schemas.EventStarted)
		}
		if typ == schemas.EventSignal && get("task.what").Str == string(schemas.TaskClaimed) {
			a.Agent = cmp.Or(get("task.agent").Str, get("task.holder").Str, a.Agent)
		}
	}
}
