package actions

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// Dead reads the stream of parked messages.
type Dead interface {
	Range(ctx context.Context, stream, filter string, from uint64, limit int) ([]schemas.Record, error)
}

// Acceptor stores the new action.
type Acceptor interface {
	Accept(ctx context.Context, r accept.Request) (accept.Accepted, error)
}

// Redriver makes new actions of parked ones. It is safe for concurrent use.
type Redriver struct {
	dead     Dead
	ledger   Ledger
	acceptor Acceptor
	kinds    Kinds
}

// NewRedriver returns a Redriver.
func NewRedriver(d Dead, l Ledger, a Acceptor, kinds Kinds) *Redriver {
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

// Redrive makes a new action with the payload of the one that a dead letter
// names, and names that one in Supersedes. The new id is derived from the dead
// letter: redriving it twice makes one action. The old action must have ended.
// The new one may use what both the old one and the caller may.
func (r *Redriver) Redrive(ctx context.Context, by grant.Caller, sequence uint64) (accept.Accepted, error) {
	tenant := by.Tenant
	letter, err := r.deadLetter(ctx, tenant, sequence)
	if err != nil {
		return accept.Accepted{}, err
	}
	st, err := r.ledger.Load(ctx, schemas.Ref{Tenant: tenant, Kind: letter.Kind, ID: letter.ActionID})
	if err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	if st.Settled == nil {
		return accept.Accepted{}, fault.New(schemas.InFlight, "the parked action has not ended yet; redrive it once it has")
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
		return accept.Accepted{}, fault.New(schemas.Forbidden, "the token may use none of the entries that the parked action was limited to")
	}
	models, ok := grant.BothModels(st.Action.Models, by.Models)
	if !ok {
		return accept.Accepted{}, fault.New(schemas.Forbidden, "the token may use none of the models that the parked action was limited to")
	}
	req := accept.Request{
		Name:   accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, tenant, strconv.FormatUint(sequence, 10)),
		Tenant: tenant, Kind: st.Kind, Class: st.Action.Class, Payload: payload, Supersedes: st.ID, Sync: st.Action.Sync,
		Principal: by.Principal, Entries: entries, Models: models, Answers: st.Action.Answers,
		Terms: accept.Terms{Priority: st.Action.Priority},
	}
	req.KeySeed, req.KeyExpiresAt = st.Keys()
	if kind.Redrive == nil { // unknown kinds are refused
		return accept.Accepted{}, fault.New(schemas.Conflict, "actions of this kind are not redriven here; send the request anew")
	}
	if err := kind.Redrive(&req, by); err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	return r.acceptor.Accept(ctx, req)
}

// deadLetter reads one of the tenant's dead letters.
func (r *Redriver) deadLetter(ctx context.Context, tenant string, sequence uint64) (schemas.DeadLetter, error) {
	var d schemas.DeadLetter
	filter := schemas.DeadRoot + "." + schemas.EscapeToken(tenant) + ".>"
	records, err := r.dead.Range(ctx, schemas.DeadStream, filter, sequence, 1)
	if err != nil {
		return d, lookUp(err)
	}
	if len(records) == 0 || records[0].Seq != sequence {
		return d, fault.New(schemas.NotFound, "there is no dead letter with this sequence")
	}
	if err := json.Unmarshal(records[0].Data, &d); err != nil {
		return d, unreadable(&fault.Terminal{Code: schemas.Poison, Reason: "the record is not a dead letter", Cause: err})
	}
	return d, nil
}

// unreadable words a parked action that cannot be made anew.
func unreadable(err error) error {
	var poison *fault.Terminal
	switch {
	case errors.As(err, &poison):
		return &fault.Error{Code: schemas.Conflict, Message: "the parked action's own record cannot be read, so there is nothing to redrive; send the request anew", Cause: err}
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.StreamGone, Message: "the history of the parked action has been dropped; send the request anew", Cause: err}
	default:
		return lookUp(err)
	}
}
