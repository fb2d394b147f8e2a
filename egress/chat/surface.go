package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/schemas"
)

// Config of the surface.
type Config struct {
	// Models are the models in force; nil: completions are not served.
	Models func() *models.Set
	// Lists returns an upstream's own list of models; nil: there are none.
	Lists func(up schemas.ModelUpstream) []schemas.ListedModel
	// Budgets are the accounts of budgets; nil: they are not served.
	Budgets Budgets
}

// hold is how long the beginning of a streamed completion is held back for its
// first chunk, so that an error in its place gets a status of its own.
const hold = 10 * time.Second

// Answerer answers for completions.
type Answerer struct {
	server *egress.Server
	cfg    Config
}

// NewAnswerer returns an Answerer by a server.
func NewAnswerer(s *egress.Server, cfg Config) Answerer { return Answerer{s, cfg} }

// Surfaces answer for kind chat, and show responses, the models and the accounts of budgets.
func (a Answerer) Surfaces() []egress.Surface {
	responses := func(*http.Request) schemas.Dialect { return schemas.DialectResponses }
	return []egress.Surface{{
		Name: "chat", Absent: a.cfg.Models == nil, Views: []egress.View{view(schemas.DialectChat)},
		Routes: egress.Routes(
			shown(schemas.RouteModels, protocol, a.models(a.listModels)), shown(schemas.RouteModels+"/*id", protocol, a.models(a.showModel)),
			shown(schemas.RouteResponses+"/:id", responses, a.showResponse),
		),
	}, {Name: "budgets", Routes: a.budgets(), Absent: a.cfg.Budgets == nil}}
}

// view is how the answers of a dialect leave that are no stream.
func view(d schemas.Dialect) egress.View {
	return egress.View{
		Kind: schemas.KindChat, Stopping: errNotAnswered(),
		Answer: func(w http.ResponseWriter, _ *http.Request, _ schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
			return Answer(w, d, s, doc)
		},
		Fail: func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, err error) {
			problem.WriteChat(w, r, d, err)
		},
	}
}

// Resume is the place that Last-Event-ID names; the zero place without one.
func Resume(r *http.Request) (schemas.ChatPosition, error) {
	after, _, err := stream.EventID(r, ParsePosition)
	return after, err
}

// Answer answers for an action of kind chat by its order, whose body it does not read: as a stream of
// its chunks from a place to its end, or as a whole, with wait as in egress.Server.Reply. A stream
// starts with its first chunk, so that earlier errors get their own status. A response in the background
// that is no stream is answered at once, by its state. left is called at most once, if the client leaves before the end
// and this node has no other reader of the action. It runs on the goroutine of the request, after
// the end of its context; nil: no callback.
func (a Answerer) Answer(
	w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt,
	order *schemas.ChatOrder, after schemas.ChatPosition, wait time.Duration, left func(),
) {
	if order.Background {
		left = nil
	}
	w.Header().Set(schemas.HeaderGeneration, ref.ID)
	switch {
	case order.Stream:
	case order.Background:
		a.respond(w, r, ref, 0)
		return
	default:
		a.server.ReplyAs(w, r, view(order.Dialect), ref, receipt, wait, left)
		return
	}
	f := &frames{server: a.server, ref: ref, order: order}
	d := a.stream(f)
	d.After, d.Part, d.Hold, d.OnAbandon = after.Seq, after.Chunk, hold, left
	if after.Chunk > 0 { // of that event there is more
		d.After--
	}
	if after.Seq == 0 || !receipt.Duplicate { // the client has seen nothing of it
		d.Opening = f.opening
	}
	a.server.Feed().AnswerAs(w, r, d)
}

// stream is the stream of an action from its beginning.
func (a Answerer) stream(f *frames) stream.Dialect {
	return stream.Dialect{
		Ref: f.ref, Frame: f.frame, Refuse: f.refuse,
		Answer: true, Ended: Ended(f.order.Dialect), Interrupted: f.end,
	}
}

// frames renders the events of one action.
type frames struct {
	server *egress.Server
	ref    schemas.Ref
	order  *schemas.ChatOrder
}

// frame renders an event. The end of what succeeded says nothing but that: its chunks
// were the answer.
func (f *frames) frame(ctx context.Context, it *stream.Item) ([]byte, error) {
	switch end := it.Event.Settled; {
	case it.Event.Type == schemas.EventDelta:
		return Delta(f.order.Dialect, it.Seq, it.Event.Data), nil
	case end == nil:
		return nil, nil
	case end.Outcome == schemas.OutcomeSucceeded:
		if named(f.order.Dialect) {
			return nil, nil
		}
		return Last(it.Seq, nil), nil
	default:
		refusal, err := f.refusal(ctx, end)
		if err != nil {
			return nil, err
		}
		return f.failed(ctx, it, refusal)
	}
}

// opening refuses a completion of which nothing came.
func (f *frames) opening(ctx context.Context, it *stream.Item) error {
	end := it.Event.Settled
	if end == nil || end.Outcome == schemas.OutcomeSucceeded {
		return nil
	}
	refusal, err := f.refusal(ctx, end)
	if err != nil {
		return err
	}
	return refusal
}

func (f *frames) refusal(ctx context.Context, end *schemas.Settled) (*RefusalError, error) {
	doc, release, err := f.server.Document(ctx, f.ref.Tenant, end)
	switch {
	case errors.Is(err, fault.ErrGone):
		doc = nil // it was dropped
	case err != nil:
		return nil, err
	default:
		defer release()
	}
	_, refusal := Read(end, doc)
	return refusal, nil
}

func (f *frames) refuse(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, stream.ErrClosed):
		err = errNotAnswered()
	case errors.Is(err, stream.ErrBeyond):
		err = stream.Invalid("the header Last-Event-ID names a position that this completion does not have; send the request without it to read the answer from its beginning")
	}
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		err = refusal.Write(w, f.order.Dialect)
	}
	if err != nil {
		problem.WriteChat(w, r, f.order.Dialect, err)
	}
}

// errNotAnswered is for clients that wait for a completion on a stopping node. Clients of the
// protocol do not know receipts.
func errNotAnswered() error {
	return fault.New(schemas.Unavailable, "this node is stopping, and the completion goes on without an answer here; "+
		"send the request again with its Idempotency-Key, or look for the action that X-Generation-Id names")
}
