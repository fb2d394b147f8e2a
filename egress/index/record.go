package index

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/schemas"
)

// action is an action as the index stores it.
type action struct {
	at                int64 // the key, and when the log stored its acceptance
	ref               schemas.Ref
	class             string
	taskType, task    string
	created, deadline int64
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
const columns = "at, tenant, kind, id, class, task_type, task, created, deadline, status, code, entry, settled, attempts"

func (a *action) fields() []any {
	return []any{
		&a.at, &a.ref.Tenant, &a.ref.Kind, &a.ref.ID, &a.class, &a.taskType, &a.task, &a.created, &a.deadline,
		&a.status, &a.code, &a.entry, &a.settled, &a.attempts,
	}
}

// lenient accepts everything that the log may hold.
func lenient() jsonv2.Options {
	return jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// errEnough ends the decoding of a record: no list shows what follows.
var errEnough = errors.New("enough was read")

// payload belongs to an accepted event. The index reads the task from that of a chat or a push. Other payloads, of up to a quarter of a megabyte, are not decoded.
type payload struct {
	wanted bool
	task   string
}

// UnmarshalJSONFrom ignores a payload that is not an object.
func (p *payload) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if !p.wanted {
		return errEnough
	}
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	var doc struct {
		TaskID string `json:"task_id"`
	}
	err := jsonv2.UnmarshalDecode(d, &doc)
	p.task = doc.TaskID
	return err
}

// readAccepted reads what a list shows from an accepted event. An event that cannot be
// decoded is still an action.
func readAccepted(ref schemas.Ref, rec schemas.Record) *action {
	a := &action{at: rec.Time.UnixNano(), ref: ref, created: rec.Time.UnixNano()}
	var ev struct {
		Action struct {
			TaskType   string    `json:"task_type"`
			Class      string    `json:"class"`
			AcceptedAt time.Time `json:"accepted_at"`
			Deadline   time.Time `json:"deadline"`
			Payload    payload   `json:"payload"`
		} `json:"action"`
	}
	doc := &ev.Action
	doc.Payload.wanted = ref.Kind == schemas.KindChat || ref.Kind == schemas.KindPush
	err := jsonv2.Unmarshal(rec.Data, &ev, lenient())
	if err != nil && !errors.Is(err, errEnough) || doc.AcceptedAt.IsZero() {
		return a
	}
	a.taskType, a.class, a.task, a.created = doc.TaskType, doc.Class, doc.Payload.task, doc.AcceptedAt.UnixNano()
	if !doc.Deadline.IsZero() {
		a.deadline = doc.Deadline.UnixNano()
	}
	if ref.Kind == schemas.KindTask {
		a.task = ref.ID
	}
	return a
}

// readSettled reads a terminal event. Whatever it holds, the action has ended.
func readSettled(rec schemas.Record) end {
	var ev struct {
		Type    schemas.EventType `json:"type"`
		Settled struct {
			Outcome  schemas.Outcome `json:"outcome"`
			Code     string          `json:"code"`
			Entry    string          `json:"entry"`
			Attempts int             `json:"attempts"`
		} `json:"settled"`
	}
	err := jsonv2.Unmarshal(rec.Data, &ev, lenient())
	s := ev.Settled
	if err != nil || ev.Type != schemas.EventSettled || !slices.Contains(schemas.Outcomes(), s.Outcome) {
		return end{status: string(schemas.OutcomeFailed), code: string(schemas.Poison), settled: rec.Time.UnixNano()}
	}
	if s.Outcome == schemas.OutcomeDenied && s.Entry == "" {
		s.Entry = deniedBy(rec.Data)
	}
	return end{string(s.Outcome), s.Code, s.Entry, rec.Time.UnixNano(), s.Attempts}
}

// deniedBy is the entry in the result of a call that was denied, whether the action is the
// call or a run that makes it.
func deniedBy(event []byte) string {
	type call struct {
		Decision struct {
			Entry string `json:"entry"`
		} `json:"decision"`
	}
	var ev struct {
		Settled struct {
			Result struct {
				call
				HTTP call `json:"http"`
			} `json:"result"`
		} `json:"settled"`
	}
	if json.Unmarshal(event, &ev) != nil {
		return ""
	}
	if entry := ev.Settled.Result.Decision.Entry; entry != "" {
		return entry
	}
	return ev.Settled.Result.HTTP.Decision.Entry
}
