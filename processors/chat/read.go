package chat

import (
	"context"
	"encoding/json"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/processors/call/model"
	"weir/schemas"
)

// response is what an attempt's model said in all; nil where there was no complete answer.
func (w *work) response(ctx context.Context, at int) (*model.Response, error) {
	if response, ok := w.responses[at]; ok {
		return response, nil
	}
	t := &w.st.Attempts[at]
	if t.Result == nil || t.Result.Code != "" {
		return nil, nil // as it says
	}
	a, err := w.answers.Answer(ctx, t)
	if err != nil {
		return nil, err
	}
	response := &model.Response{}
	if a == nil || json.Unmarshal(a.Body, response) != nil {
		return nil, &fault.Terminal{Code: schemas.Poison, Reason: "the stored answer of a model cannot be read"}
	}
	w.responses[at] = response
	return response, nil
}

// options describe the request to the protocol of its answer.
func (w *work) options() completion.Options {
	return completion.Options{ID: w.st.ID, Previous: w.order.Previous, Usage: w.order.Usage, Choices: w.order.Choices}
}

// said is what a model said in an attempt: its complete answer, or of the newest attempt the part that
// readers have received; nil where there is neither.
func (w *work) said(ctx context.Context, at int) (*model.Response, error) {
	response, err := w.response(ctx, at)
	if response == nil && err == nil && w.shown(at) {
		return w.transcript(ctx)
	}
	return response, err
}

// transcript reads the part of an answer that readers have received. No text assembled from it
// holds a secret: their chunks were searched as one.
func (w *work) transcript(ctx context.Context) (*model.Response, error) {
	if w.partial != nil {
		return w.partial, nil
	}
	a := w.protocol.Answer(w.options())
	err := w.ledger.Replay(ctx, w.st.Ref, func(ev schemas.Event) error {
		if ev.Type != schemas.EventDelta {
			return nil
		}
		var d schemas.ChatDelta
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			return &fault.Terminal{Code: schemas.Poison, Reason: "a part of the answer is not a delta", Cause: err}
		}
		for _, raw := range d.Chunks {
			if c, flaw := w.protocol.Read("", raw); flaw == nil { // no client received anything else
				a.Add(c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.partial = &model.Response{Completion: a.Document(), Usage: a.Spent(), Reasons: a.Reasons(), Output: a.Output()}
	return w.partial, nil
}
