package chat

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/gin-gonic/gin"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
)

// completionOf reads the action of a completion. The error is fault.ErrNotFound where there is none that
// this caller may continue or cancel.
func (h handlers) completionOf(ctx context.Context, by *caller, action string) (*ledger.State, error) {
	st, err := h.Actions.Peek(ctx, by.Tenant, action)
	if errors.Is(err, fault.ErrGone) || err == nil && (st.Kind != schemas.KindChat || !by.owns(st.Action)) {
		err = fault.ErrNotFound
	}
	return st, err
}

// isResponse reports whether a completion is one of DialectResponses.
func (h handlers) isResponse(ctx context.Context, a *schemas.Action) (bool, error) {
	release, err := h.Reserve(ctx, a.Tenant, a.PayloadBlob)
	if err != nil {
		return false, err
	}
	defer release()
	var order schemas.ChatOrder
	payload, err := h.Actions.Blob(ctx, a.Payload, a.PayloadBlob)
	return json.Unmarshal(payload, &order) == nil && order.Dialect == schemas.DialectResponses, err
}

// owns reports whether an action is the caller's own: one that the same principal has sent, and for the
// holder of a task one of that task, with limits that are no wider than the holder's.
func (p caller) owns(a schemas.Action) bool {
	own := task.Bounds{Entries: p.Entries, Models: p.Models}
	return a.Principal == p.Principal && (p.who.Holding == nil || a.Task == p.who.Task() && own.Covers(task.Of(a)))
}

// follows reads the response that a request continues, and checks that it may. What that response holds
// counts as a part of this prompt.
func (h handlers) follows(ctx context.Context, a *asked) error {
	st, err := h.completionOf(ctx, &a.caller, a.order.Previous)
	var result schemas.ChatResult
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return errNoPrevious("this token has no such response; write the id of a response that it made, or leave it out and send the whole conversation")
	case err != nil:
		return err
	case st.Settled == nil:
		return errNoPrevious("this response has not ended; wait for its end, and send the request again")
	case st.Settled.Outcome != schemas.OutcomeSucceeded:
		return errNoPrevious("this response did not succeed; leave the id out and send the whole conversation")
	case json.Unmarshal(st.Settled.Result, &result) != nil || result.Dialect != schemas.DialectResponses || result.ProviderID == "":
		return errNoPrevious("the result of this response cannot be read; leave the id out and send the whole conversation")
	}
	a.order.PreviousID, a.order.PreviousUpstream, a.order.PreviousBy = result.ProviderID, result.Upstream, a.Principal
	if u := result.Usage; u != nil {
		a.order.Media = models.Plus(a.order.Media, models.Plus(u.Prompt, u.Completion))
	}
	return nil
}

// cancel stops a response, and answers with it. One that has ended stays as it is.
func (h handlers) cancel(c *gin.Context) error {
	by, err := h.caller(c)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	action, ok := schemas.ResponseAction(c.Param("id"))
	if !ok || !schemas.ValidActionID(action) {
		return errNoResponse()
	}
	st, err := h.completionOf(ctx, &by, action)
	if err == nil {
		ok, err = h.isResponse(ctx, &st.Action)
	}
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && !ok:
		return errNoResponse()
	case err != nil:
		return err
	case st.Settled == nil:
		err := h.Cancel(ctx, by.Tenant, action)
		if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.Conflict {
			err = nil // it has ended meanwhile
		}
		if err != nil {
			return err
		}
	}
	c.Writer.Header().Set("Cache-Control", "no-store")
	h.Respond(c.Writer, c.Request, st.Ref)
	return nil
}

func errNoResponse() error {
	return fault.New(schemas.NotFound, "there is no response with this id that this token may cancel; write the id of a response that it made")
}
