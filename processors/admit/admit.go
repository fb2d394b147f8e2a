// Package admit turns a delivered message into the state of an action that is
// ready to be worked on, or says that there is nothing to do.
package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// Ledger is where the action's events are read.
type Ledger interface {
	Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error)
	Dropped(ctx context.Context, ref schemas.Ref, seq uint64) (bool, error)
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// Config is what an Admitter needs besides the ledger.
type Config struct {
	// Worker names this process in attempts.
	Worker string
	// Alone: no other process can be working on this log, because the embedded broker holds its
	// data directory locked. An attempt of another worker is then an attempt of a dead one, and
	// does not have to expire first.
	Alone bool
	// AckWait is how long the log waits for a message's worker before it gives the message to
	// another. Default 10 s.
	AckWait time.Duration
	Now     func() time.Time
}

// Admitter admits. A state that comes with an error tells what the error is about.
// It is safe for concurrent use.
type Admitter struct {
	ledger Ledger
	cfg    Config
}

// New returns an Admitter.
func New(l Ledger, cfg Config) *Admitter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = 10 * time.Second
	}
	return &Admitter{ledger: l, cfg: cfg}
}

// AckWait is how long a message is given back for whose worker may live: each of its
// heartbeats puts that off, and the first comes sooner.
func (a *Admitter) AckWait() time.Duration { return a.cfg.AckWait }

// Early is when an action may begin that may not yet, and has not been asked to stop.
func (a *Admitter) Early(st *ledger.State) (until time.Time, early bool) {
	until = st.Action.NotBefore
	return until, !st.Started && !st.CancelRequested && a.cfg.Now().Before(until)
}

// ErrDone says that the action has ended: the message has done its work.
var ErrDone = errors.New("the action has settled")

// First returns the state of an action that is ready for work. It folds only the accepted event,
// because the first delivery of a new action rarely finds more; the fence detects the other cases.
// A recreated queue delivers old actions as if for the first time; those that have ended are not
// called again.
func (a *Admitter) First(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	ref, section, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, &fault.Terminal{Code: schemas.Poison, Reason: "the subject does not belong to the log", Cause: err}
	}
	if section != schemas.SectionAccepted {
		return a.load(ctx, ref, rec, false)
	}
	st, err := ledger.Fold(ref, []schemas.Record{rec})
	if err != nil {
		return nil, err
	}
	if a.cfg.Now().Sub(st.Action.AcceptedAt) >= a.cfg.AckWait {
		return a.load(ctx, ref, rec, false) // it may have begun or ended
	}
	st.Again = false
	return a.admit(ctx, st, rec, false)
}

// Again is First with all of the action's events, read from the log.
func (a *Admitter) Again(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	return a.again(ctx, rec, false)
}

// Fenced is Again behind a write that found another's before it. Who wrote that lives:
// it may have taken the action over by the very message that is at hand, which
// then says nothing of it.
func (a *Admitter) Fenced(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	return a.again(ctx, rec, true)
}

func (a *Admitter) again(ctx context.Context, rec schemas.Record, fenced bool) (*ledger.State, error) {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, &fault.Terminal{Code: schemas.Poison, Reason: "the subject does not belong to the log", Cause: err}
	}
	return a.load(ctx, ref, rec, fenced)
}

// Load is Again for an action that has just been accepted, and that this process executes without
// a message. fault.ErrUnavailable: the log does not show it yet.
func (a *Admitter) Load(ctx context.Context, ref schemas.Ref) (*ledger.State, error) {
	st, err := a.ledger.Load(ctx, ref)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return nil, fmt.Errorf("%w: it does not show an action that it has accepted", fault.ErrUnavailable)
	case err != nil:
		return nil, err
	}
	return a.admit(ctx, st, schemas.Record{}, false)
}

func (a *Admitter) load(ctx context.Context, ref schemas.Ref, rec schemas.Record, fenced bool) (*ledger.State, error) {
	st, err := a.ledger.Load(ctx, ref)
	switch {
	case errors.Is(err, fault.ErrGone):
		return nil, ErrDone // history has dropped its beginning
	case errors.Is(err, fault.ErrNotFound):
		return nil, a.missing(ctx, ref, rec.Seq)
	case err != nil:
		return nil, err
	}
	return a.admit(ctx, st, rec, fenced)
}

// missing tells an action that history has dropped from one that the log does not
// show yet, though it has given out its message: to acknowledge that would lose it.
func (a *Admitter) missing(ctx context.Context, ref schemas.Ref, seq uint64) error {
	dropped, err := a.ledger.Dropped(ctx, ref, seq)
	switch {
	case err != nil:
		return err
	case !dropped:
		return fmt.Errorf("%w: it does not show what it has given out", fault.ErrUnavailable)
	default:
		return ErrDone
	}
}

func (a *Admitter) admit(ctx context.Context, st *ledger.State, rec schemas.Record, fenced bool) (*ledger.State, error) {
	st.Message = rec.Seq
	switch {
	case st.Settled != nil:
		return st, ErrDone
	case st.Damaged != nil:
		return st, st.Damaged
	}
	if err := a.underWay(st, rec, fenced); err != nil {
		return st, err
	}
	payload, err := a.ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return st, &fault.Terminal{Code: schemas.Poison, Reason: "the payload's object is missing", Cause: err}
	}
	st.Action.Payload = payload
	return st, err
}

// underWay returns when to retry an action whose open attempt another worker may still be making;
// nil if that attempt is over or a repeat is harmless. This process works on an action once at a
// time, so its own attempt is over.
//
// The attempt's own message is redelivered, most likely, when its worker is dead. A safe call is
// then repeated. So is a model call, except after recent writes to the log: these show that the
// worker lives and only its heartbeats were late. The message is then given back until the worker
// has been silent for long enough. It is not acknowledged, because it must bring the action back if
// that worker dies.
//
// Any other message proves nothing about that worker: a wake-up planned before the action was
// started still arrives.
func (a *Admitter) underWay(st *ledger.State, rec schemas.Record, fenced bool) error {
	t, now := st.Open(), a.cfg.Now()
	if t == nil || t.Worker == a.cfg.Worker || a.cfg.Alone || !now.Before(t.ExpiresAt) {
		return nil
	}
	if t.Message == rec.Seq {
		switch fresh := st.Kind == schemas.KindChat && now.Sub(st.Newest) < a.cfg.AckWait; {
		case fenced, fresh:
			return &fault.RetryAfter{After: a.cfg.AckWait}
		case t.Class == schemas.ClassSafe, st.Kind == schemas.KindChat:
			return nil
		}
	}
	return &call.Deferral{Until: t.ExpiresAt, Reason: schemas.WaitInFlight}
}
