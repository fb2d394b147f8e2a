package egress

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/wire"
	"weir/schemas"
)

// Expect is called before the claim of an action is published whose end Reply will wait for, and
// release after Reply has returned. It spares the answer a read of the log.
func (s *Server) Expect(ref schemas.Ref) (release func()) { return s.feed.Expect(ref) }

// Reply answers for an action that was accepted or joined: with its end in the surface's own form,
// or with 202 and the receipt after wait. wait < 0 waits for as long as the client does; 0 answers
// at once. The answer depends on the stored end and its resolution alone, so a replay gets the same
// bytes. A client that disconnects, or only ends its sending side, gets no answer, not even a
// status, and its action continues.
func (s *Server) Reply(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration) {
	s.ReplyAs(w, r, s.views[ref.Kind], ref, receipt, wait, nil)
}

// ReplyOr is Reply, and calls left if the client has gone before the end and no other client of
// this node reads the action or waits for it. left may be nil.
func (s *Server) ReplyOr(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration, left func()) {
	s.ReplyAs(w, r, s.views[ref.Kind], ref, receipt, wait, left)
}

// ReplyAs is ReplyOr with a view of the caller's own.
func (s *Server) ReplyAs(w http.ResponseWriter, r *http.Request, v View, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration, left func()) {
	w.Header().Set("Weir-Action-Id", ref.ID)
	if wait == 0 {
		v.accepted(w, r, ref, receipt)
		return
	}
	if !v.Reading {
		// The deadline of the request's body would end the wait for its answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	ctx := r.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	last, alone, err := s.feed.Await(ctx, ref, !receipt.Duplicate, v.Live != nil)
	if err != nil {
		s.replyOpen(w, r, v, ref, receipt, err, wait < 0, alone, left)
		return
	}
	end := s.Resolved(r.Context(), ref, last.Event.Settled)
	doc, release, err := s.Document(r.Context(), ref.Tenant, end)
	if err == nil {
		defer release()
		if end.Outcome != schemas.OutcomeSucceeded {
			problem.ReportOf(r.Context()).Code = cmp.Or(end.Code, end.Outcome.Code())
		}
		if v.Render == nil {
			err = v.Answer(w, r, ref, end, doc)
		} else if status, body, failed := v.Render(ref, end, doc); failed != nil {
			err = failed
		} else {
			stream.WriteBody(w, status, "application/json", body)
		}
	} else if r.Context().Err() != nil {
		wire.Drop(r.Context())
		return
	}
	if err != nil {
		v.fail(w, r, ref, err)
	}
}

// replyOpen answers for an action whose wait ended before the action did, with err. endless: the client
// would have waited for as long as it takes.
func (s *Server) replyOpen(
	w http.ResponseWriter, r *http.Request, v View, ref schemas.Ref, receipt schemas.Receipt,
	err error, endless, alone bool, left func(),
) {
	stopping := errors.Is(err, stream.ErrClosed)
	switch {
	case errors.Is(err, stream.ErrBegun):
		v.Live(w, r, ref, left)
	case r.Context().Err() != nil:
		wire.Drop(r.Context())
		if left != nil && alone && !stopping {
			left()
		}
	case stopping && endless && v.Stopping != nil:
		v.fail(w, r, ref, v.Stopping)
	case stopping, errors.Is(err, context.DeadlineExceeded):
		v.accepted(w, r, ref, receipt)
	default:
		v.fail(w, r, ref, err)
	}
}

// fail answers with an error in the form of the action's kind.
func (v View) fail(w http.ResponseWriter, r *http.Request, ref schemas.Ref, err error) {
	if v.Fail == nil {
		problem.Write(w, r, err)
		return
	}
	v.Fail(w, r, ref, err)
}

// accepted answers with the receipt; the client reads the action's own routes.
func (v View) accepted(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt) {
	w.Header().Set("Location", stream.ActionURL(ref.ID))
	if v.Accepted == nil {
		stream.WriteJSON(w, r, http.StatusAccepted, receipt)
	} else if err := v.Accepted(w, r, receipt); err != nil {
		v.fail(w, r, ref, err)
	}
}

// Resolved is an end with the resolution of an unknown outcome, if there is one that can be read.
func (s *Server) Resolved(ctx context.Context, ref schemas.Ref, end *schemas.Settled) *schemas.Settled {
	if end.Outcome != schemas.OutcomeUnknown {
		return end
	}
	st, err := s.actions.Load(ctx, ref)
	if err != nil || st.Resolution == nil || s.Durable(ctx, ref, st.Seq) != nil {
		return end
	}
	resolved := *end
	resolved.Resolution = st.Resolution
	return &resolved
}

// Unsuccessful is the problem of an end that did not succeed, for views that have no form of their own for
// it. message is for an end that stores none.
func Unsuccessful(ref schemas.Ref, s *schemas.Settled, message string) error {
	p := schemas.Problem{Code: cmp.Or(s.Code, s.Outcome.Code()), Detail: cmp.Or(s.Message, message)}
	if s.Outcome == schemas.OutcomeUnknown {
		p.Code, p.Detail = s.Outcome.Code(), s.UnknownText(ref.ID)
		if s.Resolution == nil {
			p.Detail += " (" + stream.ResolveURL(ref.ID) + ")"
		}
	}
	return &problem.Error{Problem: p}
}

// Document is the stored document of an end. Memory is reserved for a large one until release.
// One that was dropped is fault.ErrGone.
func (s *Server) Document(ctx context.Context, tenant string, end *schemas.Settled) (doc json.RawMessage, release func(), err error) {
	return s.stored(ctx, tenant, func() (json.RawMessage, error) { return s.actions.Result(ctx, end) }, end.ResultBlob, end.AnswerBlob)
}

// Payload is the stored payload of an action, as Document is that of an end.
func (s *Server) Payload(ctx context.Context, a *schemas.Action) (payload json.RawMessage, release func(), err error) {
	return s.stored(ctx, a.Tenant, func() (json.RawMessage, error) { return s.actions.Blob(ctx, a.Payload, a.PayloadBlob) }, a.PayloadBlob)
}

// stored reads a document, of which some is in blobs.
func (s *Server) stored(
	ctx context.Context, tenant string, read func() (json.RawMessage, error), blobs ...string,
) (doc json.RawMessage, release func(), err error) {
	release, err = s.cfg.Reserve(ctx, tenant, blobs...)
	if err == nil {
		if doc, err = read(); err != nil {
			release()
		}
	}
	if errors.Is(err, fault.ErrNotFound) {
		err = fault.ErrGone
	}
	return doc, release, err
}

// Part is the public form of a delta's data, for the events of an action. Give it to the feed's
// Config.
func (s *Server) Part(ref schemas.Ref, data json.RawMessage) json.RawMessage {
	if show := s.views[ref.Kind].Part; show != nil {
		return show(data)
	}
	return data
}

// Result is the public form of an end's document, for the events and the status of an action. Give it
// to the feed's Config.
func (s *Server) Result(ref schemas.Ref, end *schemas.Settled, doc json.RawMessage) json.RawMessage {
	v, ok := s.views[ref.Kind]
	switch {
	case !ok:
		return nil
	case v.Render != nil:
		_, body, err := v.Render(ref, end, doc)
		if err != nil {
			return nil
		}
		return body
	case v.Result == nil:
		return doc
	default:
		return v.Result(ref, end, doc)
	}
}
