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
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Executor does the work of one kind. It may be called on the state of an
// action that another worker began, and does nothing again that the log holds.
type Executor interface {
	// Execute works until there is an outcome: guard and call are its steps. The payload is loaded,
	// wherever it is stored. An error is the log's, or names the time of the next try
	// (*fault.RetryAfter, *call.Deferral).
	Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error)
}

// Attester is an Executor of a kind whose attempts leave other evidence than settle.Made.
type Attester interface {
	// Evidence is every record that the finished attempts of an action have stored or should have.
	Evidence(st *ledger.State) ([]schemas.Evidence, error)
}

// Kind is the pipeline's view of one kind: its executor, and hooks that most kinds do not have.
type Kind struct {
	Executor

	// Here returns nil if this worker can do an action's work, and otherwise the time of the next
	// try (*fault.RetryAfter). The pipeline calls it before it writes an event of the action. nil:
	// every worker can.
	Here func(ctx context.Context, st *ledger.State) error
	// WritesStarted reports whether an action has a visible effect before its first attempt: its
	// start is then an event of its own. nil: no action does.
	WritesStarted func(st *ledger.State) bool
	// Ended is called once an action's end is durable, and again if a worker may have
	// died before it returned.
	Ended func(ctx context.Context, st *ledger.State) error
}

// Always is a WritesStarted of kinds all of whose actions do.
func Always(*ledger.State) bool { return true }

// Waker wakes an action later.
type Waker interface {
	Wake(ctx context.Context, ref schemas.Ref, at time.Time) error
}

// Config is what a Pipeline consists of. AckWait, Ended and Now are optional.
type Config struct {
	Ledger *ledger.Ledger
	Waker  Waker
	// Worker names this process in attempts.
	Worker string
	// Alone: no other process can be working on this log, because the embedded broker holds its
	// data directory locked. An attempt of another worker is then an attempt of a dead one, and
	// does not have to expire first.
	Alone bool
	// AckWait is how long the log waits for a message's worker before it gives the message to
	// another. Default 10 s.
	AckWait     time.Duration
	Kinds       map[schemas.Kind]Kind
	Caller      *call.Caller
	Evidence    *settle.Recorder
	DeadLetters DeadLetters
	// Barrier waits until what was stored is as durable as promised.
	Barrier func(context.Context) error
	Metrics settle.Metrics
	// Ended is called for every durable end of any kind, and again if the worker may have died
	// before it returned. It must not block.
	Ended func(ctx context.Context, st *ledger.State)
	Now   func() time.Time
}

// Pipeline handles delivered messages. It is safe for concurrent use.
type Pipeline struct {
	Config

	running *running
	early   *early
}

// New returns a pipeline.
func New(cfg Config) *Pipeline {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = 10 * time.Second
	}
	return &Pipeline{Config: cfg, running: newRunning(), early: newEarly(cfg.Ledger.Notify)}
}

// busyDelay is the delay of a message that arrives while this process already runs its action.
const busyDelay = 2 * time.Second

// Handle works on the action of a message of the log. The error decides the message's disposition:
// see fault.Disposition.
func (p *Pipeline) Handle(ctx context.Context, rec schemas.Record, first bool) error {
	ref, section, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return p.deadLetter(ctx, rec, nil, &fault.Terminal{Code: schemas.Poison, Reason: "the subject does not belong to the log", Cause: err})
	}
	w, ok := p.running.begin(ref, rec.Seq)
	switch {
	case ok:
	case w.message != rec.Seq:
		return &fault.RetryAfter{After: busyDelay}
	default:
		// The running message itself: its heartbeats were late. It must not go to another node, which
		// would consider this one dead. The delay replaces the wait for an acknowledgement, and the next
		// heartbeat replaces the delay if it is long enough.
		return &fault.RetryAfter{After: p.AckWait}
	}
	failpoint.At(failpoint.Fetched, ref.ID)
	defer p.finish(w) //nolint:contextcheck // it wakes others whatever the result of this message

	st, err := p.work(ctx, w, rec, first && section == schemas.SectionAccepted, false)
	if errors.Is(err, fault.ErrFenced) { // another writer was first: its events decide what to do now
		st, err = p.work(ctx, w, rec, false, true)
	}
	if err != nil {
		err = p.conclude(ctx, rec, st, w, err)
	}
	return err
}

// work loads an action as load does, executes and settles it, and reports its end.
func (p *Pipeline) work(ctx context.Context, w *work, rec schemas.Record, first, fenced bool) (st *ledger.State, err error) {
	if st, err = p.load(ctx, w.ref, rec, first, fenced); err != nil {
		return st, err
	}
	kind, ok := p.Kinds[st.Kind]
	if !ok {
		return st, &fault.Terminal{Code: schemas.Poison, Reason: "no worker executes this kind"}
	}
	if kind.Here != nil {
		if err := kind.Here(ctx, st); err != nil {
			return st, err
		}
	}
	if until := st.Action.NotBefore; !st.Started && !st.CancelRequested && !w.stop.Requested() && p.Now().Before(until) {
		return st, &call.Deferral{Until: until, Reason: schemas.WaitDelay}
	}
	if st.Inherited > 1 { // by a dead worker: its open attempt is closed, and the missing evidence stored
		if err := p.Caller.Abandon(ctx, st); err != nil {
			return st, err
		}
		if _, err := p.attest(ctx, st); err != nil {
			return st, err
		}
	}
	if err := p.link(ctx, st); err != nil {
		return st, err
	}
	if !st.Started && kind.WritesStarted != nil && kind.WritesStarted(st) {
		if err := p.Ledger.Append(ctx, st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: p.Worker}}); err != nil {
			return st, err
		}
	}
	outcome, err := kind.Execute(ctx, st, w.stop)
	if err != nil {
		// The result of an attempt is kept, whatever ended the work.
		steady, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
		if lost := st.Flush(steady); lost != nil { // another worker performs it
			return st, lost
		}
		return st, err
	}
	return st, p.settle(ctx, st, outcome)
}

// parting is the time limit for writing such a result when a worker returns an action.
const parting = 5 * time.Second

// settle ends an action and reports the end.
func (p *Pipeline) settle(ctx context.Context, st *ledger.State, o settle.Outcome) error {
	failpoint.At(failpoint.Settling, st.ID)
	s := settle.Settler{Ledger: p.Ledger, Barrier: p.Barrier, Metrics: p.Metrics}
	if err := s.Settle(ctx, st, o); err != nil {
		return err
	}
	return p.ended(ctx, st)
}

// conclude turns the error of the work into the message's disposition.
func (p *Pipeline) conclude(ctx context.Context, rec schemas.Record, st *ledger.State, w *work, err error) error {
	var deferral *call.Deferral
	terminal := &fault.Terminal{Code: schemas.Poison, Reason: "a record of it is larger than the log takes", Cause: err}
	switch {
	case errors.Is(err, errDone):
		if st == nil || rec.Seq >= st.SettledSeq { // only a message before the end reports whether its worker died
			return nil
		}
		if _, here := p.running.settled.LoadAndDelete(st.Ref); here {
			return nil
		}
		return p.endedBefore(ctx, st)
	case errors.As(err, &deferral):
		return p.deferAction(ctx, st, w, deferral)
	case errors.As(err, &terminal), errors.Is(err, fault.ErrTooLarge):
		return p.deadLetter(ctx, rec, st, terminal)
	default:
		return err
	}
}

// Stop requests that the action stops, if it is running in this process. The durable request is the
// cancel event on the log; this notifies the worker at once.
func (p *Pipeline) Stop(ref schemas.Ref) {
	p.running.mu.Lock()
	defer p.running.mu.Unlock()
	if w := p.running.works[ref]; w != nil {
		w.cancel()
	}
}
