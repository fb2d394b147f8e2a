// Package settle ends actions: it leaves the evidence that is still missing,
// then writes the one terminal event.
package settle

import (
	"context"
	"encoding/json"
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

// Ledger is where the terminal event is written.
type Ledger interface {
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
	PutBlob(ctx context.Context, tenant string, doc json.RawMessage) (inline json.RawMessage, name string, err error)
}

// Metrics counts how actions end. took is the time since the action was accepted.
type Metrics interface {
	Settled(kind schemas.Kind, outcome schemas.Outcome, code schemas.Code, took time.Duration)
}

// Settler writes terminal events. It is safe for concurrent use.
type Settler struct {
	ledger  Ledger
	barrier func(context.Context) error
	metrics Metrics
}

// New returns a Settler. Barrier waits until what was appended is as durable as
// promised.
func New(l Ledger, barrier func(context.Context) error, m Metrics) *Settler {
	return &Settler{ledger: l, barrier: barrier, metrics: m}
}

// Settle writes the terminal event and waits until it is durable. Evidence was stored before, or is
// stored together with it: one barrier then covers both, and watchers see the end only after it.
// Results in blobs, and evidence that no worker could store again, have a barrier of their own, so
// that a power cut cannot keep the end and lose them. An already settled state is not changed.
func (s *Settler) Settle(ctx context.Context, st *ledger.State, v Outcome) error {
	if st.Settled != nil {
		return nil
	}
	settled := schemas.Settled{Outcome: v.Outcome, Code: v.Code, Message: v.Message, Answer: v.Answer, AnswerBlob: v.AnswerBlob, Attempts: Attempts(st)}
	if v.Result != nil {
		doc, err := ledger.Encode(v.Result)
		if err != nil {
			return err
		}
		if settled.Result, settled.ResultBlob, err = s.ledger.PutBlob(ctx, st.Tenant, doc); err != nil {
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
		if err := s.barrier(ctx); err != nil {
			return err
		}
	}
	if err := s.ledger.Append(ctx, st, schemas.Event{Type: schemas.EventSettled, Settled: &settled}); err != nil {
		return err
	}
	s.metrics.Settled(st.Kind, v.Outcome, v.Code, time.Since(st.Action.AcceptedAt))
	return s.barrier(ctx)
}

// Attempts counts an action's attempts; the hops of one are one, and probes are none.
func Attempts(st *ledger.State) int {
	n := 0
	for _, t := range st.Attempts {
		if t.Hop == 0 && t.Probe == 0 {
			n++
		}
	}
	return n
}
