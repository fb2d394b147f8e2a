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
	Now   func() time.Time
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
	return &Admitter{ledger: l, cfg: cfg}
}

// ErrDone says that the action has ended: the message has done its work.
var ErrDone = errors.New("the action has settled")

// First returns the state of an action that is ready to be worked on. It folds
// the accepted event alone: what a first delivery brings is nearly
// always all there is, and the fence finds out when it is not.
func (a *Admitter) First(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	ref, tail, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the subject is not one of the log's", Cause: err}
	}
	if tail != schemas.TailAccepted {
		return a.load(ctx, ref, rec)
	}
	st, err := ledger.Fold(ref, []schemas.Record{rec})
	if err != nil {
		return nil, err
	}
	return a.admit(ctx, st, rec)
}

// Again is First with all of the action's events, read from the log.
func (a *Admitter) Again(ctx context.Context, rec schemas.Record) (*ledger.State, error) {
	ref, _, err := schemas.ParseSubject(rec.Subject)
	if err != nil {
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the subject is not one of the log's", Cause: err}
	}
	return a.load(ctx, ref, rec)
}

func (a *Admitter) load(ctx context.Context, ref schemas.Ref, rec schemas.Record) (*ledger.State, error) {
	st, err := a.ledger.Load(ctx, ref)
	switch {
	case errors.Is(err, fault.ErrGone):
		return nil, ErrDone // history has dropped its beginning
	case errors.Is(err, fault.ErrNotFound):
		return nil, a.missing(ctx, ref, rec.Seq)
	case err != nil:
		return nil, err
	}
	return a.admit(ctx, st, rec)
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

func (a *Admitter) admit(ctx context.Context, st *ledger.State, rec schemas.Record) (*ledger.State, error) {
	st.Message = rec.Seq
	switch {
	case st.Settled != nil:
		return st, ErrDone
	case st.Damaged != nil:
		return st, st.Damaged
	}
	if open := st.Open(); open != nil && a.mayBeUnderWay(open.Attempt, rec) {
		return st, &call.Rest{Until: open.ExpiresAt, For: schemas.WaitInFlight}
	}
	payload, err := a.ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return st, &fault.Parked{Code: schemas.Poison, Reason: "the payload's object is missing", Cause: err}
	}
	st.Action.Payload = payload
	return st, err
}

// mayBeUnderWay reports whether a worker that wrote an attempt down may still be
// making it. This process works on an action once at a time, so its own attempt is
// over. A safe call is not waited for where the message that it was made for has
// come again: its worker is most likely gone, and to make it again harms nobody. Any
// other message says nothing of that worker: a wake-up that was planned before the
// action was taken up still comes.
func (a *Admitter) mayBeUnderWay(t schemas.Attempt, rec schemas.Record) bool {
	switch {
	case t.Worker == a.cfg.Worker, a.cfg.Alone:
		return false
	case t.Class == schemas.ClassSafe && t.Message == rec.Seq:
		return false
	default:
		return a.cfg.Now().Before(t.ExpiresAt)
	}
}
