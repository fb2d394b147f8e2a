package history

import (
	"encoding/json"

	"weir/schemas"
)

// Action is one action as its records tell of it. Nothing is made good: what a sound log
// never holds is kept, so that it can be found.
type Action struct {
	schemas.Ref
	// Events are all but wake-ups, in the order of their sequences.
	Events []Event
	// Tries are the attempts in the order in which they were begun.
	Tries []*Try
	// Orphans are the sequences of results that no attempt stands before.
	Orphans []uint64
	// Unread are the sequences of records that are no events.
	Unread []uint64
}

// Event is one event and where it lies.
type Event struct {
	schemas.Record
	schemas.Event
	Seq uint64
}

// Try is an attempt with its result, nil where the log has none.
type Try struct {
	schemas.Attempt
	Result *schemas.Attempted
	// Declared: it was written down before it was made.
	Declared bool
}

// Read folds the records of a log by action, in the order of their first records.
func Read(log []schemas.Record) []*Action {
	var all []*Action
	known := map[schemas.Ref]*Action{}
	for _, r := range log {
		ref, _, err := schemas.ParseSubject(r.Subject)
		if err != nil {
			continue // a pending wake-up lies in the same stream
		}
		a := known[ref]
		if a == nil {
			a = &Action{Ref: ref}
			known[ref] = a
			all = append(all, a)
		}
		if !r.Notifies() {
			a.fold(r)
		}
	}
	return all
}

func (a *Action) fold(r schemas.Record) {
	ev := Event{Record: r, Seq: r.Seq}
	if err := json.Unmarshal(r.Data, &ev.Event); err != nil || ev.Type == "" {
		a.Unread = append(a.Unread, r.Seq)
		return
	}
	a.Events = append(a.Events, ev)
	switch {
	case ev.Type == schemas.EventAttempt && ev.Attempt != nil:
		a.Tries = append(a.Tries, &Try{Attempt: *ev.Attempt, Declared: true})
	case ev.Attempted != nil && ev.Attempt != nil: // attempted or settled
		a.Tries = append(a.Tries, &Try{Attempt: *ev.Attempt, Result: ev.Attempted})
	case ev.Attempted != nil:
		if t := a.open(*ev.Attempted); t != nil {
			t.Result = ev.Attempted
		} else {
			a.Orphans = append(a.Orphans, r.Seq)
		}
	}
}

// open is the attempt that a result belongs to.
func (a *Action) open(res schemas.Attempted) *Try {
	for _, t := range a.Tries {
		if t.Declared && t.Result == nil && t.Step == res.Step && t.Number == res.Number && t.Hop == res.Hop && t.Probe == res.Probe {
			return t
		}
	}
	return nil
}

// Of are the action's events of one type.
func (a *Action) Of(t schemas.EventType) []Event {
	var of []Event
	for _, ev := range a.Events {
		if ev.Type == t {
			of = append(of, ev)
		}
	}
	return of
}

// Accepted is what was accepted; nil where the log does not say.
func (a *Action) Accepted() *schemas.Action {
	for _, ev := range a.Of(schemas.EventAccepted) {
		return ev.Action
	}
	return nil
}

// Settled is the first end; nil where there is none.
func (a *Action) Settled() *schemas.Settled {
	for _, ev := range a.Of(schemas.EventSettled) {
		return ev.Settled
	}
	return nil
}

// Result is the result document of an action of kind http; zero where there is none, or
// none that lies on the log.
func (a *Action) Result() schemas.HTTPResult {
	var res schemas.HTTPResult
	if s := a.Settled(); s != nil && a.Kind == schemas.KindHTTP && len(s.Result) > 0 {
		_ = json.Unmarshal(s.Result, &res) // what cannot be read has no answer, which Check says
	}
	return res
}

// Mocked reports whether a traffic rule answered in the target's place.
func (t *Try) Mocked() bool {
	d := t.Decision
	if t.Result != nil && t.Result.Decision != nil {
		d = *t.Result.Decision
	}
	return d.Traffic != nil && d.Traffic.Mocked != ""
}

// MayHaveLeft reports whether the log leaves it open, or says, that bytes of the request
// were sent.
func (t *Try) MayHaveLeft() bool {
	return t.Declared && !t.Mocked() && (t.Result == nil || t.Result.Sent)
}

// calls reports whether a kind's actions are calls that are made and recorded one by one.
func calls(k schemas.Kind) bool { return k == schemas.KindHTTP || k == schemas.KindPlan }
