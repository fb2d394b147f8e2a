package sim_test

import (
	"context"
	"fmt"
	"time"

	"weir/internal/ledger"
	"weir/internal/weirtest/history"
	"weir/processors"
	"weir/schemas"
)

// lines is the ledger as a pipeline has it.
func (m mutant) lines(l *ledger.Ledger) processors.Ledger {
	if m == noLines || m == leavesEarly {
		return disorderly{l, m}
	}
	return l
}

type disorderly struct {
	*ledger.Ledger
	mutant mutant
}

func (d disorderly) Turn(ctx context.Context, st *ledger.State) (bool, time.Duration, error) {
	if d.mutant == noLines {
		return true, 0, nil
	}
	mine, again, err := d.Ledger.Turn(ctx, st)
	if mine {
		_, err = d.Leave(ctx, st)
	}
	return mine, again, err
}

// turn is an action in a line.
type turn struct {
	*ledger.State
	sent, accepted, begun, over time.Time // sent is when the first request for it was
	retook                      bool      // it has lost the place that it was accepted with
}

// before reports whether an action has to begin before another one. Which of two that were
// asked for at once is the first nobody can say, and whoever lost its place by a fault stands
// where it took another.
func (a turn) before(b turn) bool {
	if a.retook || b.retook {
		return a.Ticket < b.Ticket
	}
	return a.accepted.Before(b.sent)
}

// inOrder holds the actions of a line against what is promised of them: no two are under way at
// once, and one that had been accepted when another was asked for begins first. What was
// canceled or expired before it did anything held up nobody.
func (w *world) inOrder(r history.Run, all []*ledger.State) {
	type place struct {
		stream string
		seq    uint64
	}
	at := map[place]time.Time{}
	for _, rec := range r.Log {
		at[place{rec.Stream, rec.Seq}] = rec.Time
	}
	var line []turn
	for _, st := range all {
		if st.Action.OrderingKey == "" || st.Settled == nil {
			continue
		}
		t := turn{State: st, sent: w.sent[st.Ref], accepted: st.Stored, retook: st.Ticket != st.Action.Ticket}
		waited, stream := false, schemas.LogStream(layout.Partition(st.Tenant, st.ID))
		for _, ev := range st.Events {
			switch {
			case t.begun.IsZero() && (ev.Type == schemas.EventStarted || ev.Attempt != nil):
				t.begun = at[place{stream, ev.Seq}]
			case ev.Type == schemas.EventSettled:
				t.over = at[place{stream, ev.Seq}]
				if t.begun.IsZero() {
					t.begun = t.over // it has made no call
				}
			case ev.Waiting != nil && ev.Waiting.For == schemas.WaitOrder:
				waited = true
			}
		}
		w.tallyLine(t, waited)
		if !idle(st) {
			line = append(line, t)
		}
	}
	for i, a := range line {
		for _, b := range line[i+1:] {
			if a.begun.Before(b.over) && b.begun.Before(a.over) {
				w.disorder(a, b, "were under way at once")
			}
			if a.before(b) && b.begun.Before(a.begun) || b.before(a) && a.begun.Before(b.begun) {
				w.disorder(a, b, "began in another order than they were accepted in")
			}
		}
	}
}

// idle reports whether an action ended before it did anything.
func idle(st *ledger.State) bool {
	o := st.Settled.Outcome
	return len(st.Attempts) == 0 && (o == schemas.OutcomeCanceled || o == schemas.OutcomeExpired)
}

func (w *world) tallyLine(t turn, waited bool) {
	for branch, taken := range map[string]bool{logInLine: waited, logRetook: t.retook, lineLeft: waited && idle(t.State)} {
		if taken {
			w.tally.add(branch, 1)
		}
	}
}

func (w *world) disorder(a, b turn, what string) {
	text := func(t turn) string {
		return fmt.Sprintf("%s (ticket %d, then %d; sent %v, accepted %v, begun %v, over %v)", t.ID, t.Action.Ticket, t.Ticket,
			t.sent.Sub(w.start), t.accepted.Sub(w.start), t.begun.Sub(w.start), t.over.Sub(w.start))
	}
	w.breach(history.Violation{Invariant: "order", Tenant: a.Tenant, Subject: a.ID, Detail: text(a) + " and " + text(b) + " " + what})
}
