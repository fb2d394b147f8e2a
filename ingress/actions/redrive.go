package actions

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Dead reads the stream of parked messages.
type Dead interface {
	// Next returns the first message under filter from a sequence on, or fault.ErrNotFound.
	Next(ctx context.Context, stream, filter string, from uint64) (schemas.Record, error)
}

// Redriver makes new actions of those that have ended without success. It is safe for concurrent use.
type Redriver struct {
	dead     Dead
	ledger   *ledger.Ledger
	acceptor *accept.Acceptor
	kinds    Kinds
}

// NewRedriver returns a Redriver.
func NewRedriver(d Dead, l *ledger.Ledger, a *accept.Acceptor, kinds Kinds) *Redriver {
	return &Redriver{dead: d, ledger: l, acceptor: a, kinds: kinds}
}

// ReadRedrive reads a body that strict.Check has passed: the sequence of a
// dead letter.
func ReadRedrive(body []byte) (uint64, error) {
	var r struct {
		Sequence *uint64 `json:"sequence"`
	}
	if err := strict.Decode(body, &r); err != nil {
		return 0, err
	}
	if r.Sequence == nil || *r.Sequence == 0 {
		return 0, fault.New(schemas.ValidationError, "at /sequence: must be the sequence of a dead letter, as GET /v1/dead-letters shows it")
	}
	return *r.Sequence, nil
}

// Redrive makes a new action of the one that a dead letter names; see RedriveAction.
func (r *Redriver) Redrive(ctx context.Context, by grant.Caller, sequence uint64) (accept.Accepted, error) {
	letter, err := r.deadLetter(ctx, by.Tenant, sequence)
	if err != nil {
		return accept.Accepted{}, err
	}
	st, err := r.ledger.Load(ctx, schemas.Ref{Tenant: by.Tenant, Kind: letter.Kind, ID: letter.ActionID})
	if err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	return r.redrive(ctx, by, st)
}

// RedriveAction makes a new action with the payload of one that has ended without success, and names
// that one in Supersedes. The new id is derived from the old one, so an action has one redrive: a
// repeat joins it. The new action may use what both the old one and the caller may.
func (r *Redriver) RedriveAction(ctx context.Context, by grant.Caller, id string) (accept.Accepted, error) {
	if !schemas.ValidActionID(id) {
		return accept.Accepted{}, fault.New(schemas.NotFound, "there is no action with this id")
	}
	st, err := r.ledger.Find(ctx, by.Tenant, id)
	if err != nil {
		return accept.Accepted{}, lookUp(err)
	}
	if r := st.Kind == schemas.KindRun || st.Kind == schemas.KindChat; r && (st.Settled == nil || st.Settled.Code != schemas.Poison) {
		return accept.Accepted{}, fault.New(schemas.Conflict, "only dead letters of runs and completions are redriven; repeat the request")
	}
	return r.redrive(ctx, by, st)
}

func (r *Redriver) redrive(ctx context.Context, by grant.Caller, st *ledger.State) (accept.Accepted, error) {
	name := accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, st.Tenant, st.ID)
	keyed, err := repeatable(st, name.ID, time.Now())
	if err != nil {
		return accept.Accepted{}, err
	}
	kind := r.kinds(st.Kind)
	if kind.NotRedriven != "" {
		return accept.Accepted{}, fault.New(schemas.Conflict, kind.NotRedriven)
	}
	if len(st.Action.Payload) == 0 && st.Action.PayloadBlob == "" {
		return accept.Accepted{}, unreadable(&fault.Terminal{Code: schemas.Poison, Reason: "the accepted record cannot be read"})
	}
	payload, err := r.ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	entries, ok := grant.Both(st.Action.Entries, by.Entries)
	if !ok {
		return accept.Accepted{}, fault.New(schemas.Forbidden, "the token may use none of the entries that the old action was limited to")
	}
	models, ok := grant.BothModels(st.Action.Models, by.Models)
	if !ok {
		return accept.Accepted{}, fault.New(schemas.Forbidden, "the token may use none of the models that the old action was limited to")
	}
	req := accept.Request{
		Name: name, Action: schemas.Action{
			Tenant: st.Tenant, Kind: st.Kind, Class: st.Action.Class, Payload: payload, Supersedes: st.ID, Sync: st.Action.Sync,
			Principal: by.Principal, Entries: entries, Models: models, Task: st.Action.Task, Answers: st.Action.Answers, Priority: st.Action.Priority,
		},
	}
	req.KeySeed, req.KeyExpiresAt = st.Keys()
	if kind.Redrive == nil { // unknown kinds are refused
		return accept.Accepted{}, fault.New(schemas.Conflict, "actions of this kind are not redriven here; send a new request")
	}
	if err := kind.Redrive(&req, by); err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	if keyed && req.Class != "" && req.Class != schemas.ClassKeyed {
		return accept.Accepted{}, fault.New(schemas.Conflict, "the call may have taken effect with an idempotency key, and the policy in force sends none; "+anew)
	}
	out, err := r.acceptor.Accept(ctx, req)
	if public, refused := errors.AsType[*fault.Error](err); refused && public.Code == schemas.Conflict {
		err = &fault.Error{Code: schemas.Conflict, Cause: err, Message: "the action was redriven already, with other rights than this token has; see " + name.ID}
	}
	return out, err
}

// deadLetter reads one of the tenant's dead letters.
func (r *Redriver) deadLetter(ctx context.Context, tenant string, sequence uint64) (schemas.DeadLetter, error) {
	var d schemas.DeadLetter
	filter := schemas.DeadRoot + "." + schemas.EscapeToken(tenant) + ".>"
	rec, err := r.dead.Next(ctx, schemas.DeadStream, filter, sequence)
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && rec.Seq != sequence:
		return d, fault.New(schemas.NotFound, "there is no dead letter with this sequence")
	case err != nil:
		return d, lookUp(err)
	}
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return d, unreadable(&fault.Terminal{Code: schemas.Poison, Reason: "the record is not a dead letter", Cause: err})
	}
	return d, nil
}

// unreadable words an action that cannot be made anew.
func unreadable(err error) error {
	var poison *fault.Terminal
	switch {
	case errors.As(err, &poison):
		return &fault.Error{Code: schemas.Conflict, Message: "the old action's own record cannot be read, so there is nothing to redrive; send a new request", Cause: err}
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.StreamGone, Message: "the history of the old action has been dropped; send a new request", Cause: err}
	default:
		return lookUp(err)
	}
}
