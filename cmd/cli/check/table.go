package check

import (
	"fmt"

	"weir/schemas"
)

const (
	successHint = "send \"status\":\"ok\" for a run that succeeded, and an error with a code for one that did not"
	membersHint = "leave out what there is none of: null is no list and no object"
)

func healthRules() []rule {
	const demand = "answer 200 with an object such as {\"status\":\"ok\"}"
	return []rule{
		{
			id: "reach", what: "the service answers at all",
			hint:   "start it, and name the address it listens on",
			broken: func(s *seen) string { return s.health.none },
		},
		{
			id: "health.status", what: "GET /health answers 200",
			told:   func(s *seen) (head, document) { return s.health.head, s.health.doc },
			needs:  []string{"reach"},
			hint:   demand,
			broken: func(s *seen) string { return s.health.not200() },
		},
		{
			id: "health.body", what: "its body is an object with a string status",
			needs:  []string{"health.status"},
			hint:   demand,
			broken: func(s *seen) string { return s.health.noStatus() },
		},
		{
			id: "ready.status", what: "GET /health/ready answers 200",
			told:   func(s *seen) (head, document) { return s.ready.head, s.ready.doc },
			needs:  []string{"reach"},
			hint:   demand,
			broken: func(s *seen) string { return s.ready.not200() },
		},
		{
			id: "ready.body", what: "its body is an object with a string status",
			needs:  []string{"ready.status"},
			hint:   demand,
			broken: func(s *seen) string { return s.ready.noStatus() },
		},
	}
}

func syncRules() []rule {
	doc := []string{"sync.body"}
	return []rule{
		{
			id: "sync.status", what: "POST " + schemas.RouteRunSync + " answers 200",
			told:   func(s *seen) (head, document) { return s.sync.head, s.sync.doc },
			needs:  []string{"reach"},
			hint:   "serve this route; a run that was taken is answered with 200, whatever came of it",
			broken: func(s *seen) string { return s.sync.not200() },
		},
		{
			id: "sync.type", what: "its content type is application/json",
			needs:  []string{"sync.status"},
			hint:   "send Content-Type: application/json and no Content-Encoding",
			broken: func(s *seen) string { return s.sync.notType("application/json") },
		},
		{
			id: "sync.body", what: "its body is one JSON object",
			needs:  []string{"sync.status"},
			hint:   "send one whole object in UTF-8",
			broken: func(s *seen) string { return s.sync.notDoc },
		},
		{
			id: "sync.request_id", what: "request_id is the request's",
			needs:  doc,
			hint:   "repeat request_id as it came",
			broken: func(s *seen) string { return s.sync.doc.notText("request_id", s.syncID) },
		},
		{
			id: "sync.success", what: "it says that the run succeeded",
			told:   func(s *seen) (head, document) { return s.sync.head, s.sync.doc },
			needs:  doc,
			hint:   successHint,
			broken: func(s *seen) string { return s.sync.doc.notSuccess("ok") },
		},
		{
			id: "sync.error", what: "no error stands beside a success",
			needs:  []string{"sync.success"},
			hint:   "leave error out of an answer that is ok",
			broken: func(s *seen) string { return s.sync.doc.errorBeside() },
		},
		{
			id: "sync.outputs", what: "outputs is an object",
			needs:  doc,
			hint:   "send outputs, empty if there are none: {}",
			broken: func(s *seen) string { return s.sync.doc.notOutputs("outputs") },
		},
		{
			id: "sync.members", what: "what is optional is absent or of its kind, never null",
			needs:  doc,
			hint:   membersHint,
			broken: func(s *seen) string { return s.sync.doc.oddMember() },
		},
		{
			id: "sync.word", what: "the status is the word ok",
			needs: []string{"sync.success"}, advice: true,
			hint:   "some callers know no other word",
			broken: func(s *seen) string { return s.sync.doc.notText("status", schemas.RunOK) },
		},
	}
}

func streamRules() []rule {
	opened, begun := []string{"stream.status"}, []string{"stream.first"}
	return []rule{
		{
			id: "stream.status", what: "POST " + schemas.RouteRunStream + " answers 200",
			told:   func(s *seen) (head, document) { return s.stream.head, s.stream.refusal },
			needs:  []string{"reach"},
			hint:   "serve this route; a run that was taken is answered with 200, whatever comes of it",
			broken: func(s *seen) string { return s.stream.not200() },
		},
		{
			id: "stream.type", what: "its content type is text/event-stream",
			needs:  opened,
			hint:   "send Content-Type: text/event-stream and no Content-Encoding",
			broken: func(s *seen) string { return s.stream.notType("text/event-stream") },
		},
		{
			id: "stream.first", what: "the first event comes in time",
			needs:  opened,
			hint:   "send started as soon as the run is taken, and flush it",
			broken: func(s *seen) string { return s.stream.noEvent() },
		},
		{
			id: "stream.utf8", what: "all of it is UTF-8",
			needs:  begun,
			hint:   "encode it so",
			broken: func(s *seen) string { return s.stream.notUTF8 },
		},
		{
			id: "stream.framing", what: "each line is a field, a comment or empty",
			needs:  begun,
			hint:   "begin each line of an event's data with data:",
			broken: func(s *seen) string { return s.stream.notField },
		},
		{
			id: "stream.names", what: "each event is named by an event line",
			needs:  begun,
			hint:   "send event: NAME ahead of data:",
			broken: func(s *seen) string { return s.stream.unnamed },
		},
		{
			id: "stream.data", what: "the data of each event is JSON",
			needs:  begun,
			hint:   "send a text as a JSON string",
			broken: func(s *seen) string { return s.stream.notJSON },
		},
		{
			id: "stream.blank", what: "a blank line ends the last event",
			needs: begun,
			hint:  "send an empty line after every event: without it the last one is lost",
			broken: func(s *seen) string {
				if s.stream.open {
					return "the stream closed inside an event"
				}
				return ""
			},
		},
	}
}

func eventRules() []rule {
	ended := []string{"stream.terminal"}
	return []rule{
		{
			id: "start.name", what: "the first event is started",
			needs: []string{"stream.first"},
			hint:  "begin with event: started",
			broken: func(s *seen) string {
				if word := s.stream.first.word; word != schemas.RunEventStarted {
					return "it is " + quote(word)
				}
				return ""
			},
		},
		{
			id: "start.request_id", what: "its request_id is the request's",
			needs: []string{"start.name"},
			hint:  "repeat request_id as it came",
			broken: func(s *seen) string {
				return s.stream.first.doc.notText("request_id", s.streamID)
			},
		},
		{
			id: "start.task_type", what: "its task_type is the request's",
			needs: []string{"start.name"}, advice: true,
			hint: "repeat task_type as it came",
			broken: func(s *seen) string {
				return s.stream.first.doc.notText("task_type", s.task)
			},
		},
		{
			id: "stream.terminal", what: "there is a terminal event: complete, final or done",
			needs:  []string{"stream.first"},
			hint:   "end every stream with one, also where the run failed",
			broken: func(s *seen) string { return s.stream.noEnd() },
		},
		{
			id: "stream.single", what: "there is exactly one",
			needs: ended,
			hint:  "send one terminal event with every field",
			broken: func(s *seen) string {
				if s.stream.ends > 1 {
					return fmt.Sprintf("there are %d", s.stream.ends)
				}
				return ""
			},
		},
		{
			id: "stream.last", what: "it is the last event",
			needs: ended,
			hint:  "send nothing after it",
			broken: func(s *seen) string {
				if !s.stream.last.terminal() {
					return "the last event is " + quote(s.stream.last.word)
				}
				return ""
			},
		},
		{
			id: "stream.close", what: "the stream closes after it",
			needs:  ended,
			hint:   "close the answer, in order, once it is sent",
			broken: func(s *seen) string { return s.stream.stopped },
		},
	}
}
