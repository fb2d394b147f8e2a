package rules

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/rules"
	"weir/schemas"
)

// Store reads the traffic rules.
type Store interface {
	// Newest is a tenant's rule set, never older than a write that was answered.
	Newest(ctx context.Context, tenant string) (rules.Snapshot, error)
}

// Answerer answers for the traffic rules.
type Answerer struct {
	server *egress.Server
	store  Store
}

// NewAnswerer returns an Answerer by a server. Without a store, rules are not served.
func NewAnswerer(s *egress.Server, store Store) Answerer { return Answerer{s, store} }

// Surface answers for kind rule, and shows the rules to tokens that may see what they do, or
// write them.
func (a Answerer) Surface() egress.Surface {
	return egress.Surface{
		Name: "rules", Absent: a.store == nil,
		Routes: a.server.Read("/v1/rules", egress.JSON(func(r *egress.Request) (any, error) {
			now, err := a.newest(r.Request.Context(), r.Reader.Tenant)
			if err != nil {
				return nil, err
			}
			page, err := Page(r.Request.URL.Query(), now)
			if err == nil {
				r.Writer.Header().Set("ETag", `"`+page.RulesEtag+`"`)
			}
			return page, err
		}), schemas.ScopeActionsRead, schemas.ScopeRulesWrite),
		Views: []egress.View{{
			Kind: schemas.KindRule, Accepted: accepted, Stopping: errNotWaited(),
			Answer: func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
				status, body, err := Render(requestOf(r), s, doc)
				if err == nil {
					stream.WriteBody(w, status, "application/json", body)
				}
				return err
			},
			Result: func(_ schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage { return Result(s, doc) },
			Fail:   func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, err error) { problem.WriteAgent(w, r, err) },
		}},
	}
}

// requestOf is what the answer to a request of the agent API repeats.
func requestOf(r *http.Request) Request {
	id, operation := problem.Agent(r.Context())
	return Request{RequestID: id, Operation: operation}
}

// Read answers an operation of the agent API that changes nothing. The
// request was checked.
func (a Answerer) Read(w http.ResponseWriter, r *http.Request, tenant string, req schemas.AgentRequest) {
	data, err := Read(req, func() (rules.Snapshot, error) { return a.newest(r.Context(), tenant) })
	var body []byte
	if err == nil {
		body, err = Answer(Request{RequestID: req.RequestID, Operation: req.Operation}, data)
	}
	if err != nil {
		problem.WriteAgent(w, r, err)
		return
	}
	stream.WriteBody(w, http.StatusOK, "application/json", body)
}

func (a Answerer) newest(ctx context.Context, tenant string) (rules.Snapshot, error) {
	if a.store == nil {
		return rules.Snapshot{}, fault.New(schemas.Unavailable, "this node does not serve rules")
	}
	now, err := a.store.Newest(ctx, tenant)
	if errors.Is(err, rules.ErrUnreadable) {
		err = errUnreadable(err)
	}
	return now, err
}

// errUnreadable is what a read of rules is answered that this node cannot read. It
// says what to do, for the tenant's calls are denied until that is done.
func errUnreadable(cause error) error {
	return &problem.Error{
		Problem: schemas.Problem{
			Code:   schemas.Internal,
			Detail: "the stored rules cannot be read here, and the tenant's calls are denied: run the version that wrote them, or newer, or have an admin give them up with `weir rules reset`",
		},
		Word: schemas.DetailRulesUnreadable, Cause: cause,
	}
}

// accepted answers a write without waiting for its end. The answer only says that it is stored.
func accepted(w http.ResponseWriter, r *http.Request, receipt schemas.Receipt) error {
	data, err := ledger.Encode(receipt)
	if err != nil {
		return err
	}
	body, err := Answer(requestOf(r), data)
	if err == nil {
		stream.WriteBody(w, http.StatusAccepted, "application/json", body)
	}
	return err
}

// errNotWaited is what a write is answered whose end this node cannot wait for. An
// agent that has asked for no receipt takes none.
func errNotWaited() error {
	return fault.New(schemas.Unavailable, "the write is stored, and whether it was made is not known yet; send the same request again, it joins")
}

// Record answers with mock rules that repeat an action's answers. Nothing is stored. For a
// sensitive action only its own caller may get them, because all callers of the tenant can read
// rules.
func (a Answerer) Record(w http.ResponseWriter, r *http.Request, tenant, principal string, req schemas.RecordRequest) {
	out, err := a.recording(r.Context(), tenant, principal, req)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, out)
}

func (a Answerer) recording(ctx context.Context, tenant, principal string, req schemas.RecordRequest) (schemas.Recording, error) {
	st, err := a.server.Find(ctx, tenant, req.ActionID, "there is no such action")
	if err != nil {
		return schemas.Recording{}, err
	}
	switch {
	case st.Settled == nil:
		return schemas.Recording{}, &problem.Error{
			Problem: schemas.Problem{Code: schemas.InFlight, Detail: "the action has not ended yet; record it once it has"}, RetryAfter: recordRetry,
		}
	case st.Action.Sensitive && st.Action.Principal != principal:
		return schemas.Recording{}, fault.New(schemas.Forbidden, "the action is sensitive: only the token that asked for it may have its answers as rules")
	}
	return Record(ctx, st, a.server.Actions(), req, a.server.Now())
}

// recordRetry is when an action that has not ended may be worth another try.
const recordRetry = time.Second
