package chat

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/schemas"
)

// asked is a request for a completion that was read.
type asked struct {
	caller
	order schemas.ChatOrder
	// further are members that only some upstreams pass.
	further []Further
	req     accept.Request
	// after is where its stream resumes, and cancels that it ends with its last reader.
	after   schemas.ChatPosition
	cancels bool
}

// completion reads a completion to be stored. Who asks comes before what is asked.
func (h handlers) completion(c *gin.Context, d schemas.Dialect) (a asked, err error) {
	if a.caller, err = h.caller(c); err != nil {
		return a, err
	}
	header := c.Request.Header
	key, err := accept.Key(header.Values("Idempotency-Key"))
	if err != nil {
		return a, err
	}
	if err := accept.AtOnce(header); err != nil {
		return a, err
	}
	if a.cancels, err = onDisconnect(header.Values(schemas.HeaderOnDisconnect)); err != nil {
		return a, err
	}
	if err := h.read(c, d, &a); err != nil {
		return a, err
	}
	set := h.Models()
	if err := a.narrow(set, &a.order); err != nil {
		return a, err
	}
	payload, err := ledger.Encode(a.order)
	if err != nil {
		return a, err
	}
	names := append([]string{a.order.Model}, a.order.Models...)
	found := models.Passing(models.Speaking(set.Candidates(names, a.May, a.Enters, ""), d), a.order.Further)
	a.req = accept.Request{
		Name: accept.NameOf(a.Tenant, a.who.Keys(d.Route()), "", key), Until: a.who.Until(), Action: schemas.Action{
			Tenant: a.Tenant, Kind: schemas.KindChat, Sensitive: true, Task: a.who.Task(), Payload: payload, Principal: a.Principal,
			Entries: a.Entries, Models: a.Models, TraceParent: header.Get(schemas.HeaderTraceParent),
		},
	}
	for _, f := range found {
		if !slices.Contains(a.req.Answers, f.Name) {
			a.req.Answers = append(a.req.Answers, f.Name)
		}
	}
	a.req.Refusal = h.refused(c, set, a, names, found)
	return a, nil
}

// maxAllMembers is how many members all objects of a body may have: long conversations have many.
const maxAllMembers = 250_000

// read reads the body, and where in its stream the caller has been.
func (h handlers) read(c *gin.Context, d schemas.Dialect, a *asked) error {
	headers, err := forwarded(d, c.Request.Header)
	if err != nil {
		return err
	}
	body, err := h.server.ReadUpTo(c, h.MaxBody, strict.Limits{Members: maxAllMembers})
	if err != nil {
		return err
	}
	if a.order, a.further, err = Read(d, body); err != nil {
		return err
	}
	a.order.Headers = headers
	if of := a.who.Holding; of != nil {
		a.order.TaskID, a.order.Budget, a.order.Subtokens = of.Task.ID, of.Budget, of.Subtokens
	}
	if a.order.Previous != "" {
		if err := h.follows(c.Request.Context(), a); err != nil {
			return err
		}
	}
	if a.order.Stream {
		a.after, err = h.Resume(c.Request)
	}
	return err
}

// onDisconnect reads whether a completion is canceled when its client leaves.
func onDisconnect(fields []string) (cancels bool, err error) {
	switch {
	case len(fields) == 0:
		return false, nil
	case len(fields) == 1 && fields[0] == schemas.DisconnectCancel:
		return true, nil
	case len(fields) == 1 && fields[0] == schemas.DisconnectContinue:
		return false, nil
	default:
		return false, fault.New(schemas.InvalidRequest, "the header "+schemas.HeaderOnDisconnect+" must be cancel or continue, once")
	}
}

// refused is the reason why a completion cannot start now, if there is none to join: its models
// have no upstream, the token may use none of them, no upstream supports its parameters, a window
// is full, or reservations leave too little. The worker reports an exhausted budget, because it
// stores evidence of it.
func (h handlers) refused(c *gin.Context, set *models.Set, a asked, names []string, found []models.Candidate) error {
	if len(set.Candidates(names, nil, nil, "")) == 0 {
		return fault.New(schemas.ModelNotFound, "at /model: there is no such model here; GET /models shows those there are")
	}
	if len(found) == 0 {
		all := set.Candidates(names, a.May, a.Enters, "")
		speaking := models.Speaking(all, a.order.Dialect)
		switch {
		case len(speaking) > 0:
			return Unpassed(a.further, speaking[0].Lacks(a.order.Further), speaking[0].Upstream.Key)
		case len(all) > 0:
			return errUnspoken(a.order.Dialect, all)
		}
		return fault.New(schemas.Forbidden, "at /model: the token may not use this model; GET /models shows those it may")
	}
	if h.Budgets == nil || a.order.Dialect == schemas.DialectCount { // a count costs nothing
		return nil
	}
	limits, err := h.Budgets.Look(c.Request.Context(), h.worst(&a, found))
	if full := crowded(err); full != nil {
		return full
	}
	problem.Limits(c.Writer.Header(), limits)
	return nil
}

// errUnspoken refuses a model whose upstreams answer other dialects only.
func errUnspoken(d schemas.Dialect, all []models.Candidate) error {
	var routes []string
	for _, each := range schemas.Dialects() {
		if len(models.Speaking(all, each)) > 0 {
			routes = append(routes, "POST "+each.Route())
		}
	}
	return refuse("/"+memberModel, "no upstream of this model answers POST "+d.Route()+"; use "+strings.Join(routes, " or ")+
		", another model, or have the operator add "+string(d.Family())+" to the dialects of "+all[0].Upstream.Key)
}

// crowded is the refusal of Look, by a budget that may have room later; nil: there is none.
func crowded(err error) error {
	full, ok := errors.AsType[*budget.Refusal](err)
	if !ok {
		return nil
	}
	details, _ := ledger.Encode(map[string]string{"limit_source": full.Source, "limit_what": full.What})
	return &problem.Error{
		Problem: schemas.Problem{
			Code: schemas.RateLimited, Status: http.StatusTooManyRequests, Detail: full.Why() + "; wait as long as Retry-After says",
		},
		RetryAfter: full.After, Limits: full.Limits, Details: details, Cause: err,
	}
}
