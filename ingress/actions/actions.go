// Package actions changes accepted actions: cancel, resolve, redrive. Every change is an event
// under the log's fence; if the state has changed meanwhile, the decision is made again.
package actions

import (
	"context"
	"errors"
	"time"

	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Config of a Control. The zero value of each does nothing, or is refused.
type Config struct {
	// Barrier returns once everything stored before the call would survive.
	Barrier func(ctx context.Context) error
	// Stop tells the worker that runs an action to stop. It is called before the request is on the
	// log, because a worker that writes all the time could win every race, and again after it is.
	// Only the log counts; this message may be lost.
	Stop func(ref schemas.Ref)
	// NoEnds: this node may not end actions. It asks a queued action to stop like a running one,
	// and a worker ends it.
	NoEnds bool
	// Kinds returns the surface of a kind; default: none is known.
	Kinds Kinds
	// StoreTimeout bounds one change; default 10 s.
	StoreTimeout time.Duration
}

// Kinds returns the surface whose actions are of a kind; the zero one for an unknown kind.
type Kinds func(kind schemas.Kind) ingress.Surface

// Control cancels and resolves actions. It is safe for concurrent use.
type Control struct {
	ledger *ledger.Ledger
	cfg    Config
}

// New returns a Control over the ledger.
func New(l *ledger.Ledger, cfg Config) *Control {
	if cfg.Barrier == nil {
		cfg.Barrier = func(context.Context) error { return nil }
	}
	if cfg.Kinds == nil {
		cfg.Kinds = func(schemas.Kind) ingress.Surface { return ingress.Surface{} }
	}
	if cfg.Stop == nil {
		cfg.Stop = func(schemas.Ref) {}
	}
	if cfg.StoreTimeout <= 0 {
		cfg.StoreTimeout = 10 * time.Second
	}
	return &Control{ledger: l, cfg: cfg}
}

// statusOf answers a change; nil: there is no such action.
func statusOf(st *ledger.State) (s schemas.ActionStatus) {
	if st == nil {
		return s
	}
	s = schemas.ActionStatus{ID: st.ID, Status: schemas.Status(st.Status()), CancelRequested: st.CancelRequested && st.Settled == nil}
	if st.Resolution != nil {
		s.Resolution = st.Resolution.Effect
	}
	return s
}

// maxTries is how often a change is decided anew when others write between. An
// action's own worker writes a few events a second at most.
const maxTries = 16

// errUnchanged ends a change without an append.
var errUnchanged = errors.New("nothing to write")

// change reads the action, asks decide for the event, and writes it fenced; if another writer was
// first, it starts over.
func (c *Control) change(ctx context.Context, tenant, id string, decide func(*ledger.State) (schemas.Event, error)) (*ledger.State, error) {
	st, err := c.ledger.Find(ctx, tenant, id)
	for range maxTries {
		if err != nil {
			return nil, lookUp(err)
		}
		ev, err := decide(st)
		if errors.Is(err, errUnchanged) {
			return st, nil
		}
		if err != nil {
			return st, err
		}
		err = c.ledger.Append(ctx, st, ev)
		if err == nil {
			return st, nil
		}
		if !errors.Is(err, fault.ErrFenced) {
			return st, unknown(err)
		}
		if st, err = c.ledger.Load(ctx, st.Ref); err != nil {
			return nil, lookUp(err)
		}
	}
	return st, fault.New(schemas.Unavailable, "the action is changing too fast; try again")
}

// bounded is the time that one change has, the client gone or not.
func (c *Control) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.cfg.StoreTimeout)
}

// do runs one change to its end, the client gone or not, and waits until what
// it saw or wrote would survive. The state is nil if there is no such action.
func (c *Control) do(ctx context.Context, tenant, id string, decide func(*ledger.State) (schemas.Event, error)) (*ledger.State, error) {
	if !schemas.ValidActionID(id) {
		return nil, fault.New(schemas.NotFound, "there is no action with this id")
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	st, err := c.change(ctx, tenant, id, decide)
	if err != nil {
		return st, err
	}
	return st, c.survives(ctx)
}

// survives waits until what was seen or written would.
func (c *Control) survives(ctx context.Context) error {
	if err := c.cfg.Barrier(ctx); err != nil {
		return unknown(err)
	}
	return nil
}

// lookUp words an action that could not be read.
func lookUp(err error) error {
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return &fault.Error{Code: schemas.NotFound, Message: "there is no action with this id", Cause: err}
	case errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.StreamGone, Message: "the history of this action has been dropped", Cause: err}
	case errors.Is(err, fault.ErrUnavailable):
		return &fault.Error{Code: schemas.Unavailable, Message: "the log did not answer, nothing was changed; try again", Cause: err}
	default:
		return err
	}
}

// unknown words a write whose fate is not known. Each change may be repeated.
func unknown(err error) error {
	if errors.Is(err, fault.ErrFull) {
		return &fault.Error{Code: schemas.LogFull, Message: "the log is full, nothing was changed; try again later", Cause: err}
	}
	return &fault.Error{Code: schemas.Unavailable, Message: "whether the change was stored is unknown; repeat it, it counts once", Cause: err}
}
