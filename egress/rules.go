package egress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress/rules"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	snapshots "weir/internal/rules"
	"weir/schemas"
)

// mountRules shows the rules to whoever may see what they do, or write them.
func (e *Room) mountRules(engine *gin.Engine) {
	if e.cfg.Rules == nil {
		return
	}
	read(engine, "/v1/rules", e.readBy("", func(c *gin.Context, who Reader) {
		err := fault.Scope(who.Scopes, schemas.ScopeActionsRead, schemas.ScopeRulesWrite)
		var page schemas.RulePage
		if err == nil {
			page, err = e.rulePage(c.Request, who.Tenant)
		}
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		c.Writer.Header().Set("ETag", `"`+page.RulesEtag+`"`)
		stream.WriteJSON(c.Writer, c.Request, http.StatusOK, page)
	}))
}

func (e *Room) rulePage(r *http.Request, tenant string) (schemas.RulePage, error) {
	now, err := e.newestRules(r.Context(), tenant)
	if err != nil {
		return schemas.RulePage{}, err
	}
	return rules.Page(r.URL.Query(), now)
}

// ReadRules answers an operation of the agent API that changes nothing. The
// request was checked.
func (e *Room) ReadRules(w http.ResponseWriter, r *http.Request, tenant string, req schemas.AgentRequest) {
	data, err := rules.Read(req, func() (snapshots.Snapshot, error) { return e.newestRules(r.Context(), tenant) })
	var body []byte
	if err == nil {
		body, err = rules.Answer(rules.Asked{RequestID: req.RequestID, Operation: req.Operation}, data)
	}
	if err != nil {
		problem.WriteAgent(w, r, err)
		return
	}
	stream.WriteBody(w, http.StatusOK, "application/json", body)
}

func (e *Room) newestRules(ctx context.Context, tenant string) (snapshots.Snapshot, error) {
	if e.cfg.Rules == nil {
		return snapshots.Snapshot{}, fault.New(schemas.Unavailable, "this node does not serve rules")
	}
	now, err := e.cfg.Rules.Newest(ctx, tenant)
	if errors.Is(err, snapshots.ErrUnreadable) {
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

// acceptedRule answers a write whose end nobody waits for. The answer's own words say
// that it is stored and no more.
func acceptedRule(w http.ResponseWriter, r *http.Request, receipt schemas.Receipt) {
	data, err := ledger.Encode(receipt)
	var body []byte
	if err == nil {
		id, operation := problem.Agent(r.Context())
		body, err = rules.Answer(rules.Asked{RequestID: id, Operation: operation}, data)
	}
	if err != nil {
		problem.WriteAgent(w, r, err)
		return
	}
	stream.WriteBody(w, http.StatusAccepted, "application/json", body)
}

// errNotWaited is what a write is answered whose end this node cannot wait for. An
// agent that has asked for no receipt takes none.
func errNotWaited() error {
	return fault.New(schemas.Unavailable, "the write is stored, and whether it was made is not known yet; send the same request again, it joins")
}

// RecordRules answers with mock rules that give the answers again which an action
// got. Nothing is stored. Of a sensitive action only its own caller may have them:
// rules are everybody's in the tenant.
func (e *Room) RecordRules(w http.ResponseWriter, r *http.Request, tenant, principal string, req schemas.RecordRequest) {
	out, err := e.recording(r.Context(), tenant, principal, req)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, out)
}

func (e *Room) recording(ctx context.Context, tenant, principal string, req schemas.RecordRequest) (schemas.Recording, error) {
	if !schemas.ValidActionID(req.ActionID) {
		return schemas.Recording{}, errNoAction()
	}
	st, err := e.actions.Find(ctx, tenant, req.ActionID)
	if errors.Is(err, fault.ErrNotFound) {
		err = errNoAction()
	}
	if err != nil {
		return schemas.Recording{}, err
	}
	partition := schemas.LogStream(e.cfg.Layout.Partition(tenant, req.ActionID))
	if err := e.feed.Durable(ctx, partition, st.Seq); err != nil {
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
	return rules.Record(ctx, st, e.actions, req, e.cfg.Now())
}

// recordRetry is when an action that has not ended may be worth another try.
const recordRetry = time.Second

func errNoAction() error { return fault.New(schemas.NotFound, "there is no such action") }
