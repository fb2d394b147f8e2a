package activetasks

import (
	"encoding/json"
	"time"

	folding "weir/internal/task"
	"weir/schemas"
)

// task is one that has not been settled.
type task struct {
	Entry // what the first event says; entry adds the rest

	state *folding.State
	// stored and first are the server's time and the place of its first event.
	stored time.Time
	first  uint64

	// blob names the object with its order, until that was read: only then its pool is
	// known.
	blob string

	n   int    // the ordinal of the newest event
	seq uint64 // and its place

	in place
}

// place names a list: the tasks of a tenant that may be leased, or those that a holder has leased. The
// zero place is none.
type place struct {
	tenant, holder string
	leasable       bool
}

// place is where a task belongs: one that is leased is not leasable.
func (t *task) place() place {
	switch {
	case t.leasable():
		return place{tenant: t.Ref.Tenant, leasable: true}
	case t.state.Leased && t.state.Holder != "":
		return place{tenant: t.Ref.Tenant, holder: t.state.Holder}
	default:
		return place{}
	}
}

// over reports whether the deadline has passed: then it only waits for its end.
func (t *task) over(now time.Time) bool { return !t.Deadline.IsZero() && !now.Before(t.Deadline) }

func (t *task) entry() Entry {
	e := t.Entry
	e.Pool, e.Leasable, e.Lease, e.Holder, e.Leased = t.state.Order.Pool, t.leasable(), t.state.Lease, t.state.Holder, t.state.Leased
	return e
}

func (t *task) leasable() bool { return t.blob == "" && t.state.Leasable() }

// begin is the task of an accepted event; ok is false where its order cannot be read.
func begin(ref schemas.Ref, r schemas.Record, a schemas.Action) (t *task, ok bool) {
	t = &task{
		Entry:  Entry{Ref: ref, Accepted: a.AcceptedAt, Deadline: a.Deadline, Entries: a.Entries, Models: a.Models},
		stored: r.Time, first: r.Seq, blob: a.PayloadBlob, state: folding.Begin(a, schemas.TaskOrder{}),
	}
	return t, t.blob != "" || t.ordered(a.Payload)
}

// ordered keeps of an order what the cache has to know: texts may be long.
func (t *task) ordered(payload []byte) bool {
	var order struct {
		Pool string `json:"pool"`
	}
	if json.Unmarshal(payload, &order) != nil {
		return false
	}
	t.state.Order.Pool, t.blob = order.Pool, ""
	return true
}

// apply folds an event in, but for the texts and lists that an agent and its people write.
func (t *task) apply(ev schemas.Event) {
	if ev.Task != nil {
		switch ev.Task.What {
		case schemas.TaskAsked, schemas.TaskAnswered, schemas.TaskPushed:
			return
		case schemas.TaskSubtoken:
			if sub := ev.Task.Subtoken; sub != nil {
				ev.Task.Subtoken = &schemas.Subtoken{N: sub.N}
			}
		case schemas.TaskReported:
			if r := ev.Task.Report; r != nil {
				ev.Task.Report = &schemas.TaskReport{Completed: r.Completed}
			}
		default:
		}
	}
	if ev.Settled != nil {
		ev.Settled = &schemas.Settled{Outcome: ev.Settled.Outcome}
	}
	t.state.Apply(ev)
}

// watch waits for the end of a lease, or of a token.
type watch struct {
	lease int
	token *folding.Token // nil: the lease alone
	over  chan struct{}
}

// ends reports whether what is known of a task ends a lease of it. A lease or a subtoken that the
// cache has not heard of yet is no reason.
func (w *watch) ends(s *folding.State) bool {
	return s.Over() || s.Canceled || s.Lease > w.lease ||
		s.Lease == w.lease && (w.lease > 0 && !s.Leased || w.token != nil && w.token.Subtoken <= s.Subtokens() && !s.Accepts(*w.token) && !s.Delegates(*w.token))
}
