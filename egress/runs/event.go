package runs

import (
	"encoding/json"

	"weir/internal/ledger"
	"weir/schemas"
)

// Event is one event of a run's stream; its zero value is one that is not shown.
type Event struct {
	Name string
	Data json.RawMessage // on one line
}

// Stream names the run whose events are rendered.
type Stream struct {
	Ref      schemas.Ref
	TaskType string
}

// Event renders an event of the log. An accepted run is shown as started, so that a stream begins
// at once, even if no worker is free; internal worker events are not shown. doc is the result
// document of a terminal event, which is the last event shown.
func (r Stream) Event(ev schemas.Event, doc json.RawMessage) Event {
	switch ev.Type {
	case schemas.EventAccepted:
		return r.event(schemas.RunEventStarted, r.head(schemas.RunEventStarted))
	case schemas.EventProgress:
		data, err := r.progress(ev.Data)
		if err != nil { // it keeps its place
			return r.event(schemas.RunEventProgress, r.head(schemas.RunEventProgress))
		}
		return Event{Name: schemas.RunEventProgress, Data: data}
	case schemas.EventSettled:
		return r.complete(read(r.Ref, ev.Settled, doc))
	default:
		return Event{}
	}
}

// Lost is the terminal event of a run whose result has been dropped.
func (r Stream) Lost() Event {
	const message = "the run has ended, and its result was dropped since"
	return r.complete(end{
		outputs: json.RawMessage(none), fault: because(schemas.TaskFailed, message, reason{Code: schemas.StreamGone}),
	})
}

func (r Stream) complete(e end) Event {
	out := r.head(schemas.RunTypeFinal)
	out.Status, out.Success, out.Outputs, out.RunExtras, out.Error = e.status(), &e.ok, e.outputs, e.extras, e.fault
	return r.event(schemas.RunEventComplete, out)
}

func (r Stream) head(kind string) schemas.RunEvent {
	return schemas.RunEvent{Type: kind, RequestID: callers(r.Ref), TaskType: r.TaskType}
}

func (Stream) event(name string, data schemas.RunEvent) Event {
	line, _ := ledger.Encode(data) // raw parts were parsed before: cannot fail
	return Event{Name: name, Data: line}
}
