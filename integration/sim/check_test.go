package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weir/internal/ledger"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// harvest gathers the ledgers of a run that is over.
func (w *world) harvest(backlog int) history.Run {
	r := history.Run{Asked: w.asked, Watched: w.watched, Left: history.Left{Backlog: uint64(backlog)}}
	for _, h := range w.target.all() {
		r.Hits = append(r.Hits, h.Hit)
		w.stray(h)
	}
	for p := range layout.Partitions {
		r.Log = append(r.Log, w.records(schemas.LogStream(p))...)
	}
	r.Evidence = w.records(schemas.EvidenceStream)
	w.recount(r)
	return r
}

func (w *world) records(name string) []schemas.Record {
	all, _, err := w.log.Page(context.Background(), name, ">", 1, 1<<20, 1<<30)
	if err != nil {
		panic(err) // nothing fails any more
	}
	return all
}

// state is the fold of an action as it stands; nil where it cannot be had.
func (w *world) state(ref schemas.Ref) *ledger.State {
	w.reading.Lock()
	defer w.reading.Unlock()
	of, _, err := w.log.Page(context.Background(), schemas.LogStream(layout.Partition(ref.Tenant, ref.ID)), layout.All(ref), 1, 1<<20, 1<<30)
	if err != nil {
		return nil
	}
	st, err := ledger.Fold(ref, of)
	if err != nil {
		return nil
	}
	return st
}

// stray notes a call that began while every node went by a policy that denies it.
func (w *world) stray(h hit) {
	for _, r := range w.revoking {
		if h.begun.After(r.from) && h.begun.Before(r.to) {
			w.breach(history.Violation{
				Invariant: "I12", Tenant: h.Tenant, Subject: h.Mark,
				Detail: fmt.Sprintf("a call began at %v, and the policy denied it from %v on", h.begun.Sub(w.start), r.from.Sub(w.start)),
			})
		}
	}
}

// verdict is all that is wrong with a run.
func (w *world) verdict(r history.Run) []history.Violation {
	return append(w.odd, history.Check(r, history.Bounds{Attempts: attempts, Heal: healTime})...)
}

// recount reads every action's life as a worker does, and counts the branches that only the log
// tells of.
func (w *world) recount(r history.Run) {
	for _, a := range history.Read(r.Log) {
		st := w.state(a.Ref)
		if st == nil || st.Damaged != nil || overlap(st) {
			w.breach(history.Violation{Invariant: "I2", Tenant: a.Tenant, Subject: a.ID, Detail: "its events cannot be folded, or two attempts of it are open"})
			continue
		}
		if st.Settled == nil {
			continue
		}
		w.outcome(st)
		for i, t := range st.Attempts {
			if t.Result == nil {
				continue
			}
			w.probe(st, i)
			more := i+1 < len(st.Attempts) && st.Attempts[i+1].Step == t.Step
			switch {
			case t.Result.Code == schemas.Interrupted && more:
				w.tally.add(logAgain, 1)
			case t.Result.Code == schemas.Interrupted && st.Settled.Outcome == schemas.OutcomeUnknown:
				w.tally.add(logUnknown, 1)
			case !t.Result.Sent && more && t.Result.Code != "":
				w.tally.add(logNotSent, 1)
			case t.Result.Decision != nil && !t.Result.Decision.Allowed:
				w.tally.add(logDenied, 1)
			}
			if t.Mocked() {
				w.tally.add(logMocked, 1)
			}
		}
	}
}

// probe counts what a probe, or a derived key, made of a call whose answer was lost.
func (w *world) probe(st *ledger.State, i int) {
	t := st.Attempts[i]
	switch {
	case t.Result.Effect == schemas.EffectApplied:
		w.tally.add(logReconciled, 1)
	case t.Probe == 0 && t.NotApplied && slices.ContainsFunc(st.Attempts[i:], func(a ledger.Attempt) bool { return a.Probe == 0 && a.Number > t.Number }):
		w.tally.add(logNotApplied, 1)
	case t.Number > 1 && strings.Contains(t.URL, "/derived/"):
		w.tally.add(logDerived, 1)
	}
}

// overlap reports whether an attempt stands behind one that has no result.
func overlap(st *ledger.State) bool {
	open := false
	for _, ev := range st.Events {
		if open && ev.Type == schemas.EventAttempt {
			return true
		}
		open = ev.Type == schemas.EventAttempt || open && ev.Attempted == nil
	}
	return false
}

// outcome counts how an action ended, where that takes two things at once.
func (w *world) outcome(st *ledger.State) {
	s := st.Settled
	count := func(branch string, fired bool) {
		if fired {
			w.tally.add(branch, 1)
		}
	}
	count(logCanceled, s.Outcome == schemas.OutcomeCanceled && !st.Started)
	count(logCancelCall, s.Outcome == schemas.OutcomeCanceled && len(st.Attempts) > 0)
	count(logCancelLate, s.Outcome == schemas.OutcomeSucceeded && st.CancelRequested)
	count(logExpired, s.Outcome == schemas.OutcomeExpired)
	count(logResolved, st.Resolution != nil)
	count(logExhausted, s.Code == schemas.RetriesExhausted)
	count(logPartial, strings.Contains(string(s.Result), `"status":"partial"`))
	count(logWokeLate, st.Seq > st.SettledSeq && st.Resolution == nil)
	for _, ev := range st.Events {
		if ev.Waiting != nil {
			count(logDelayed, ev.Waiting.For == schemas.WaitDelay)
			count(logHeld, ev.Waiting.For == schemas.WaitRule && s.Outcome == schemas.OutcomeSucceeded)
		}
	}
}

// safe looks for what is shown before the device is known to have it.
func (w *world) safe(a act, id string, seq uint64) {
	w.mu.Lock()
	early := seq > w.synced[schemas.LogStream(layout.Partition(a.tenant, id))]
	w.mu.Unlock()
	if early {
		w.breach(history.Violation{Invariant: "I13", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("%d was shown before the barrier", seq)})
	}
}
