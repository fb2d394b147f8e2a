package index

import (
	"cmp"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/schemas"
)

// action is a row of table action: what a list shows of an action, without what follows from that.
type action struct {
	at   int64 // the key, and when the log stored its acceptance
	part int   // the partition of the log that has it
	schemas.ActionEntry
	nanoUSD int64
}

// fields are the columns of table action, in their order.
func (a *action) fields() []any {
	return []any{
		&a.at, &a.part, &a.Tenant, &a.Kind, &a.ID, &a.Class, &a.Agent, &a.Task, &a.Caller,
		&a.Method, &a.Host, &a.Path, &a.Calls,
		instant{&a.Created},
		instant{&a.Deadline},
		instant{&a.Settled},
		&a.Status, &a.Code, &a.Entry, &a.Attempts, &a.Resolution,
		&a.HTTPStatus, &a.Model, &a.TokensIn, &a.TokensOut, &a.nanoUSD, &a.TTFTMS,
	}
}

// instant is a time in a column: nanoseconds, and 0 for none.
type instant struct{ *time.Time }

// Value implements driver.Valuer.
func (i instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return int64(0), nil
	}
	return i.UnixNano(), nil
}

// Scan implements sql.Scanner.
func (i instant) Scan(v any) error {
	ns, _ := v.(int64) // the columns are integers
	*i.Time = timeOf(ns)
	return nil
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action.
func readAccepted(ref schemas.Ref, rec schemas.Record, part int) *action {
	a := &action{at: rec.Time.UnixNano(), part: part, ActionEntry: schemas.ActionEntry{
		Tenant: ref.Tenant, Kind: ref.Kind, ID: ref.ID, Created: rec.Time, Status: schemas.Status(schemas.EventAccepted),
	}}
	doc := gjson.GetBytes(rec.Data, "action")
	text := func(name string) string { return doc.Get(name).Str }
	created := doc.Get("accepted_at").Time()
	if created.IsZero() {
		return a
	}
	a.Created, a.Deadline, a.Class = created, doc.Get("deadline").Time(), schemas.Class(text("class"))
	a.Agent, a.Task, a.Caller = text("task_type"), text("task"), cmp.Or(text("caller"), text("principal"))
	payload := doc.Get("payload")
	switch ref.Kind {
	case schemas.KindTask:
		a.Task = ref.ID
	case schemas.KindPush:
		a.Task = payload.Get("task_id").Str
	case schemas.KindChat:
		a.Task = cmp.Or(a.Task, payload.Get("task_id").Str)
		a.answeredBy(payload.Get("model").Str)
	default:
		sensitive := doc.Get("sensitive").Bool()
		a.Called = ledger.CalledIn(schemas.Action{Kind: ref.Kind, Sensitive: sensitive}, payload.Raw)
		if !sensitive && a.Called == (schemas.Called{}) { // or it stands beside a payload that is stored as a blob
			part := func(name string) string { v := text("called." + name); return v[:min(len(v), longestCalled)] }
			a.Called = schemas.Called{Method: part("method"), Host: part("host"), Path: part("path"), Calls: int(doc.Get("called.calls").Int())}
		}
	}
	return a
}

// longestCalled is the number of bytes of a part of a call that a list shows, whatever the log has.
const longestCalled = 512

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
	a.Settled = rec.Time
	if !gjson.ValidBytes(rec.Data) || get("type").Str != string(schemas.EventSettled) || !slices.Contains(schemas.Outcomes(), outcome) {
		a.Status, a.Code = schemas.Status(schemas.OutcomeFailed), schemas.Poison
	} else {
		a.Status, a.Code, a.Entry, a.Attempts = schemas.Status(outcome), schemas.Code(get("settled.code").Str), get("settled.entry").Str, int(get("settled.attempts").Int())
		if outcome == schemas.OutcomeDenied && a.Entry == "" { // the call was denied, whether the action is the call or a run that makes it
			a.Entry = cmp.Or(get("settled.result.decision.entry").Str, get("settled.result.http.decision.entry").Str)
		}
	}
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
		if a.Settled.IsZero() {
			a.settle(rec)
		}
		return
	case typ == schemas.EventResolution:
		a.Resolution = get("resolution.effect").Str
		return
	case !a.Settled.IsZero():
		return
	}
	switch typ { //nolint:exhaustive // the others change nothing
	case schemas.EventStarted, schemas.EventWaiting:
		a.Status = schemas.Status(typ)
	case schemas.EventAttempt, schemas.EventAttempted:
		a.Status = schemas.Status(schemas.EventStarted)
		if ledger.Remote(a.Kind) && a.Host == "" {
			if c := ledger.CallOf(get("attempt.method").Str, get("attempt.url").Str); c.Host != "" {
				a.Called = c
			}
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
