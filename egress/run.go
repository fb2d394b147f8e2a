package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"weir/egress/runs"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// Resume is the place that Last-Event-ID names; the zero place without one.
func (e *Room) Resume(r *http.Request) (behind schemas.RunPlace, err error) {
	return runs.Resume(r)
}

// Stream answers for a run with its events in the run contract's dialect, from
// behind a position until the run has ended. Where everything
// was given before, the answer is 204. A client that goes away changes nothing: the
// run goes on, and its stream can be resumed here, on any node, or as the action's
// events.
func (e *Room) Stream(w http.ResponseWriter, r *http.Request, ref schemas.Ref, taskType string, after uint64) {
	callers, _ := schemas.Generation(ref.ID)
	run := &runStream{room: e, words: runs.Stream{Ref: ref, TaskType: taskType}, suffix: runs.Suffix(ref)}
	e.events.AnswerAs(w, r, stream.Dialect{
		Ref: ref, After: after, Plain: true, Frame: run.frame,
		Header: http.Header{"Weir-Action-Id": {ref.ID}},
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) { problem.WriteRun(w, callers, err) },
	})
}

// runStream renders the events of one run.
type runStream struct {
	room   *Room
	words  runs.Stream
	suffix string // of the events' ids
}

// frame renders an event. A result that lies aside is fetched: the last event has
// the outputs, whatever their size.
func (s *runStream) frame(ctx context.Context, it *stream.Item) ([]byte, error) {
	var doc json.RawMessage
	if end := it.Event.Settled; end != nil {
		var release func()
		var err error
		doc, release, err = s.room.result(ctx, it.Ref.Tenant, end)
		if errors.Is(err, fault.ErrGone) {
			return s.framed(it.Seq, s.words.Lost()), nil
		}
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return s.framed(it.Seq, s.words.Event(it.Event, doc)), nil
}

func (s *runStream) framed(seq uint64, ev runs.Event) []byte {
	if ev.Name == "" {
		return nil
	}
	data := []byte(ev.Data)
	if !utf8.Valid(data) { // nor may a stream be anything else
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return stream.AppendSuffixed(make([]byte, 0, len(data)+64), seq, s.suffix, ev.Name, data)
}
