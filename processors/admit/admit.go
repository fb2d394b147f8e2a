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
	// Alone says that no other process can be working on this log: the embedded
	// broker holds its data directory locked. An attempt of another worker is
	// then an attempt of a dead one, and nobody has to wait for its expiry.
	Alone bool
	// AckWait is how long the log waits for a word from a message's worker before it
	// gives the message to another. Default 10 s.
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

// First returns the state of an action that is ready to be worked on. It folds
// the accepted event alone: what the first delivery of a new action brings is nearly
// always all there is, and the fence finds out when it is not. A queue that was made anew
// gives out old actions as if for the first time, and those that have ended are not called again.
func (a *Admitter) First(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	ref, section, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the subject is not one of the log's", Cause: err}
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
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the subject is not one of the log's", Cause: err}
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
		return st, &fault.Parked{Code: schemas.Poison, Reason: "the payload's object is missing", Cause: err}
	}
	st.Action.Payload = payload
	return st, err
}

// underWay says when to come back to an action whose open attempt a worker may still be
// making; nil: it is over, or nobody is harmed if it is not. This process works on an
// action once at a time, so its own attempt is over.
//
// The message that an attempt was made for comes again when its worker is dead, most
// likely. A safe call is made again then. So is one of a model, but for what another
// worker does to the stream of a living one, whose heartbeats were late: what was
// written to the log lately is a sign of life, and the message is given back. It does not
// come before the worker has been silent for that long. Nor is it acknowledged: it is that
// worker's, and brings the action back if it does die.
//
// Any other message says nothing of that worker: a wake-up that was planned before the
// action was taken up still comes.
func (a *Admitter) underWay(st *ledger.State, rec schemas.Record, fenced bool) error {
	t, now := st.Open(), a.cfg.Now()
	if t == nil || t.Worker == a.cfg.Worker || a.cfg.Alone || !now.Before(t.ExpiresAt) {
		return nil
	}
	if t.Message == rec.Seq {
		switch fresh := st.Kind == schemas.KindChat && now.Sub(st.Newest) < a.cfg.AckWait; {
		case fenced, fresh:
			return &fault.Later{After: a.cfg.AckWait}
		case t.Class == schemas.ClassSafe, st.Kind == schemas.KindChat:
			return nil
		}
	}
	return &call.Rest{Until: t.ExpiresAt, For: schemas.WaitInFlight}
}
