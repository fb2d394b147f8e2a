package chat

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/schemas"
)

// previous is the answer that a request continues, see schemas.ChatOrder. An empty id says that it
// cannot be continued.
type previous struct{ upstream, id string }

// readPrevious reads the answer that the request continues. The ingress has checked it; it may have
// been dropped since.
func (w *work) readPrevious(ctx context.Context) error {
	if w.order.Previous == "" {
		return nil
	}
	w.previous = &previous{}
	st, err := w.ledger.Peek(ctx, w.st.Tenant, w.order.Previous)
	if err == nil && w.continues(st) {
		err = w.readAnswer(ctx, st)
	}
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
		return nil
	}
	return err
}

// continues reports whether an action is a completion of the same principal that has succeeded.
func (w *work) continues(st *ledger.State) bool {
	return st.Kind == schemas.KindChat && st.Action.Principal == w.st.Action.Principal &&
		st.Settled != nil && st.Settled.Outcome == schemas.OutcomeSucceeded
}

// readAnswer takes the provider's id from the result of an action, and the upstream that made it. A
// task's request continues answers of the same task only.
func (w *work) readAnswer(ctx context.Context, st *ledger.State) error {
	var order schemas.ChatOrder
	var result schemas.ChatResult
	payload, err := w.ledger.Blob(ctx, st.Action.Payload, st.Action.PayloadBlob)
	if err != nil {
		return err
	}
	readable := json.Unmarshal(payload, &order) == nil && json.Unmarshal(st.Settled.Result, &result) == nil
	own := w.order.TaskID == "" || order.TaskID == w.order.TaskID
	if readable && own && order.Dialect == w.order.Dialect {
		w.previous = &previous{result.Upstream, result.ProviderID}
	}
	return nil
}

// at leaves the candidates of the upstream that made the previous answer: no other knows it.
func (p *previous) at(list []models.Candidate) []models.Candidate {
	return slices.DeleteFunc(list, func(c models.Candidate) bool { return p.id == "" || c.Upstream.Name != p.upstream })
}

// discontinued is a completion whose previous answer no upstream can be asked to continue.
func (w *work) discontinued() completionEnd {
	message := "the previous response cannot be continued: the upstream that made it does not serve this request any more"
	if w.previous.id == "" {
		message = "the previous response does not exist, or its result cannot be read"
	}
	return bad(schemas.OutcomeFailed, schemas.ValidationError, statusInvalid, message+"; send the whole conversation without previous_response_id").
		with(map[string]any{"provider_code": "previous_response_not_found", "provider_param": "previous_response_id"})
}
