package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress/executor"
	"weir/egress/git"
	"weir/egress/plans"
	"weir/egress/rules"
	"weir/egress/runs"
	"weir/egress/stream"
	"weir/egress/tasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/wire"
	"weir/schemas"
)

// Expect is called before an action's claim is published, by whoever will call
// Respond with a wait, and released after Respond has returned. It spares the
// answer a read of the log.
func (e *Room) Expect(ref schemas.Ref) (release func()) { return e.feed.Expect(ref) }

// Respond answers for an action that was accepted or joined: with its end in
// the surface's own words, or with 202 and the receipt once wait is over.
// wait < 0 waits for as long as the client does; 0 answers at once. The answer
// depends on the stored end alone, so a replay gets the same bytes. A client
// that goes away gets nothing, not even a status, and its action goes on. So does one that
// only sends nothing more: to the server they are the same.
func (e *Room) Respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration) {
	e.respond(w, r, ref, receipt, wait, nil)
}

// respond is Respond, with somebody who wants to know when the client has gone before
// the end and nobody else on this node reads the action or waits for it; nil: nobody does.
func (e *Room) respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration, left func()) {
	w.Header().Set("Weir-Action-Id", ref.ID)
	if wait == 0 {
		accepted(w, r, ref, receipt)
		return
	}
	if ref.Kind != schemas.KindPush { // whose body is still read, and has deadlines of its own
		// The deadline of the request's body would end the wait for its answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	ctx := r.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	end, alone, err := e.feed.Await(ctx, ref, !receipt.Duplicate)
	switch {
	case err == nil:
		e.settled(w, r, ref, end.Settled)
	case r.Context().Err() != nil:
		wire.Drop(r.Context())
		if left != nil && alone && !errors.Is(err, stream.ErrClosed) {
			left()
		}
	case ref.Kind == schemas.KindRule && wait < 0 && errors.Is(err, stream.ErrClosed):
		refuse(w, r, ref, errNotWaited())
	case ref.Kind == schemas.KindChat && wait < 0 && errors.Is(err, stream.ErrClosed):
		refuse(w, r, ref, errNotAnswered())
	case ref.Kind == schemas.KindPush:
		refuse(w, r, ref, errPush(err))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, stream.ErrClosed):
		accepted(w, r, ref, receipt)
	default:
		refuse(w, r, ref, err)
	}
}

// refuse answers with an error in the words of the action's kind.
func refuse(w http.ResponseWriter, r *http.Request, ref schemas.Ref, err error) {
	switch ref.Kind {
	case schemas.KindRun:
		id, _ := schemas.Generation(ref.ID)
		problem.WriteRun(w, id, err)
	case schemas.KindRule:
		problem.WriteAgent(w, r, err)
	case schemas.KindPush:
		git.Refuse(w, r, err)
	case schemas.KindChat:
		problem.WriteChat(w, r, err)
	default:
		problem.Write(w, r, err)
	}
}

// accepted is the answer that leaves the rest to the action's own routes.
func accepted(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt) {
	w.Header().Set("Location", stream.ActionURL(ref.ID))
	if ref.Kind == schemas.KindRule {
		acceptedRule(w, r, receipt)
		return
	}
	stream.WriteJSON(w, r, http.StatusAccepted, receipt)
}

// settled renders an end in the dialect of its kind.
func (e *Room) settled(w http.ResponseWriter, r *http.Request, ref schemas.Ref, s *schemas.Settled) {
	doc, release, err := e.result(r.Context(), ref.Tenant, s)
	if err != nil {
		if r.Context().Err() != nil {
			wire.Drop(r.Context())
			return
		}
		refuse(w, r, ref, err)
		return
	}
	defer release()
	switch ref.Kind {
	case schemas.KindPush:
		git.Push(w, r, s, doc)
		return
	case schemas.KindRepo:
		e.madeRepo(w, r, s, doc)
		return
	case schemas.KindTask: // as its people see it, its end with all the rest
		e.Task(w, r, ref, http.StatusOK, "")
		return
	case schemas.KindChat:
		completed(w, r, s, doc)
		return
	default:
	}
	status, body, err := render(r.Context(), ref, s, doc)
	if err != nil {
		refuse(w, r, ref, err)
		return
	}
	stream.WriteBody(w, status, "application/json", body)
}

func render(ctx context.Context, ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	switch ref.Kind {
	case schemas.KindPlan:
		body, err := plans.Render(ref, s, doc)
		return http.StatusOK, body, err
	case schemas.KindRun:
		body, err := runs.Render(ref, s, doc)
		return http.StatusOK, body, err
	case schemas.KindRule:
		id, operation := problem.Agent(ctx)
		return rules.Render(rules.Asked{RequestID: id, Operation: operation}, s, doc)
	default:
		return executor.Render(ref, s, doc)
	}
}

// result is the stored document of an end. Memory is reserved for a large one until release.
func (e *Room) result(ctx context.Context, tenant string, s *schemas.Settled) (doc json.RawMessage, release func(), err error) {
	release, err = e.cfg.Reserve(ctx, tenant, s.ResultBlob, s.AnswerBlob)
	if err == nil {
		doc, err = ledger.Result(ctx, s, func(ctx context.Context, name string) (json.RawMessage, error) { return e.log.GetBlob(ctx, name) })
		if err != nil {
			release()
		}
	}
	if errors.Is(err, fault.ErrNotFound) {
		err = fault.ErrGone // the action is there, its result was dropped
	}
	return doc, release, err
}

// Result is the public form of an end's document, for the events and the
// status of an action. Give it to the feed's Config.
func Result(ref schemas.Ref, s *schemas.Settled) json.RawMessage {
	return publicResult(ref, s, s.Result)
}

func publicResult(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	switch ref.Kind {
	case schemas.KindPlan, schemas.KindTask, schemas.KindChat: // of a completion what came and what it used, too
		return doc
	case schemas.KindRepo:
		return tasks.RepoResult(s, doc)
	case schemas.KindRun:
		return runs.Result(ref, s, doc)
	case schemas.KindRule:
		return rules.Result(s, doc)
	case schemas.KindPush:
		return git.Result(doc)
	default:
		return executor.Result(ref, s, doc)
	}
}
