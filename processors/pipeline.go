// Package processors turns stored actions into settled ones. The pipeline is load → guard → call →
// settle. Every result is on the log before it becomes visible, and after a crash the next worker
// continues from the log.
package processors

import (
	"context"
	"errors"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/admit"
	"weir/processors/call"
	"weir/processors/park"
	"weir/processors/settle"
	"weir/schemas"
)

// Ledger is what the pipeline itself asks of the log.
type Ledger interface {
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
	Append(ctx context.Context, st *ledger.State, ev schemas.Event) error
	// Notify wakes an action at once.
	Notify(ctx context.Context, ref schemas.Ref) error
}

// Waker wakes an action later.
type Waker interface {
	Wake(ctx context.Context, ref schemas.Ref, at time.Time) error
}

// Stages are the pipeline's parts, in the order of the work.
type Stages struct {
	Admit    *admit.Admitter
	Kinds    map[schemas.Kind]Kind // guard and call are theirs
	Caller   *call.Caller
	Evidence *settle.Recorder
	Settle   *settle.Settler
	Park     *park.Parker
	// Barrier waits until what was stored is as durable as promised.
	Barrier func(context.Context) error
	// Ended, if set, hears of every end that is durable, whatever the kind, and again if
	// the worker may have died before it returned. It must not block.
	Ended func(ctx context.Context, st *ledger.State)
}

// Pipeline handles delivered messages. It is safe for concurrent use.
type Pipeline struct {
	Stages
	ledger   Ledger
	waker    Waker
	worker   string
	running  *running
	deferred *deferredActions
	// executing are the actions that are executed without a message; see Reserve.
	executing *executions
}

// NewPipeline returns a pipeline whose attempts bear the worker's name.
func NewPipeline(l Ledger, w Waker, worker string, s Stages) *Pipeline {
	return &Pipeline{
		Stages: s, ledger: l, waker: w, worker: worker,
		running: newRunning(), deferred: newDeferredActions(l.Notify), executing: newExecutions(),
	}
}

// busyDelay is the delay of a message that arrives while this process already runs its action.
const busyDelay = 2 * time.Second

// Handle works on the action that a message of the log belongs to. The error
// says what is to happen to the message: see fault.Disposition.
func (p *Pipeline) Handle(ctx context.Context, rec schemas.Record, first bool) error {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return p.deadLetterMessage(ctx, rec, nil, &fault.Terminal{Code: schemas.Poison, Reason: "the subject does not belong to the log", Cause: err})
	}
	w, ok := p.running.begin(ref, rec.Seq)
	if !ok {
		return p.busy(w, rec)
	}
	failpoint.At(failpoint.Fetched, ref.ID)
	p.deferred.forget(ref)
	defer p.leave(w) //nolint:contextcheck // it wakes others whatever the result of this message

	st, err := p.admission(ctx, rec, first)
	if err == nil {
		err = p.work(ctx, st, w)
	}
	if errors.Is(err, fault.ErrFenced) {
		// Another writer was first: its events decide what to do now.
		if st, err = p.Admit.Fenced(ctx, rec); err == nil {
			err = p.work(ctx, st, w)
		}
	}
	return p.conclude(ctx, rec, st, w, err)
}

// busy gives back a message of an action that already runs here. If it is the running message
// itself, its heartbeats were late. It must not go to another node, which would take this one for
// dead: the delay replaces the wait for an acknowledgement, and the next heartbeat replaces the
// delay if it is long enough.
func (p *Pipeline) busy(w *work, rec schemas.Record) error {
	if w.message == rec.Seq {
		return &fault.RetryAfter{After: p.Admit.AckWait()}
	}
	return &fault.RetryAfter{After: busyDelay}
}

// leave ends the work on an action. A deferred action can be woken only after this: before, its
// message would have found it running.
func (p *Pipeline) leave(w *work) {
	p.running.end(w.ref)
	switch r := w.rest; {
	case r == nil:
	case r.OnDeferred != nil:
		r.OnDeferred()
	default:
		p.deferred.put(w.ref, r.Until, r.Replaced)
	}
}

func (p *Pipeline) admission(ctx context.Context, rec schemas.Record, first bool) (*ledger.State, error) {
	if first {
		return p.Admit.First(ctx, rec)
	}
	return p.Admit.Again(ctx, rec)
}

// work carries an admitted action to its verdict.
func (p *Pipeline) work(ctx context.Context, st *ledger.State, stop call.Stop) error {
	kind, ok := p.Kinds[st.Kind]
	if !ok {
		return &fault.Terminal{Code: schemas.Poison, Reason: "no worker knows this kind"}
	}
	if kind.Here != nil {
		if err := kind.Here(ctx, st); err != nil {
			return err
		}
	}
	if until, early := p.Admit.Early(st); early && !stop.Requested() {
		return &call.Deferral{Until: until, Reason: schemas.WaitDelay}
	}
	if st.Inherited > 1 {
		if err := p.recover(ctx, st, kind); err != nil {
			return err
		}
	}
	if !st.Started {
		if err := p.link(ctx, st); err != nil {
			return err
		}
		if kind.WritesStarted != nil && kind.WritesStarted(st) {
			started := schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: p.worker}}
			if err := p.ledger.Append(ctx, st, started); err != nil {
				return err
			}
		}
	}
	verdict, err := kind.Execute(ctx, st, stop)
	if err != nil {
		// The result of an attempt is kept, whatever ended the work.
		steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
		if lost := st.Flush(steady); lost != nil { // it was not ours to perform
			return lost
		}
		return err
	}
	return p.settle(ctx, st, verdict)
}

// parting is how long a worker that gives an action back may take to write such a result.
const parting = 5 * time.Second

// settle ends an action and notifies its kind.
func (p *Pipeline) settle(ctx context.Context, st *ledger.State, v settle.Outcome) error {
	failpoint.At(failpoint.Settling, st.ID)
	if err := p.Settle.Settle(ctx, st, v); err != nil {
		return err
	}
	return p.ended(ctx, st)
}

func (p *Pipeline) ended(ctx context.Context, st *ledger.State) error {
	if !st.Started { // ingress has canceled it
		if err := p.link(ctx, st); err != nil {
			return err
		}
	}
	if ended := p.Kinds[st.Kind].Ended; ended != nil {
		if err := ended(ctx, st); err != nil {
			return err
		}
	}
	if p.Ended != nil {
		p.Ended(ctx, st)
	}
	return nil
}

// recover takes over from a worker that is gone: it closes the attempt that was
// left open, and leaves the evidence that was not left.
func (p *Pipeline) recover(ctx context.Context, st *ledger.State, kind Kind) error {
	if err := p.Caller.Abandon(ctx, st); err != nil {
		return err
	}
	records, err := kind.Evidence(st)
	if err != nil {
		return err
	}
	return p.Evidence.Leave(ctx, st, records...)
}

// conclude turns the end of the work into the message's disposition.
func (p *Pipeline) conclude(ctx context.Context, rec schemas.Record, st *ledger.State, w *work, err error) error {
	var rest *call.Deferral
	var parked *fault.Terminal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admit.ErrDone):
		if st != nil && rec.Seq < st.SettledSeq && !p.executing.settledBy(st.Ref) { // another worker settled it with a message like this
			return p.complete(ctx, st)
		}
		return nil
	case errors.As(err, &rest):
		return p.rest(ctx, st, w, rest)
	case errors.As(err, &parked):
		return p.deadLetterMessage(ctx, rec, st, parked)
	case errors.Is(err, fault.ErrFenced):
		return &fault.RetryAfter{Cause: err}
	case errors.Is(err, fault.ErrTooLarge):
		return p.deadLetterMessage(ctx, rec, st, &fault.Terminal{Code: schemas.Poison, Reason: "a record of it is larger than the log takes", Cause: err})
	default:
		return err
	}
}

// deadLetterMessage stores the message as a dead letter and settles its action, if it has one.
func (p *Pipeline) deadLetterMessage(ctx context.Context, rec schemas.Record, st *ledger.State, why *fault.Terminal) error {
	if err := p.Park.Park(ctx, rec, why); err != nil {
		return err
	}
	if st == nil {
		return p.Barrier(ctx)
	}
	st.Underived = true // the action's events do not include the dead letter
	return p.settle(ctx, st, settle.Outcome{Outcome: schemas.OutcomeFailed, Code: why.Code, Message: why.Reason})
}

// DeadLetter dead-letters a message that crashes the pipeline, and settles its
// action as failed if the action can be read.
func (p *Pipeline) DeadLetter(ctx context.Context, rec schemas.Record, why *fault.Terminal) error {
	if _, _, err := schemas.ParseSubject(rec.Subject); err != nil {
		return p.deadLetterMessage(ctx, rec, nil, why)
	}
	st, err := p.Admit.Again(ctx, rec)
	switch {
	case errors.Is(err, admit.ErrDone):
		return nil
	case st == nil: // it could not be read now: nothing may be acknowledged
		return err
	}
	return p.deadLetterMessage(ctx, rec, st, why)
}

// Stop asks for the action to stop, if it is running in this process. The durable request is the
// cancel event on the log; this notifies the worker at once.
func (p *Pipeline) Stop(ref schemas.Ref) { p.running.stop(ref) }

// RulesChanged is called when other traffic rules of a tenant have come into force,
// and wakes what the ones before held back. It does not wait for that.
func (p *Pipeline) RulesChanged(tenant string) { p.deferred.wakeTenant(tenant) }
