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

// Classify says the class that policy gives a call of somebody today.
type Classify func(call schemas.HTTPCall, by grant.Asker) schemas.Class

// Redriver makes new actions of parked ones. It is safe for concurrent use.
type Redriver struct {
	dead     Dead
	ledger   Ledger
	acceptor Acceptor
	classify Classify
}

// NewRedriver returns a Redriver.
func NewRedriver(d Dead, l Ledger, a Acceptor, classify Classify) *Redriver {
	return &Redriver{dead: d, ledger: l, acceptor: a, classify: classify}
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
// The new one may use what both the old one and the asker may.
func (r *Redriver) Redrive(ctx context.Context, by grant.Asker, sequence uint64) (accept.Accepted, error) {
	tenant := by.Tenant
	letter, err := r.letter(ctx, tenant, sequence)
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
	if err := final(st.Kind); err != nil {
		return accept.Accepted{}, err
	}
	if len(st.Action.Payload) == 0 && st.Action.PayloadBlob == "" {
		return accept.Accepted{}, unreadable(&fault.Parked{Code: schemas.Poison, Reason: "the accepted record cannot be read"})
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
	if err := grant.Payload(st.Kind, payload, by.Entries); err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	req := accept.Request{
		Name:   accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, tenant, strconv.FormatUint(sequence, 10)),
		Tenant: tenant, Kind: st.Kind, Class: st.Action.Class, Payload: payload, Supersedes: st.ID, Sync: st.Action.Sync,
		Principal: by.Principal, Entries: entries, Models: models, Answers: st.Action.Answers,
		Terms: accept.Terms{Priority: st.Action.Priority},
	}
	if err := r.anew(&req); err != nil {
		return accept.Accepted{}, unreadable(err)
	}
	return r.acceptor.Accept(ctx, req)
}

// final refuses the kinds whose actions say nothing once they have ended.
func final(k schemas.Kind) error {
	switch k {
	case schemas.KindRule: // it stood on rules that may be others now
		return fault.New(schemas.Conflict, "a write of the rules is not redriven; read the rules, and send it anew with their etag")
	case schemas.KindTask: // its tokens are dead, and its branch is there
		return fault.New(schemas.Conflict, "a task is not redriven; file a new one with POST /v1/tasks, it may begin at this one's branch")
	case schemas.KindPush: // what was pushed is not on the log
		return fault.New(schemas.Conflict, "a push is not redriven; its objects are not kept, so push again")
	case schemas.KindRepo: // somebody else may have the name now
		return fault.New(schemas.Conflict, "the making of a repository is not redriven; ask for it anew with POST /v1/repos")
	case schemas.KindHTTP, schemas.KindPlan, schemas.KindRun, schemas.KindChat:
	}
	return nil
}

// anew fills in what follows from the payload.
func (r *Redriver) anew(req *accept.Request) error {
	switch req.Kind {
	case schemas.KindHTTP:
		var call schemas.HTTPCall
		if err := json.Unmarshal(req.Payload, &call); err != nil {
			return &fault.Parked{Code: schemas.Poison, Reason: "the payload is not a call", Cause: err}
		}
		if call.Denied != nil {
			return fault.New(schemas.Conflict, "the call was denied, and its body and headers are not kept; send it again")
		}
		req.Class = r.classify(call, grant.Asker{Tenant: req.Tenant, Kind: req.Kind, Principal: req.Principal, Entries: req.Entries})
	case schemas.KindRun:
		var run schemas.Run
		if err := json.Unmarshal(req.Payload, &run); err != nil {
			return &fault.Parked{Code: schemas.Poison, Reason: "the payload is not a run", Cause: err}
		}
		req.TaskType, req.Sensitive, req.Timeout = run.TaskType, run.Sensitive(), run.Timeout()
	case schemas.KindChat:
		req.Sensitive = true
	case schemas.KindPlan: // says it all by itself
	case schemas.KindRule, schemas.KindTask, schemas.KindPush, schemas.KindRepo: // are not made anew, see final
	}
	return nil
}

// letter reads one of the tenant's dead letters.
func (r *Redriver) letter(ctx context.Context, tenant string, sequence uint64) (schemas.DeadLetter, error) {
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
		return d, unreadable(&fault.Parked{Code: schemas.Poison, Reason: "the record is not a dead letter", Cause: err})
	}
	return d, nil
}

// unreadable words a parked action that cannot be made anew.
func unreadable(err error) error {
	var poison *fault.Parked
	switch {
	case errors.As(err, &poison):
		return &fault.Error{Code: schemas.Conflict, Message: "the parked action's own record cannot be read, so there is nothing to redrive; send the request anew", Cause: err}
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrGone):
		return &fault.Error{Code: schemas.StreamGone, Message: "the history of the parked action has been dropped; send the request anew", Cause: err}
	default:
		return lookUp(err)
	}
}
