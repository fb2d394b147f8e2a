package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress/chat"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// ResumeChat is the place that Last-Event-ID names; the zero place without one.
func (e *Room) ResumeChat(r *http.Request) (behind schemas.ChatPlace, err error) {
	values := r.Header.Values("Last-Event-ID")
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return behind, nil
	}
	if len(values) == 1 {
		if behind, ok := chat.Place(values[0]); ok {
			return behind, nil
		}
	}
	return behind, stream.Invalid("the Last-Event-ID header must be the id of an event")
}

// Chat answers for a completion: as a stream with its chunks from behind a place to
// its end, or with the whole, where wait is as in Respond. A stream is begun with its
// first chunk, so that what goes wrong before is answered with a status of its own.
// left is called, at most once, when the client has gone before the end and nobody else on
// this node reads the completion or waits for it, on the goroutine of the request, whose
// context has ended by then; nil: nobody wants to know.
func (e *Room) Chat(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, streams bool, behind schemas.ChatPlace, wait time.Duration, left func()) {
	w.Header().Set(schemas.HeaderGeneration, ref.ID)
	if !streams {
		e.respond(w, r, ref, receipt, wait, left)
		return
	}
	talk := &chatStream{room: e, ref: ref}
	d := stream.Dialect{
		Ref: ref, After: behind.Seq, Part: behind.Chunk, Frame: talk.frame, Refuse: talk.refuse,
		Header: http.Header{"Weir-Action-Id": {ref.ID}},
		Hold:   e.cfg.ChatHold, Left: left, Watch: e.watching(r), Answer: true,
		Over: chat.Over(), Cut: talk.cut,
	}
	if behind.Chunk > 0 { // of that event there is more
		d.After--
	}
	if behind.Seq == 0 || !receipt.Duplicate { // the client has seen nothing of it
		d.Opening = talk.opening
	}
	e.events.AnswerAs(w, r, d)
}

// chatStream renders the events of one completion.
type chatStream struct {
	room *Room
	ref  schemas.Ref
}

// frame renders an event. The end of what succeeded says nothing but that: its chunks
// were the answer.
func (s *chatStream) frame(ctx context.Context, it *stream.Item) ([]byte, error) {
	switch end := it.Event.Settled; {
	case it.Event.Type == schemas.EventDelta:
		return chat.Delta(it.Seq, it.Event.Data), nil
	case end == nil:
		return nil, nil
	case end.Outcome == schemas.OutcomeSucceeded:
		return chat.Last(s.ref, it.Seq, it.Event.Time, nil), nil
	default:
		refusal, err := s.refusal(ctx, end)
		if err != nil {
			return nil, err
		}
		return chat.Last(s.ref, it.Seq, it.Event.Time, refusal), nil
	}
}

// opening refuses a completion of which nothing came.
func (s *chatStream) opening(ctx context.Context, it *stream.Item) error {
	end := it.Event.Settled
	if end == nil || end.Outcome == schemas.OutcomeSucceeded {
		return nil
	}
	refusal, err := s.refusal(ctx, end)
	if err != nil {
		return err
	}
	return refusal
}

func (s *chatStream) refusal(ctx context.Context, end *schemas.Settled) (*chat.RefusalError, error) {
	doc, release, err := s.room.result(ctx, s.ref.Tenant, end)
	if errors.Is(err, fault.ErrGone) {
		return chat.Lost(end), nil
	}
	if err != nil {
		return nil, err
	}
	defer release()
	_, refusal := chat.Read(end, doc)
	return refusal, nil
}

func (s *chatStream) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, stream.ErrClosed):
		err = errNotAnswered()
	case errors.Is(err, stream.ErrBeyond):
		err = stream.Invalid("the header Last-Event-ID names a position that this completion does not have; send the request without it to read the answer from its beginning")
	}
	if refusal, ok := errors.AsType[*chat.RefusalError](err); ok {
		err = refusal.Write(w)
	}
	if err != nil {
		problem.WriteChat(w, r, err)
	}
}

// errNotAnswered is for whoever waits for a completion on a node that stops. A client of
// the protocol knows no receipt.
func errNotAnswered() error {
	return fault.New(schemas.Unavailable, "this node is stopping, and the completion goes on without an answer here; "+
		"send the request again with its Idempotency-Key, or look for the action that X-Generation-Id names")
}

func (s *chatStream) cut() []byte {
	return chat.Cut(s.ref, s.room.cfg.Now(), "the stream ends here before the completion does; "+
		"send the request again with its Idempotency-Key and the last event id as Last-Event-ID, or read the action's events")
}

// completed answers with a completion's end.
func completed(w http.ResponseWriter, r *http.Request, s *schemas.Settled, doc json.RawMessage) {
	if err := chat.Answer(w, s, doc); err != nil {
		problem.WriteChat(w, r, err)
	}
}
