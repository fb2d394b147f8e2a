package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/schemas"
)

// row is an action as the index holds it.
type row struct {
	ref      schemas.Ref
	at       int64 // the key, and when the log took it
	taskType string
	task     string
	class    schemas.Class
	created  int64
	deadline int64
	end      *end // nil: it has not ended
}

// end is how an action ended.
type end struct {
	ref      schemas.Ref
	seq      uint64
	at       int64
	outcome  schemas.Outcome
	code     schemas.Code
	entry    string
	attempts int
}

// readAccepted reads what a list shows out of an accepted event. One that cannot be
// read is an action all the same.
func readAccepted(rec schemas.Record) (row, bool) {
	ref, section, err := schemas.ParseSubject(rec.Subject)
	if err != nil || section != schemas.SectionAccepted {
		return row{}, false
	}
	at := rec.Time.UnixNano()
	r := row{ref: ref, at: at, created: at}
	var a struct {
		taskType, class, task string
		accepted, deadline    time.Time
	}
	order := members{"task_id": text(&a.task)}
	action := members{
		"task_type": text(&a.taskType), "class": text(&a.class),
		"accepted_at": moment(&a.accepted), "deadline": moment(&a.deadline),
		"payload": order.read,
	}
	if ref.Kind != schemas.KindChat && ref.Kind != schemas.KindPush { // nobody else's payload is looked into
		action["payload"] = enough
	}
	dec := jsontext.NewDecoder(bytes.NewReader(rec.Data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err = members{"action": action.read}.read(dec)
	if err != nil && !errors.Is(err, errEnough) || a.accepted.IsZero() {
		return r, true
	}
	r.taskType, r.class, r.task = a.taskType, schemas.Class(a.class), a.task
	r.created, r.deadline = a.accepted.UnixNano(), unixNano(a.deadline)
	if ref.Kind == schemas.KindTask {
		r.task = ref.ID
	}
	return r, true
}

// readSettled reads a terminal event. Whatever it says, the action has ended.
func readSettled(rec schemas.Record) (end, bool) {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil || !rec.Ends() {
		return end{}, false
	}
	e := end{ref: ref, seq: rec.Seq, at: rec.Time.UnixNano(), outcome: schemas.OutcomeFailed, code: schemas.Poison}
	var s struct {
		typ, outcome, code, entry string
		attempts                  int
		result                    jsontext.Value
	}
	settled := members{
		"outcome": text(&s.outcome), "code": text(&s.code), "entry": text(&s.entry), "attempts": number(&s.attempts),
		"result": func(d *jsontext.Decoder) error {
			if s.outcome != string(schemas.OutcomeDenied) || s.entry != "" {
				return d.SkipValue()
			}
			v, err := d.ReadValue()
			s.result = v.Clone()
			return err
		},
	}
	dec := jsontext.NewDecoder(bytes.NewReader(rec.Data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err = members{"type": text(&s.typ), "settled": settled.read}.read(dec)
	if err != nil || s.typ != string(schemas.EventSettled) || !slices.Contains(schemas.Outcomes(), schemas.Outcome(s.outcome)) {
		return e, true
	}
	e.outcome, e.code, e.entry, e.attempts = schemas.Outcome(s.outcome), schemas.Code(s.code), s.entry, s.attempts
	if e.entry == "" && len(s.result) > 0 {
		e.entry = deniedBy(s.result)
	}
	return e, true
}

// deniedBy is the entry in the result of a call that was refused, whether the action is
// the call or a run that makes it.
func deniedBy(doc []byte) string {
	type call struct {
		Decision struct {
			Entry string `json:"entry"`
		} `json:"decision"`
	}
	var res struct {
		call
		HTTP call `json:"http"`
	}
	if json.Unmarshal(doc, &res) != nil {
		return ""
	}
	if res.Decision.Entry != "" {
		return res.Decision.Entry
	}
	return res.HTTP.Decision.Entry
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
