// Package chat renders the answers of models in their dialects: the whole answer, the frames of a
// stream, and errors.
package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"weir/egress/stream"
	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// sequence is the member of the events of DialectResponses by which their streams resume.
const sequence = "sequence_number"

// responseEvent is an event that Weir writes in a stream of DialectResponses.
type responseEvent struct {
	Type     string            `json:"type"`
	Sequence int64             `json:"sequence_number"`
	Response *schemas.Response `json:"response"`
}

// responseOf is the response of an order, made at a time.
func responseOf(ref schemas.Ref, order *schemas.ChatOrder, status string, at time.Time) *schemas.Response {
	v := &schemas.Response{
		ID: schemas.ResponseID(ref.ID), Object: "response", CreatedAt: at.Unix(), Status: status,
		Background: order.Background, Model: order.Model, Output: json.RawMessage(`[]`),
	}
	if order.Previous != "" {
		id := schemas.ResponseID(order.Previous)
		v.PreviousResponseID = &id
	}
	return v
}

// response is the response of an order that ended with a refusal, with the received part.
func (r *RefusalError) response(ref schemas.Ref, order *schemas.ChatOrder, at time.Time) *schemas.Response {
	v := responseOf(ref, order, schemas.ResponseFailed, at)
	if problem := r.problem; problem.Status == schemas.ChatCanceled {
		v.Status = schemas.ResponseCancelled
	}
	said := r.said()
	v.Error = &schemas.ResponseError{Code: said.Code, Message: said.Message}
	own := completion.Parse(r.partial)
	v.CreatedAt = cmp.Or(own.Get("created_at").Int(), v.CreatedAt)
	v.Model = cmp.Or(own.Get("model").Str, r.model, v.Model)
	if output := own.Get("output"); output.IsArray() {
		v.Output = json.RawMessage(output.Raw)
	}
	if usage := own.Get("usage"); usage.IsObject() {
		v.Usage = json.RawMessage(usage.Raw)
	}
	return v
}

// failedResponse ends a stream with response.failed. If no event came before, response.created
// comes first, because clients do not read a stream without it.
func (f *frames) failedResponse(ctx context.Context, it *stream.Item, r *RefusalError) ([]byte, error) {
	next, err := f.next(ctx)
	if err != nil {
		return nil, err
	}
	response := r.response(f.ref, f.order, it.Event.Time)
	var b []byte
	if next == 0 {
		begun := *response
		begun.Status, begun.Error, begun.Output, begun.Usage = schemas.ResponseInProgress, nil, json.RawMessage(`[]`), nil
		b = appendEvent(b, "response.created", schemas.ChatPosition{}, responseEvent{"response.created", 0, &begun})
		next++
	}
	return appendEvent(b, "response.failed", schemas.ChatPosition{Seq: it.Seq}, responseEvent{"response.failed", next, response}), nil
}

// next is the sequence number after the last of a stream's events.
func (f *frames) next(ctx context.Context) (next int64, err error) {
	err = f.server.Actions().Replay(ctx, f.ref, func(ev schemas.Event) error {
		if ev.Type == schemas.EventDelta {
			for _, chunk := range completion.Parse(ev.Data).Get("chunks").All() {
				next = max(next, chunk.Get(sequence).Int()) + 1
			}
		}
		return nil
	})
	if errors.Is(err, fault.ErrGone) { // nor can the client have read the dropped events from here
		err = nil
	}
	return next, err
}

// responseCut is the event error of DialectResponses: its members are the documented ones, and in error
// those that clients look for.
type responseCut struct {
	Type    string              `json:"type"`
	Code    string              `json:"code"`
	Message string              `json:"message"`
	Param   *string             `json:"param"`
	Error   schemas.ChatRefused `json:"error"`
}

func (f *frames) cutResponse(why string) []byte {
	said := refused(schemas.Unavailable, schemas.ChatError{
		Message: why + "; read on with GET /v1" + schemas.RouteResponses + "/" + schemas.ResponseID(f.ref.ID) + "?stream=true&starting_after=N, where N is the last sequence_number that you read",
	}).said()
	return appendEvent(nil, "error", schemas.ChatPosition{}, responseCut{Type: "error", Code: said.Code, Message: said.Message, Error: said})
}

// startingAfter picks the events whose sequence number is over n. The numbers of a stream grow: after
// the first such event, all others are picked unread.
func startingAfter(n int64) func(frame []byte) []byte {
	found := false
	return func(frame []byte) []byte {
		for !found && len(frame) > 0 {
			event, rest, _ := bytes.Cut(frame, []byte("\n\n"))
			_, data, _ := bytes.Cut(event, []byte("\ndata: "))
			if number := completion.Parse(data).Get(sequence); number.Type == gjson.Number && number.Int() > n {
				found = true
				break
			}
			frame = rest
		}
		return frame
	}
}

// Answer writes an answer that is no stream. The same end always gives the same bytes.
func Answer(w http.ResponseWriter, d schemas.Dialect, s *schemas.Settled, doc json.RawMessage) error {
	whole, refusal := Read(s, doc)
	if refusal != nil {
		return refusal.Write(w, d)
	}
	stream.WriteBody(w, http.StatusOK, "application/json", whole)
	return nil
}

// Write answers with a refusal, and with what its limits and its wait are in headers.
func (r *RefusalError) Write(w http.ResponseWriter, d schemas.Dialect) error {
	body, err := ledger.Encode(problem.ChatBody(d, &r.problem, "")) // it does not depend on the request
	if err != nil {
		return err
	}
	e := problem.Of(&r.problem)
	h := w.Header()
	e.SetHeaders(h)
	problem.Limits(h, e.Limits)
	if h.Get("Idempotency-Replayed") != "" { // its key keeps this failure: a repeat would only get it again
		h.Del("Retry-After")
		h.Set("X-Should-Retry", "false")
	}
	stream.WriteBody(w, e.Status, "application/json", body)
	return nil
}
