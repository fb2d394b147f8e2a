package stream

import (
	"time"

	"weir/schemas"
)

// ActionURL is where an action is shown.
func ActionURL(id string) string { return "/v1/actions/" + id }

// EventsURL is where an action's events are streamed.
func EventsURL(id string) string { return ActionURL(id) + "/events" }

// ResolveURL is where a person resolves an unknown outcome.
func ResolveURL(id string) string { return ActionURL(id) + "/resolve" }

// Milliseconds is a duration as the surfaces show it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// public is the owner's view of an event. It copies the public members instead of removing hidden
// ones: payloads, names of stored objects, workers and fingerprints are not in it.
func (it *Item) public() schemas.EventView {
	ev := it.Event
	p := schemas.EventView{
		Seq: it.Seq, N: ev.N, Type: ev.Type, Time: ev.Time,
		Waiting: ev.Waiting, Resolution: ev.Resolution, Superseded: ev.Superseded,
	}
	switch ev.Type {
	case schemas.EventAccepted:
		if a := ev.Action; a != nil {
			p.Action = &schemas.EventViewAction{
				ID: a.ID, Kind: a.Kind, TaskType: a.TaskType, Class: a.Class, Deadline: a.Deadline, Supersedes: a.Supersedes,
			}
		}
	case schemas.EventAttempt:
		if a := ev.Attempt; a != nil {
			p.Attempt = &schemas.EventViewAttempt{
				Step: a.Step, Number: a.Number, Hop: a.Hop, Probe: a.Probe, Class: a.Class,
				Decision: a.Decision, Digest: a.Digest, DerivedKey: a.DerivedKey, ExpiresAt: a.ExpiresAt,
			}
		}
	case schemas.EventAttempted:
		p.Attempted = attempted(ev)
	case schemas.EventSettled:
		p.Attempted, p.Settled = attempted(ev), it.settled()
	case schemas.EventProgress:
		p.Data = ev.Data
	case schemas.EventDelta:
		p.Data = it.cfg.Part(it.Ref, ev.Data)
	case schemas.EventSignal, schemas.EventStatus:
		if t := ev.Task; t != nil {
			p.Task = &schemas.EventViewTask{
				What: t.What, Status: t.Status, Lease: t.Lease, Holder: t.Holder, Base: t.Base, Head: t.Head, Push: t.Push, Inquiry: t.Inquiry, Report: t.Report,
			}
		}
	case schemas.EventStarted, schemas.EventWaiting, schemas.EventCancel, schemas.EventResolution, schemas.EventSuperseded:
	}
	return p
}

// attempted is the result of an attempt that an event has; nil: it has none.
func attempted(ev schemas.Event) *schemas.EventViewAttempted {
	a := ev.Attempted
	if a == nil {
		return nil
	}
	v := &schemas.EventViewAttempted{
		Step: a.Step, Number: a.Number, Hop: a.Hop, Probe: a.Probe, Effect: a.Effect, Code: a.Code, Sent: a.Sent,
		Status: a.Status, DurationMS: Milliseconds(a.Duration), RetryAt: a.RetryAt,
	}
	if declared := ev.Attempt; declared != nil { // only here, so no event before this one has it
		v.Traffic = declared.Decision.Traffic
	}
	return v
}

func (it *Item) settled() *schemas.EventViewSettled {
	s := it.Event.Settled
	p := &schemas.EventViewSettled{Outcome: s.Outcome, Code: s.Code, Message: s.Message, Attempts: s.Attempts}
	if s.Outcome == schemas.OutcomeUnknown {
		p.ResolveURL = ResolveURL(it.Ref.ID)
	}
	if s.ResultBlob != "" || s.AnswerBlob != "" {
		p.ResultURL = ActionURL(it.Ref.ID)
	} else {
		p.Result = it.cfg.Result(it.Ref, s, s.Result)
	}
	return p
}
