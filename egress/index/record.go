package index

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/schemas"
)

// action is an action as the index stores it.
type action struct {
	at                int64 // the key, and when the log stored its acceptance
	ref               schemas.Ref
	class             string
	agent, task       string
	caller            string
	called            schemas.Called
	created, deadline int64
	part              int    // the partition of the log that has it
	state             string // accepted, started or waiting: the last status before its end

	// The last answer of the target, and what a completion has used.
	httpStatus          int
	model               string
	tokensIn, tokensOut int64
	nanoUSD             int64
	ttft                float64 // milliseconds

	status      string // an outcome; empty: it has not ended
	code, entry string
	settled     int64
	attempts    int
	resolution  string // of an unknown outcome: its effect; empty: none
}

// columns are those of table action, in the order of fields: the fixed ones, and those that change
// until the action has ended.
const (
	columns  = "at, tenant, kind, id, class, task, caller, created, deadline, part, " + changing
	changing = "agent, method, host, path, calls, state, http_status, model, tokens_in, tokens_out, nano_usd, ttft, " +
		"status, code, entry, settled, attempts, resolution"
	fixed = 10
)

func (a *action) fields() []any {
	return []any{
		&a.at, &a.ref.Tenant, &a.ref.Kind, &a.ref.ID, &a.class, &a.task, &a.caller, &a.created, &a.deadline, &a.part,
		&a.agent, &a.called.Method, &a.called.Host, &a.called.Path, &a.called.Calls, &a.state,
		&a.httpStatus, &a.model, &a.tokensIn, &a.tokensOut, &a.nanoUSD, &a.ttft,
		&a.status, &a.code, &a.entry, &a.settled, &a.attempts, &a.resolution,
	}
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action.
func readAccepted(ref schemas.Ref, rec schemas.Record, part int) action {
	at := rec.Time.UnixNano()
	a := action{at: at, ref: ref, part: part, created: at, state: string(schemas.EventAccepted)}
	var accepted, deadline time.Time
	var taskType, principal string
	var called, payload gjson.Result
	doc := schemas.Action{Kind: ref.Kind}
	gjson.GetBytes(rec.Data, "action").ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "accepted_at":
			accepted = v.Time()
		case "deadline":
			deadline = v.Time()
		case "task_type":
			taskType = v.Str
		case "class":
			a.class = v.Str
		case "sensitive":
			doc.Sensitive = v.Bool()
		case "principal":
			principal = v.Str
		case "task":
			a.task = v.Str
		case "caller":
			a.caller = v.Str
		case "called":
			called = v
		case "payload":
			payload = v
		}
		return true
	})
	if accepted.IsZero() {
		return action{at: at, ref: ref, part: part, created: at, state: a.state}
	}
	a.agent, a.caller, a.created = taskType, cmp.Or(a.caller, principal), accepted.UnixNano()
	if !deadline.IsZero() {
		a.deadline = deadline.UnixNano()
	}
	switch ref.Kind {
	case schemas.KindTask:
		a.task = ref.ID
	case schemas.KindPush:
		a.task = payload.Get("task_id").Str
	case schemas.KindChat:
		a.task = cmp.Or(a.task, payload.Get("task_id").Str)
		if model := payload.Get("model").Str; schemas.ValidModel(model) {
			a.model = model
		}
	default:
		a.called = readCalled(doc, called, payload.Raw)
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

// settle ends an action, whatever its last event holds. What that does not say stays as earlier events
// said it.
func (a *action) settle(rec schemas.Record) {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	outcome := schemas.Outcome(get("settled.outcome").Str)
	a.settled = rec.Time.UnixNano()
	if !gjson.ValidBytes(rec.Data) || get("type").Str != string(schemas.EventSettled) || !slices.Contains(schemas.Outcomes(), outcome) {
		a.status, a.code = string(schemas.OutcomeFailed), string(schemas.Poison)
	} else {
		a.status, a.code, a.entry, a.attempts = string(outcome), get("settled.code").Str, get("settled.entry").Str, int(get("settled.attempts").Int())
		if outcome == schemas.OutcomeDenied && a.entry == "" { // the call was denied, whether the action is the call or a run that makes it
			a.entry = cmp.Or(get("settled.result.decision.entry").Str, get("settled.result.http.decision.entry").Str)
		}
	}
	a.httpStatus = cmp.Or(int(get("attempted.status").Int()), a.httpStatus)
	if a.ref.Kind != schemas.KindChat {
		return
	}
	if model := get("settled.result.model").Str; schemas.ValidModel(model) {
		a.model = model
	}
	used := get("settled.result.usage")
	a.tokensIn, a.tokensOut, a.nanoUSD = used.Get("prompt_tokens").Int(), used.Get("completion_tokens").Int(), used.Get("cost_nanousd").Int()
	a.ttft = get("settled.result.first_ms").Float()
}

// fold adds an event after the acceptance. An action that has ended keeps its end; a person may still
// resolve it.
func (a *action) fold(rec schemas.Record) {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	typ := schemas.EventType(get("type").Str)
	switch {
	case rec.Ends():
		if a.status == "" {
			a.settle(rec)
		}
		return
	case typ == schemas.EventResolution:
		a.resolution = get("resolution.effect").Str
		return
	case a.status != "":
		return
	}
	switch typ { //nolint:exhaustive // the others change nothing
	case schemas.EventStarted:
		a.state = string(schemas.EventStarted)
	case schemas.EventAttempt, schemas.EventAttempted:
		a.state = string(schemas.EventStarted)
		if ledger.Remote(a.ref.Kind) && a.called.Host == "" {
			if c := ledger.CallOf(get("attempt.method").Str, get("attempt.url").Str); c.Host != "" {
				a.called = c
			}
		}
		if typ == schemas.EventAttempted && !get("attempted.probe").Exists() {
			a.httpStatus = cmp.Or(int(get("attempted.status").Int()), a.httpStatus)
		}
	case schemas.EventWaiting:
		a.state = string(schemas.EventWaiting)
	case schemas.EventProgress, schemas.EventDelta, schemas.EventSignal, schemas.EventStatus:
		if a.state == string(schemas.EventWaiting) { // it waits no more
			a.state = string(schemas.EventStarted)
		}
		if typ == schemas.EventSignal && get("task.what").Str == string(schemas.TaskClaimed) {
			a.agent = cmp.Or(get("task.agent").Str, get("task.holder").Str, a.agent)
		}
	}
}
