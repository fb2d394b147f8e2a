package chat

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/wire"
	"weir/schemas"
)

// showResponse answers with a response in its state, or with its stream. include has no effect: the
// request that made the response has decided it.
func (a Answerer) showResponse(c *gin.Context) error {
	who, err := a.server.Sender(c.Request)
	if err != nil {
		return err
	}
	p := stream.NewParams(c.Request.URL.Query(), "stream", "starting_after", "include", "include[]", "include_obfuscation")
	streamed, after := p.Bool("stream"), int64(-1) // none of its events is left out
	if text, ok := p.One("starting_after"); ok {
		n, err := strconv.ParseUint(text, 10, 62)
		if after = int64(n); err != nil {
			p.Refuse("starting_after", "must be the sequence_number of an event")
		} else if !streamed {
			p.Refuse("starting_after", "is of a stream; add stream=true, or leave it out")
		}
	}
	if p.Err != nil {
		return p.Err
	}
	s, err := a.find(c.Request.Context(), who, c.Param("id"))
	if err != nil {
		return err
	}
	if streamed {
		return a.resume(c, s, after)
	}
	return a.show(c.Writer, c.Request, s)
}

// stored is an action of kind chat as the log has it, and its order without the body.
type stored struct {
	*ledger.State

	order *schemas.ChatOrder
}

// find returns a response that the sender may read: as a reader of the tenant's actions, as their
// principal, or by a token of the task that it belongs to, see egress.Reader.Reads.
func (a Answerer) find(ctx context.Context, who egress.Reader, id string) (stored, error) {
	action, ok := schemas.ResponseAction(id)
	if !ok || !schemas.ValidActionID(action) {
		return stored{}, errNoResponse()
	}
	st, err := a.server.Actions().Find(ctx, who.Tenant, action)
	if errors.Is(err, fault.ErrNotFound) || err == nil && (st.Kind != schemas.KindChat || !mayRead(who, st.Action)) {
		return stored{}, errNoResponse()
	}
	if err != nil {
		return stored{}, dropped(err)
	}
	s, err := a.ordered(ctx, st)
	switch {
	case err != nil:
		return stored{}, dropped(err)
	case s.order.Dialect != schemas.DialectResponses:
		return stored{}, errNoResponse()
	}
	return s, nil
}

func mayRead(who egress.Reader, of schemas.Action) bool {
	switch {
	case who.Task != "":
		return who.Reads(of)
	case schemas.Grants(who.Scopes, schemas.ScopeActionsRead):
		return true
	default:
		return who.ID != "" && who.ID == of.Principal
	}
}

// ordered reads the order of an action that may be shown.
func (a Answerer) ordered(ctx context.Context, st *ledger.State) (stored, error) {
	if err := a.server.Durable(ctx, st.Ref, st.Seq); err != nil {
		return stored{}, err
	}
	payload, release, err := a.server.Payload(ctx, &st.Action)
	if err != nil {
		return stored{}, err
	}
	defer release()
	s := stored{st, &schemas.ChatOrder{}}
	err = json.Unmarshal(payload, s.order)
	s.order.Body = nil
	return s, err
}

func errNoResponse() error {
	return fault.New(schemas.NotFound, "there is no response of this id that this token may read; look for the id, resp_ and the action's, in the answer that made it")
}

// dropped is err, or if the log has dropped the record, the 404 that says so.
func dropped(err error) error {
	if errors.Is(err, fault.ErrGone) {
		return fault.New(schemas.NotFound, "this response was dropped at the end of its retention; send its request again")
	}
	return err
}

// respondWait is how long Respond waits for the end of a response that is being stopped.
const respondWait = 5 * time.Second

// Respond answers for a response that was asked to stop: with its end, or with its state if the end
// takes longer.
func (a Answerer) Respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref) {
	a.respond(w, r, ref, respondWait)
}

// respond answers with a response in its state, after at most wait for its end.
func (a Answerer) respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, wait time.Duration) {
	ctx := r.Context()
	if wait > 0 {
		until, stop := context.WithTimeout(ctx, wait)
		defer stop()
		_, _, _ = a.server.Feed().Await(until, ref, false, false) // without an end, the state says so
	}
	st, err := a.server.Actions().Load(ctx, ref)
	var s stored
	if err == nil {
		s, err = a.ordered(ctx, st)
	}
	if err == nil {
		err = a.show(w, r, s)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		wire.Drop(ctx)
	case err != nil:
		problem.WriteChat(w, r, schemas.DialectResponses, dropped(err))
	}
}

// show answers with a response: the provider's document if it succeeded, otherwise Weir's own.
func (a Answerer) show(w http.ResponseWriter, r *http.Request, s stored) error {
	h := w.Header()
	h.Set(schemas.HeaderGeneration, s.ID)
	h.Set("Weir-Action-Id", s.ID)
	end := s.Settled
	if end == nil {
		status := schemas.ResponseQueued
		if s.Started {
			status = schemas.ResponseInProgress
		}
		stream.WriteJSON(w, r, http.StatusOK, responseOf(s.Ref, s.order, status, s.Action.AcceptedAt))
		return nil
	}
	doc, release, err := a.server.Document(r.Context(), s.Tenant, end)
	if err != nil {
		return dropped(err)
	}
	defer release()
	whole, refusal := Read(end, doc)
	if refusal == nil {
		stream.WriteBody(w, http.StatusOK, "application/json", whole)
		return nil
	}
	stream.WriteJSON(w, r, http.StatusOK, refusal.response(s.Ref, s.order, s.Action.AcceptedAt))
	return nil
}

// resume answers with the stream of a response, after the event with a sequence number.
func (a Answerer) resume(c *gin.Context, s stored, after int64) error {
	if !s.order.Stream {
		return stream.Invalid("this response was made without a stream; leave the parameter stream out, and read it as a document")
	}
	c.Writer.Header().Set(schemas.HeaderGeneration, s.ID)
	d := a.stream(&frames{server: a.server, ref: s.Ref, order: s.order})
	d.After = s.Events[0].Seq - 1
	if after >= 0 {
		d.Pick = startingAfter(after)
	}
	a.server.Feed().AnswerAs(c.Writer, c.Request, d)
	return nil
}
