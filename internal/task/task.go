// Package task is what the events of an action of kind task add up to: its state,
// who holds it, and by which token. It does no I/O and has no clock.
package task

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"weir/schemas"
)

// State is where a task stands. It is built by Fold and belongs to one goroutine.
type State struct {
	Order schemas.TaskOrder
	// Branch is the task's own branch.
	Branch string
	Status schemas.TaskStatus
	// Opened says that the branch is there; Base is the object it began at, and Head
	// the one that it is at by what was pushed.
	Opened     bool
	Base, Head string
	// Pushes and Reissues count what has changed its branch and its own token.
	Pushes, Reissues int
	// Lease is the number of the newest lease, and Leased says that its holder has the
	// task now. Where neither was ever, the task is open to both its own token and the
	// pool's agents.
	Lease  int
	Leased bool
	// Own: the holder of the task's own token has it, permanently.
	Own bool
	// Holder is the id of the pool token that has, or had, the newest lease.
	Holder string
	// Since is when the holder took it.
	Since time.Time
	// Inquiries are the questions, the first has the number 1.
	Inquiries []Inquiry
	// Report is the agent's final report. The first one counts.
	Report *schemas.TaskReport
	// Closed is Weir's own word on why it ends; nil: it does not end by that.
	Closed *schemas.TaskEvent
	// Canceled: a cancel was requested before the agent reported the end.
	Canceled bool
	// Settled is its end, if the log has that.
	Settled *schemas.Settled
	// Ended is when its end was decided, by the event with the ordinal Last; Left is the commit of
	// the branch at that time. All reports of the end use these: a push that is recorded later only
	// moves Head.
	Ended time.Time
	Last  int
	Left  string

	subtokens []subtoken

	hash string // of the token that is in force, hex
	was  string // of the one that was when the task ended
}

// Inquiry is a question with its answer.
type Inquiry struct {
	schemas.TaskInquiry
	Asked    time.Time
	Answer   *string
	Answered time.Time
	By       string
}

// Fold is the state of a task by all of its events, the accepted one among them; payload
// is what its action was accepted with. An error says that this is no order: the state
// lacks it then, and holds all else.
func Fold(a schemas.Action, payload json.RawMessage, events []schemas.Event) (*State, error) {
	var order schemas.TaskOrder
	err := json.Unmarshal(payload, &order)
	if err != nil {
		order = schemas.TaskOrder{}
		err = fmt.Errorf("the payload is no task: %w", err)
	}
	s := Begin(a, order)
	for _, ev := range events {
		s.Apply(ev)
	}
	return s, err
}

// Begin is the state of a task that was accepted, and whose order is known.
func Begin(a schemas.Action, order schemas.TaskOrder) *State {
	return &State{
		Order: order, Branch: Branch(a.Tenant, a.ID, order.Branch), Status: schemas.TaskStatusQueued, hash: a.TokenHash,
	}
}

// Branch is the name of a task's branch: the one that was asked for, or the task's
// UUID. That is its id if it is one, and else derived from it.
func Branch(tenant, id, asked string) string {
	if asked != "" {
		return asked
	}
	if u, err := uuid.Parse(id); err == nil && u.String() == id {
		return id
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(tenant+"\x00"+id)).String()
}

// Apply folds the next event in. Late events change nothing, as the order of the log decides: after
// the end is decided only a push counts, and after a cancel request no agent messages do. A push
// always counts, because the branch has moved; it changes no end.
func (s *State) Apply(ev schemas.Event) {
	switch ev.Type {
	case schemas.EventCancel:
		if !s.Over() {
			s.Canceled = true
		}
	case schemas.EventSettled:
		s.settle(ev)
	case schemas.EventSignal, schemas.EventStatus:
		switch {
		case ev.Task == nil:
		case ev.Task.What == schemas.TaskPushed: // the branch is where it is, whatever has ended meanwhile
			s.Head, s.Pushes = ev.Task.Head, s.Pushes+1
		case s.Over(), s.Canceled && ev.Type == schemas.EventSignal:
		default:
			s.happen(ev, ev.Task)
		}
	default:
	}
}

func (s *State) happen(ev schemas.Event, e *schemas.TaskEvent) {
	at := ev.Time
	switch e.What {
	case schemas.TaskOpened:
		s.Opened, s.Base, s.Head = true, e.Base, cmp.Or(s.Head, e.Base)
	case schemas.TaskClaimed:
		s.claim(at, e)
	case schemas.TaskReleased, schemas.TaskLost:
		if s.Leased && e.Lease == s.Lease {
			s.Leased, s.Status, s.hash = false, schemas.TaskStatusQueued, ""
		}
	case schemas.TaskReissued:
		if s.Lease == 0 {
			s.hash, s.Reissues = e.TokenHash, s.Reissues+1
		}
	case schemas.TaskSubtoken:
		s.delegated(e)
	case schemas.TaskAsked:
		if q := e.Inquiry; q != nil && q.N == len(s.Inquiries)+1 {
			s.Inquiries = append(s.Inquiries, Inquiry{TaskInquiry: *q, Asked: at})
		}
	case schemas.TaskAnswered:
		if q := e.Inquiry; q != nil && q.N >= 1 && q.N <= len(s.Inquiries) {
			if i := &s.Inquiries[q.N-1]; i.Answer == nil {
				i.Answer, i.Answered, i.By = &q.Text, at, q.By
			}
		}
	case schemas.TaskReported:
		if e.Report != nil {
			s.Report, s.Status = e.Report, schemas.TaskStatusFailed
			if e.Report.Completed {
				s.Status = schemas.TaskStatusCompleted
			}
			s.end(ev)
		}
	case schemas.TaskPushed: // see Apply
	case schemas.TaskClosed:
		if e.Status.Final() {
			s.Closed, s.Status = e, e.Status
			s.end(ev)
		}
	}
}

func (s *State) claim(at time.Time, e *schemas.TaskEvent) {
	switch {
	case s.Status != schemas.TaskStatusQueued:
	case e.Lease == 0 && s.Lease == 0:
		s.Status, s.Own, s.Since = schemas.TaskStatusRunning, true, at
	case e.Lease == s.Lease+1 && !s.Own:
		s.Status, s.Leased, s.Lease, s.Holder, s.Since, s.hash = schemas.TaskStatusRunning, true, e.Lease, e.Holder, at, e.TokenHash
	}
}

// end notes the event that decides the end.
func (s *State) end(ev schemas.Event) {
	s.Ended, s.Last, s.Left = ev.Time, ev.N, s.Head
	s.Leased, s.was, s.hash = false, s.hash, ""
}

func (s *State) settle(ev schemas.Event) {
	s.Settled = ev.Settled
	if s.Over() { // it is what was decided before
		return
	}
	s.end(ev)
	if ev.Settled != nil {
		s.Status = StatusOf(ev.Settled.Outcome)
	}
}

// StatusOf is the state of a task whose action has ended.
func StatusOf(o schemas.Outcome) schemas.TaskStatus {
	switch o {
	case schemas.OutcomeSucceeded:
		return schemas.TaskStatusCompleted
	case schemas.OutcomeCanceled:
		return schemas.TaskStatusCanceled
	case schemas.OutcomeExpired:
		return schemas.TaskStatusExpired
	default:
		return schemas.TaskStatusFailed
	}
}

// Over reports whether the task's end is decided, settled or not.
func (s *State) Over() bool { return s.Status.Final() }

// Stopped reports whether the task accepts no more activity at a time: its end is decided, a cancel
// was requested, or its deadline has passed. Zero is no deadline.
func (s *State) Stopped(deadline, now time.Time) bool {
	return s.Over() || s.Canceled || !deadline.IsZero() && !now.Before(deadline)
}

// Lives reports whether the holder of a lease may still act for the task at a time;
// lease 0 is the task's own token. It ends with the task's report, its cancel, its
// deadline and its end, and a lease also when it is lost.
func (s *State) Lives(lease int, deadline, now time.Time) bool {
	if s.Stopped(deadline, now) {
		return false
	}
	if lease == 0 {
		return s.Lease == 0
	}
	return s.Leased && lease == s.Lease
}

// WasLeased reports whether a lease of a holder was in force when the task ended.
func (s *State) WasLeased(lease int, holder string) bool {
	return s.was != "" && s.Lease == lease && s.Holder == holder
}

// Key is a part of the hash of the token that is in force; empty: none is.
func (s *State) Key() string { return s.hash[:min(len(s.hash), 16)] }

// Accepts reports whether a token is the one in force, whatever it may still do. A subtoken is not.
func (s *State) Accepts(t Token) bool { return t.Subtoken == 0 && same(s.hash, t.hash()) }

// Was reports whether a token was the one in force when the task ended. It grants
// nothing but to hear that.
func (s *State) Was(t Token) bool { return t.Subtoken == 0 && same(s.was, t.hash()) }

// Leasable reports whether a pool's agent may take the task: it is queued, its branch exists, no
// holder has it by a token of its own, no cancel was requested, and its lease limit is not reached.
func (s *State) Leasable() bool {
	return s.Status == schemas.TaskStatusQueued && s.Opened && !s.Own && !s.Canceled && s.Order.Pool != schemas.PoolNone && !s.Spent()
}

// Spent reports whether the task has no holder and cannot be leased again: it reached its lease
// limit.
func (s *State) Spent() bool {
	return s.Status == schemas.TaskStatusQueued && s.Lease >= schemas.MaxTaskLeases
}

// Open are the unanswered questions.
func (s *State) Open() []Inquiry {
	var open []Inquiry
	for _, q := range s.Inquiries {
		if q.Answer == nil {
			open = append(open, q)
		}
	}
	return open
}

// Hash is the hex SHA-256 of a token's secret, as events hold it.
func (t Token) Hash() string {
	h := t.hash()
	return hex.EncodeToString(h[:])
}

func (t Token) hash() [sha256.Size]byte { return sha256.Sum256(t.secret[:]) }
