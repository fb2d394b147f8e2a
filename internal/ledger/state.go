package ledger

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"weir/internal/fault"
	"weir/schemas"
)

// State is the fold of an action's events. It belongs to one goroutine.
type State struct {
	schemas.Ref
	Action schemas.Action
	// Seq is the sequence of the action's newest message, wakes included: the fence of the next
	// append.
	Seq uint64
	// N is the ordinal of the newest event, and Newest when it was stored: by the log's clock,
	// where it was read from there.
	N      int
	Newest time.Time
	// Message is the sequence of the message that the worker processes; 0 for readers.
	Message uint64
	// Again says that a worker may have been at the action before, whatever it has written. It is
	// false for the first delivery of its first message.
	Again bool
	// Inherited is the number of events when the state was read; those after the accepted event are
	// the work of an earlier worker.
	Inherited int
	// Events are all events so far, with their sequences. Progress and deltas are only counted:
	// there may be a hundred thousand of them.
	Events        []schemas.Event
	Progress      int
	ProgressBytes int // of their data

	Started bool
	// Attempts holds the attempts and probes that were written down, with their results.
	Attempts []Attempt
	// CancelRequested: a caller asked for the action to stop.
	CancelRequested bool
	Waiting         *schemas.Waiting
	Settled         *schemas.Settled
	SettledSeq      uint64
	SettledAt       time.Time // zero: its record cannot be read
	Resolution      *schemas.Resolution
	// SupersededBy is the action that a redrive, or a repeat of the request, has begun; empty: none.
	SupersededBy string
	// StoredEvidence are the ids of the evidence that is known to be stored; nil until it is looked up.
	StoredEvidence map[string]bool
	// Underived: evidence was stored that the action's events do not require. A later worker would not
	// store it again, so it must be durable before the outcome is written.
	Underived bool
	held      *held // see Hold
	// Damaged is set if a record could not be decoded. Its content is missing in the state; only a
	// worker that dead-letters the action may continue from here.
	Damaged *fault.Terminal
}

// Attempt is an attempt, or a probe of one, with its result; Result is nil while it is unknown.
type Attempt struct {
	schemas.Attempt
	Result *schemas.Attempted
	// Shown is the sequence of the event with the beginning of its answer; 0: it was not shown.
	Shown uint64
	// NotApplied: a later probe has shown that it had no effect.
	NotApplied bool
}

// MayHaveActed reports whether the attempt, whose result is known, may have had an effect.
func (t Attempt) MayHaveActed() bool { return t.Result.Sent && !t.NotApplied }

// LastWord is what policy said of the attempt last: another policy may have come into force between
// the attempt's record and its first byte.
func (t Attempt) LastWord() schemas.Decision {
	if r := t.Result; r != nil && r.Decision != nil {
		return *r.Decision
	}
	return t.Decision
}

// Mocked reports whether a traffic rule answered in the target's place.
func (t Attempt) Mocked() bool {
	d := t.LastWord()
	return d.Traffic != nil && d.Traffic.Mocked != ""
}

// Keys are what an action that is made from this one has to know of the idempotency keys that may have
// been sent: the seed of derived keys, and when the target may forget a key. Both are empty if none was
// sent.
func (s *State) Keys() (seed string, expires time.Time) {
	for _, t := range s.Attempts {
		if t.KeyExpiresAt.IsZero() || t.Result != nil && !t.Result.Sent {
			continue
		}
		if expires.IsZero() || t.KeyExpiresAt.Before(expires) {
			expires = t.KeyExpiresAt
		}
	}
	if expires.IsZero() {
		return s.Action.KeySeed, s.Action.KeyExpiresAt
	}
	return s.Action.Seed(), expires
}

// Fold builds the state from an action's messages in order. The first one must be the accepted
// event; fault.ErrGone means that it was dropped. A record that cannot be decoded marks the state
// as damaged and is skipped, so that the action can be read and settled anyway.
func Fold(ref schemas.Ref, records []schemas.Record) (*State, error) {
	st := &State{Ref: ref}
	for _, r := range records {
		if err := st.fold(r); err != nil {
			return nil, err
		}
	}
	return st.folded()
}

// fold adds the next message.
func (s *State) fold(r schemas.Record) error {
	if r.Notifies() {
		s.Seq = r.Seq
		return nil
	}
	_, _, section := schemas.Split(r.Subject)
	ev, err := Decode(r.Data)
	if err == nil && schemas.SectionOf(ev.Type) != section {
		err = &fault.Terminal{Code: schemas.Poison, Reason: "the record is not of the type that its subject names"}
	}
	switch {
	case err != nil:
		s.damage(r, err)
	case s.N == 0 && ev.Type != schemas.EventAccepted:
		return fault.ErrGone
	default:
		s.apply(r, ev)
	}
	return nil
}

// folded is the state once every message is in it.
func (s *State) folded() (*State, error) {
	if s.N == 0 {
		return nil, fault.ErrGone
	}
	s.Inherited, s.Again = s.N, true
	return s, nil
}

// damage notes a record that cannot be decoded and counts it as an event.
func (s *State) damage(r schemas.Record, err error) {
	_, _, section := schemas.Split(r.Subject)
	switch {
	case section == schemas.SectionAccepted:
		s.Action = schemas.Action{ID: s.ID, Tenant: s.Tenant, Kind: s.Kind, AcceptedAt: r.Time}
	case r.Ends(): // whatever it said
		s.Settled, s.SettledSeq = &schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.Poison}, r.Seq
	}
	s.Seq, s.N, s.Newest = r.Seq, s.N+1, r.Time
	if !errors.As(err, &s.Damaged) {
		s.Damaged = &fault.Terminal{Code: schemas.Poison, Reason: "the record cannot be read", Cause: err}
	}
}

// apply folds one event in.
func (s *State) apply(r schemas.Record, ev schemas.Event) {
	s.Seq, s.N, s.Newest = r.Seq, ev.N, r.Time
	if ev.Type == schemas.EventProgress || ev.Type == schemas.EventDelta {
		s.Progress++
		s.ProgressBytes += len(ev.Data)
		s.Waiting = nil
		if t := s.Open(); t != nil && ev.First {
			t.Shown = r.Seq
		}
		return
	}
	ev.Seq = r.Seq
	s.Events = append(s.Events, ev)
	switch ev.Type {
	case schemas.EventAccepted:
		s.Action = *ev.Action
	case schemas.EventStarted:
		s.Started, s.Waiting = true, nil
	case schemas.EventAttempt:
		s.Started, s.Waiting = true, nil
		s.Attempts = append(s.Attempts, Attempt{Attempt: *ev.Attempt})
	case schemas.EventAttempted:
		s.Started, s.Waiting = true, nil
		if ev.Attempt != nil { // nothing was sent, so nothing was written down before
			s.Attempts = append(s.Attempts, Attempt{Attempt: *ev.Attempt})
		}
		s.result(ev.Attempted)
	case schemas.EventWaiting:
		s.Waiting = ev.Waiting
	case schemas.EventCancel:
		s.CancelRequested = true
	case schemas.EventSignal, schemas.EventStatus:
		s.Waiting = nil // the reason to wait has changed; internal/task folds it
	case schemas.EventSettled:
		s.Settled, s.SettledSeq, s.SettledAt, s.Waiting = ev.Settled, r.Seq, ev.Time, nil
		s.result(ev.Attempted)
	case schemas.EventResolution:
		s.Resolution = ev.Resolution
	case schemas.EventSuperseded:
		s.SupersededBy = ev.Superseded.By
	case schemas.EventProgress, schemas.EventDelta:
	}
}

// Add folds in an event that no log stores, for a call that belongs to no action.
func (s *State) Add(ev schemas.Event) {
	ev.N = s.N + 1
	s.apply(schemas.Record{Seq: s.Seq + 1, Time: ev.Time}, ev)
}

// result closes the open attempt; one that was held has been closed already.
func (s *State) result(r *schemas.Attempted) {
	t := s.Open()
	if t == nil || r == nil {
		return
	}
	t.Result = r
	if t.Probe > 0 && r.Effect == schemas.EffectNotApplied {
		for i := range s.Attempts {
			s.Attempts[i].NotApplied = s.Attempts[i].NotApplied || s.Attempts[i].Probe == 0 && s.Attempts[i].Step == t.Step
		}
	}
}

// Open is the newest attempt if it has no result, else nil.
func (s *State) Open() *Attempt {
	if n := len(s.Attempts); n > 0 && s.Attempts[n-1].Result == nil {
		return &s.Attempts[n-1]
	}
	return nil
}

// Unsent reports whether no attempt can have reached its target.
func (s *State) Unsent() bool {
	return !slices.ContainsFunc(s.Attempts, func(t Attempt) bool { return t.Result == nil || t.Result.Sent })
}

// AttemptsOf are the attempts of one step, in order.
func (s *State) AttemptsOf(step int) []Attempt { return s.ProbesOf(step, 0) }

// ProbesOf are the probes of one attempt of a step, in order.
func (s *State) ProbesOf(step, attempt int) []Attempt {
	var tries []Attempt
	for _, t := range s.Attempts {
		if t.Step == step && t.Probe == attempt {
			tries = append(tries, t)
		}
	}
	return tries
}

// Status is the status for people and lists: the outcome once settled, otherwise accepted, started
// or waiting.
func (s *State) Status() string {
	switch {
	case s.Settled != nil:
		return string(s.Settled.Outcome)
	case s.Waiting != nil:
		return string(schemas.EventWaiting)
	case s.Started:
		return string(schemas.EventStarted)
	default:
		return string(schemas.EventAccepted)
	}
}

// encoding is encoding/json's, by a faster encoder, without its escapes.
var encoding = json.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false)) //nolint:gochecknoglobals // a constant

// Encode writes a record of the log, or a document for a client, byte for byte as encoding/json
// does without SetEscapeHTML: raw JSON keeps its bytes. Texts have no U+2028, which some clients
// treat as a line end. An encoding/json.Number is a text here.
func Encode(v any) ([]byte, error) {
	data, err := json.Marshal(v, encoding)
	if err != nil || !bytes.Contains(data, []byte("\xe2\x80\xa8")) && !bytes.Contains(data, []byte("\xe2\x80\xa9")) {
		return data, err
	}
	return schemas.Encode(v) // the fast one would escape both or neither
}

// Decode reads one event. If it is unreadable, Decode returns *fault.Terminal with POISON.
func Decode(data []byte) (schemas.Event, error) {
	var ev schemas.Event
	if err := json.Unmarshal(data, &ev, encoding); err != nil {
		return ev, &fault.Terminal{Code: schemas.Poison, Reason: "the record is not an event", Cause: err}
	}
	if ev.V < 1 || ev.V > schemas.EventVersion+1 {
		return ev, &fault.Terminal{Code: schemas.Poison, Reason: "the record has an unknown version"}
	}
	if !complete(ev) {
		return ev, &fault.Terminal{Code: schemas.Poison, Reason: "the record lacks what its type needs"}
	}
	return ev, nil
}

// complete reports whether the document that the type promises is there.
func complete(ev schemas.Event) bool {
	switch ev.Type {
	case schemas.EventAccepted:
		return ev.Action != nil && ev.N == 1
	case schemas.EventAttempt:
		return ev.Attempt != nil
	case schemas.EventAttempted:
		return ev.Attempted != nil
	case schemas.EventWaiting:
		return ev.Waiting != nil
	case schemas.EventSettled:
		return ev.Settled != nil
	case schemas.EventResolution:
		return ev.Resolution != nil
	case schemas.EventSuperseded:
		return ev.Superseded != nil
	case schemas.EventSignal, schemas.EventStatus:
		return ev.Task != nil
	case schemas.EventStarted, schemas.EventProgress, schemas.EventDelta, schemas.EventCancel:
		return true
	default:
		return false
	}
}
