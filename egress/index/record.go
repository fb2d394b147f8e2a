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
	response
	end
	resolution string // of an unknown outcome: its effect; empty: none
}

// response is the last answer of the target, and what a completion has used.
type response struct {
	httpStatus          int
	model               string
	tokensIn, tokensOut int64
	nanoUSD             int64
	ttft                float64 // milliseconds
}

// change is what the events of an action in one batch change before its end.
type change struct {
	state      string
	httpStatus int
	called     schemas.Called // of a push or a repository
	agent      string         // of a task
	resolution string
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
const columns = "at, tenant, kind, id, class, agent, task, caller, method, host, path, calls, created, deadline, part, state, " +
	"http_status, model, tokens_in, tokens_out, nano_usd, ttft, status, code, entry, settled, attempts, resolution"

func (a *action) fields() []any {
	return []any{
		&a.at, &a.ref.Tenant, &a.ref.Kind, &a.ref.ID, &a.class, &a.agent, &a.task, &a.caller,
		&a.called.Method, &a.called.Host, &a.called.Path, &a.called.Calls, &a.created, &a.deadline, &a.part, &a.state,
		&a.httpStatus, &a.model, &a.tokensIn, &a.tokensOut, &a.nanoUSD, &a.ttft, &a.status, &a.code, &a.entry, &a.settled, &a.attempts, &a.resolution,
	}
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action.
func readAccepted(ref schemas.Ref, rec schemas.Record) *action {
	a := &action{at: rec.Time.UnixNano(), ref: ref, created: rec.Time.UnixNano(), state: string(schemas.EventAccepted)}
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
		return &action{at: a.at, ref: ref, created: a.created, state: a.state}
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
	case schemas.KindHTTP, schemas.KindPassthrough, schemas.KindPlan, schemas.KindRun, schemas.KindRule, schemas.KindRepo:
		a.called = readCalled(doc, called, payload.Raw)
	}
	return a
}

// readCalled is the call of an accepted event: the one that stands beside a payload which is kept
// apart, or the one in the payload.
func readCalled(doc schemas.Action, beside gjson.Result, payload string) schemas.Called {
	if c := ledger.CalledIn(doc, payload); doc.Sensitive || c != (schemas.Called{}) {
		return c
	}
	return schemas.Called{
		Method: beside.Get("method").Str, Host: beside.Get("host").Str, Path: beside.Get("path").Str, Calls: int(beside.Get("calls").Int()),
	}
}

// settle ends an action. What its last event does not say stays as earlier events said it.
func (a *action) settle(rec schemas.Record) {
	a.end = readSettled(rec)
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
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

// read adds an event of an action of a kind that has not ended.
func (c *change) read(kind schemas.Kind, rec schemas.Record) {
	get := func(path string) gjson.Result { return gjson.GetBytes(rec.Data, path) }
	typ := schemas.EventType(get("type").Str)
	c.state = stateAfter(c.state, typ)
	switch typ { //nolint:exhaustive // the others change the state alone
	case schemas.EventAttempt, schemas.EventAttempted:
		if ledger.Remote(kind) && c.called.Host == "" {
			c.called = ledger.CallOf(get("attempt.method").Str, get("attempt.url").Str)
		}
		if typ == schemas.EventAttempted && !get("attempted.probe").Exists() {
			c.httpStatus = cmp.Or(int(get("attempted.status").Int()), c.httpStatus)
		}
	case schemas.EventResolution:
		c.resolution = get("resolution.effect").Str
	case schemas.EventSignal:
		if get("task.what").Str == string(schemas.TaskClaimed) {
			c.agent = cmp.Or(get("task.agent").Str, get("task.holder").Str, c.agent)
		}
	}
}

// apply adds a change to an action that the same batch has accepted.
func (c *change) apply(a *action) {
	a.state, a.httpStatus, a.agent = c.state, cmp.Or(c.httpStatus, a.httpStatus), cmp.Or(c.agent, a.agent)
	a.resolution = cmp.Or(c.resolution, a.resolution)
	if a.called.Host == "" && c.called.Host != "" {
		a.called = c.called
	}
}

// resumed is the state of an action that waits no more, if it did; it is accepted or started.
const resumed = "resumed"

// stateAfter is the status of an action that has not ended after an event. Before that it was
// state, which is empty if it is not known here.
func stateAfter(state string, event schemas.EventType) string {
	switch event { //nolint:exhaustive // the others change no state
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
