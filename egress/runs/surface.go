package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"weir/egress"
	"weir/egress/executor"
	"weir/egress/plans"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/schemas"
)

// Surface answers for kind run.
func Surface() egress.Surface {
	return egress.Surface{Name: "runs", Views: []egress.View{{
		Kind: schemas.KindRun, Render: Render, Payload: egress.Shown(hide),
		Fail: func(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, err error) {
			id, _ := schemas.Generation(ref.ID)
			problem.WriteRun(w, id, err)
		},
	}}}
}

func hide(r *redact.Redactor, run *schemas.Run) {
	if run.Call != nil {
		executor.Hide(r, run.Call)
	}
	if run.Plan != nil {
		plans.Hide(r, run.Plan)
	}
}

// Answerer answers for runs with their events.
type Answerer struct{ server *egress.Server }

// NewAnswerer returns an Answerer by a server.
func NewAnswerer(s *egress.Server) Answerer { return Answerer{s} }

// Stream answers for a run with its events in the run contract's dialect, from
// behind a position until the run has ended. Where everything
// was given before, the answer is 204. A client that goes away changes nothing: the
// run goes on, and its stream can be resumed here, on any node, or as the action's
// events.
func (a Answerer) Stream(w http.ResponseWriter, r *http.Request, ref schemas.Ref, taskType string, after uint64) {
	callers, _ := schemas.Generation(ref.ID)
	run := &frames{server: a.server, run: Stream{Ref: ref, TaskType: taskType}, suffix: Suffix(ref)}
	a.server.Feed().AnswerAs(w, r, stream.Dialect{
		Ref: ref, After: after, Frame: run.frame,
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) { problem.WriteRun(w, callers, err) },
	})
}

// frames renders the events of one run.
type frames struct {
	server *egress.Server
	run    Stream
	suffix string // of the events' ids
}

// frame renders an event. A result that lies aside is fetched: the last event has
// the outputs, whatever their size.
func (f *frames) frame(ctx context.Context, it *stream.Item) ([]byte, error) {
	var doc json.RawMessage
	if end := it.Event.Settled; end != nil {
		var release func()
		var err error
		doc, release, err = f.server.Document(ctx, it.Ref.Tenant, end)
		if errors.Is(err, fault.ErrGone) {
			return f.framed(it.Seq, f.run.Lost()), nil
		}
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return f.framed(it.Seq, f.run.Event(it.Event, doc)), nil
}

func (f *frames) framed(seq uint64, ev Event) []byte {
	if ev.Name == "" {
		return nil
	}
	data := []byte(ev.Data)
	if !utf8.Valid(data) { // nor may a stream be anything else
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return stream.AppendFrame(make([]byte, 0, len(data)+64), seq, f.suffix, ev.Name, data)
}

// Resume reads Last-Event-ID as the place in a run's stream that it names; without one it is
// the zero place.
func Resume(r *http.Request) (schemas.RunPosition, error) {
	after, _, err := stream.EventID(r, parsePosition)
	return after, err
}

// parsePosition reads the id of an event.
func parsePosition(id string) (p schemas.RunPosition, ok bool) {
	at, generation := schemas.Generation(id)
	seq, ok := stream.Position(at)
	return schemas.RunPosition{Seq: seq, Generation: generation}, ok
}

// Suffix is appended to a position to make an event's id. Positions of two actions of one
// request are not comparable, so the event ids of a successor name its generation.
func Suffix(ref schemas.Ref) string {
	if _, n := schemas.Generation(ref.ID); n > 1 {
		return schemas.Successor("", n)
	}
	return ""
}
