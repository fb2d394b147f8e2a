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

// response reads the action of a response and its order, without the body. The error is fault.ErrNotFound
// where there is none that this caller may continue or cancel.
func (h handlers) response(ctx context.Context, by *caller, action string) (*ledger.State, *schemas.ChatOrder, error) {
	st, err := h.Actions.Peek(ctx, by.Tenant, action)
	if errors.Is(err, fault.ErrGone) || err == nil && (st.Kind != schemas.KindChat || !by.owns(st.Action)) {
		err = fault.ErrNotFound
	}
	if err != nil {
		return nil, nil, err
	}
	release, err := h.Reserve(ctx, by.Tenant, st.Action.PayloadBlob)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	payload, err := h.Actions.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if err != nil {
		return nil, nil, err
	}
	var order schemas.ChatOrder
	if json.Unmarshal(payload, &order) != nil || order.Dialect != schemas.DialectResponses {
		return nil, nil, fault.ErrNotFound
	}
	order.Body = nil
	return st, &order, nil
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
	st, order, err := h.response(ctx, &a.caller, a.order.Previous)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return errNoPrevious("this token has no such response; write the id of a response that it made, or leave it out and send the whole conversation")
	case err != nil:
		return err
	case st.Settled == nil:
		return errNoPrevious("this response has not ended; wait for its end, and send the request again")
	case st.Settled.Outcome != schemas.OutcomeSucceeded:
		return errNoPrevious("this response did not succeed; leave the id out and send the whole conversation")
	}
	var result schemas.ChatResult
	if json.Unmarshal(st.Settled.Result, &result) != nil || result.ProviderID == "" {
		return errNoPrevious("the result of this response cannot be read; leave the id out and send the whole conversation")
	}
	a.order.PreviousID, a.order.PreviousUpstream = result.ProviderID, result.Upstream
	held := models.Plus(order.Prompt, order.Media)
	if result.Usage != nil {
		held = models.Plus(result.Usage.Prompt, result.Usage.Completion)
	}
	a.order.Media = models.Plus(a.order.Media, held)
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
	st, _, err := h.response(ctx, &by, action)
	switch {
	case errors.Is(err, fault.ErrNotFound):
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
