// Package settle ends actions: it leaves the evidence that is still missing,
// then writes the one terminal event.
package settle

import (
	"context"
	"time"

	"weir/internal/ledger"
	"weir/schemas"
)

// Outcome is the end of an action. Result is the kind's own document; Answer is the answer in it, if
// that is an attempt's; AnswerBlob see schemas.Settled.
type Outcome struct {
	Outcome    schemas.Outcome
	Code       schemas.Code
	Message    string
	Result     any
	Answer     *schemas.Answer
	AnswerBlob string
}

// Metrics counts how actions end. took is the time since the action was accepted.
type Metrics interface {
	Settled(kind schemas.Kind, outcome schemas.Outcome, code schemas.Code, took time.Duration)
}

// Settler writes terminal events. It is safe for concurrent use.
type Settler struct {
	Ledger *ledger.Ledger
	// Barrier waits until the appended events are as durable as promised.
	Barrier func(context.Context) error
	Metrics Metrics
}

// Settle writes the terminal event and waits until it is durable. Evidence was stored before, or is
// stored together with it: one barrier then covers both, and watchers see the end only after it.
// Results in blobs, and evidence that no worker could store again, have a barrier of their own, so
// that a power cut cannot keep the end and lose them. An already settled state is not changed.
func (s Settler) Settle(ctx context.Context, st *ledger.State, v Outcome) error {
	if st.Settled != nil {
		return nil
	}
	settled := schemas.Settled{Outcome: v.Outcome, Code: v.Code, Message: v.Message, Answer: v.Answer, AnswerBlob: v.AnswerBlob}
	for _, t := range st.Attempts {
		if t.Hop == 0 && t.Probe == 0 { // the hops of an attempt are one with it, and probes are none
			settled.Attempts++
		}
	}
	if v.Result != nil {
		doc, err := ledger.Encode(v.Result)
		if err != nil {
			return err
		}
		if settled.Result, settled.ResultBlob, err = s.Ledger.PutBlob(ctx, st.Tenant, doc); err != nil {
			return err
		}
		if r, ok := v.Result.(schemas.ChatResult); ok && settled.ResultBlob != "" {
			r.Completion = nil
			if settled.Result, err = ledger.Encode(r); err != nil {
				return err
			}
		}
	}
	if st.Underived || settled.ResultBlob != "" {
		if err := s.Barrier(ctx); err != nil {
			return err
		}
	}
	if err := s.Ledger.Append(ctx, st, schemas.Event{Type: schemas.EventSettled, Settled: &settled}); err != nil {
		return err
	}
	s.Metrics.Settled(st.Kind, v.Outcome, v.Code, time.Since(st.Action.AcceptedAt))
	return s.Barrier(ctx)
}
