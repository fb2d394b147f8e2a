package chat

import (
	"context"
	"encoding/json"
	"time"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/processors/settle"
	"weir/schemas"
)

// work is one performance of a completion. It belongs to one goroutine.
type work struct {
	*Chat

	st    *ledger.State
	order schemas.ChatOrder
	stop  call.Stop
	// protocol reads the order's dialect.
	protocol completion.Protocol

	grant budget.Grant
	held  *budget.Order // what grant was given for; nil: nothing in this performance
	// made are the candidates that this performance has asked, by step.
	made map[int]models.Candidate
	// denied are the places that policy did not let this performance ask, and refusal what
	// it said of the first.
	denied    map[attemptTarget]bool
	refusal   schemas.Decision
	floor     int                     // the next step is no lower, for those before it were denied
	paused    int                     // how many attempts there were when it was waited last
	responses map[int]*model.Response // answers that were read, by the place of their attempt
	partial   *model.Response         // the content of the deltas, once read
	// reported is what calls of this performance that broke off have used by their providers'
	// word, by step. It is not on the log: of a call whose worker died the deltas tell.
	reported map[int]*schemas.ChatUsage
}

func (c *Chat) work(st *ledger.State, o schemas.ChatOrder) *work {
	return &work{
		Chat: c, st: st, order: o, protocol: completion.For(o.Dialect),
		made: map[int]models.Candidate{}, denied: map[attemptTarget]bool{},
		responses: map[int]*model.Response{}, reported: map[int]*schemas.ChatUsage{},
	}
}

// budgets are those that bear the completion; nil: none, for a count of tokens costs nothing.
func (w *work) budgets() *budget.Limiter {
	if w.order.Dialect == schemas.DialectCount {
		return nil
	}
	return w.cfg.Budgets
}

// attemptTarget is a candidate's entry and the model name to send.
type attemptTarget struct{ entry, send string }

func targetOf(c models.Candidate) attemptTarget {
	return attemptTarget{schemas.ModelEntry(c.Upstream.Name), c.Send}
}

// maxSteps is how many tries of upstreams a completion has at most.
const maxSteps = 16

// ask calls one upstream after the other, and returns the end.
func (w *work) ask(ctx context.Context) (completionEnd, error) {
	for {
		last, err := w.concluded(ctx)
		if err != nil {
			return completionEnd{}, err
		}
		if last != nil {
			if e, over := w.evaluate(last); over { //nolint:contextcheck // it asks the stop why
				return e, nil
			}
		} else if w.given() { // a traffic rule's answer, which is no attempt before it has ended
			return bad(schemas.OutcomeFailed, schemas.Interrupted, "the answer broke off: the worker that made the call is gone"), nil
		}
		if canceled, over := call.Over(w.st, w.stop, time.Now()); over {
			return w.stopped(canceled), nil //nolint:contextcheck // it asks the stop why
		}
		set := w.cfg.Models()
		list := w.candidates(set)
		next, pause, ok := w.next(list)
		if !ok {
			return w.exhausted(set, last), nil //nolint:contextcheck // it asks the stop why
		}
		if pause > 0 {
			if err := call.Await(ctx, call.Within(w.st, pause), w.stop.Done(), w.cfg.Draining, nil); err != nil {
				return completionEnd{}, err
			}
			w.paused = len(w.st.Attempts)
			continue
		}
		if e, refused, err := w.reserve(ctx, list); err != nil || refused {
			return e, err
		}
		if err := w.attempt(ctx, set, next); err != nil {
			return completionEnd{}, err
		}
	}
}

// concluded is the result of the newest step from the log; nil if there is none. For an ended step
// Run reads the result and makes no call.
func (w *work) concluded(ctx context.Context) (*outcome, error) {
	n := len(w.st.Attempts)
	if n == 0 {
		return nil, nil // nothing was tried yet
	}
	r, err := w.caller.Run(ctx, w.task(w.st.Attempts[n-1].Step))
	if err != nil {
		return nil, err
	}
	response, err := w.response(ctx, n-1)
	return &outcome{Result: r, response: response}, err
}

// outcome is the result of a step.
type outcome struct {
	call.Result
	response *model.Response // nil: there was no complete answer
}

// close settles what the completion has used, and gives its verdict. The budgets are
// first: a worker that dies between leaves the end to the next one, which settles the
// same once more, and that changes nothing.
func (w *work) close(ctx context.Context, e completionEnd) (settle.Outcome, error) {
	if err := w.finish(ctx, &e); err != nil {
		return settle.Outcome{}, err
	}
	if !e.unheld {
		if err := w.pay(ctx, e.result.Usage); err != nil {
			return settle.Outcome{}, err
		}
	}
	return settle.Outcome{Outcome: e.outcome, Code: e.code, Message: e.message, Result: e.result}, nil
}

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
