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
	const ok = "answer 200 with an object such as {\"status\":\"ok\"}"
	return []rule{
		demand("reach", "", "the service answers at all",
			"start it, and name the address it listens on", func(s *seen) string { return s.health.none }),
		demand("health.status", "reach", "GET /health answers 200",
			ok, func(s *seen) string { return s.health.failed(s.health.doc) }).
			answeredBy(func(s *seen) (head, document) { return s.health.head, s.health.doc }),
		demand("health.body", "health.status", "its body is an object with a string status",
			ok, func(s *seen) string { return s.health.noStatus() }),
		demand("ready.status", "reach", "GET /health/ready answers 200",
			ok, func(s *seen) string { return s.ready.failed(s.ready.doc) }).
			answeredBy(func(s *seen) (head, document) { return s.ready.head, s.ready.doc }),
		demand("ready.body", "ready.status", "its body is an object with a string status",
			ok, func(s *seen) string { return s.ready.noStatus() }),
	}
}

func syncRules() []rule {
	return []rule{
		demand("sync.status", "reach", "POST "+schemas.RouteRunSync+" answers 200",
			"serve this route; answer an accepted run with 200, whatever its result",
			func(s *seen) string { return s.sync.failed(s.sync.doc) }).
			answeredBy(func(s *seen) (head, document) { return s.sync.head, s.sync.doc }),
		demand("sync.type", "sync.status", "its content type is application/json",
			"send Content-Type: application/json and no Content-Encoding",
			func(s *seen) string { return s.sync.notType("application/json") }),
		demand("sync.body", "sync.status", "its body is one JSON object",
			"send one whole object in UTF-8", func(s *seen) string { return s.sync.notDoc }),
		demand("sync.request_id", "sync.body", "request_id is the request's",
			"repeat request_id as it came", func(s *seen) string { return s.sync.doc.notText("request_id", s.syncID) }),
		demand("sync.success", "sync.body", "it says that the run succeeded",
			successHint, func(s *seen) string { return s.sync.doc.notSuccess("ok") }).
			answeredBy(func(s *seen) (head, document) { return s.sync.head, s.sync.doc }),
		demand("sync.error", "sync.success", "a success has no error",
			"leave error out of an answer that is ok", func(s *seen) string { return s.sync.doc.errorBeside() }),
		demand("sync.outputs", "sync.body", "outputs is an object",
			"send outputs, empty if there are none: {}", func(s *seen) string { return s.sync.doc.notOutputs("outputs") }),
		demand("sync.members", "sync.body", "what is optional is absent or of its kind, never null",
			membersHint, func(s *seen) string { return s.sync.doc.oddMember() }),
		demand("sync.word", "sync.success", "the status is ok",
			"some callers know no other word",
			func(s *seen) string { return s.sync.doc.notText("status", schemas.RunOK) }).advised(),
	}
}

func streamRules() []rule {
	return []rule{
		demand("stream.status", "reach", "POST "+schemas.RouteRunStream+" answers 200",
			"serve this route; answer an accepted run with 200, whatever its result",
			func(s *seen) string { return s.stream.failed(s.stream.refusal) }).
			answeredBy(func(s *seen) (head, document) { return s.stream.head, s.stream.refusal }),
		demand("stream.type", "stream.status", "its content type is text/event-stream",
			"send Content-Type: text/event-stream and no Content-Encoding",
			func(s *seen) string { return s.stream.notType("text/event-stream") }),
		demand("stream.first", "stream.status", "the first event comes in time",
			"send started as soon as the run is taken, and flush it", func(s *seen) string { return s.stream.noEvent() }),
		demand("stream.utf8", "stream.first", "all of it is UTF-8",
			"encode it so", func(s *seen) string { return s.stream.notUTF8 }),
		demand("stream.framing", "stream.first", "each line is a field, a comment or empty",
			"begin each line of an event's data with data:", func(s *seen) string { return s.stream.notField }),
		demand("stream.names", "stream.first", "each event is named by an event line",
			"send event: NAME ahead of data:", func(s *seen) string { return s.stream.unnamed }),
		demand("stream.data", "stream.first", "the data of each event is JSON",
			"send a text as a JSON string", func(s *seen) string { return s.stream.notJSON }),
		demand("stream.blank", "stream.first", "a blank line ends the last event",
			"send an empty line after every event: without it the last one is lost",
			func(s *seen) string { return found(s.stream.open, "the stream closed inside an event") }),
	}
}

func eventRules() []rule {
	return []rule{
		demand("start.name", "stream.first", "the first event is started",
			"begin with event: started", func(s *seen) string {
				return found(s.stream.first.word != schemas.RunEventStarted, "it is "+quote(s.stream.first.word))
			}),
		demand("start.request_id", "start.name", "its request_id is the request's",
			"repeat request_id as it came", func(s *seen) string { return s.stream.first.doc.notText("request_id", s.streamID) }),
		demand("start.task_type", "start.name", "its task_type is the request's",
			"repeat task_type as it came",
			func(s *seen) string { return s.stream.first.doc.notText("task_type", s.task) }).advised(),
		demand("stream.terminal", "stream.first", "there is a terminal event: complete, final or done",
			"end every stream with one, also where the run failed", func(s *seen) string { return s.stream.noEnd() }),
		demand("stream.single", "stream.terminal", "there is exactly one",
			"send one terminal event with every field",
			func(s *seen) string { return found(s.stream.ends > 1, fmt.Sprintf("there are %d", s.stream.ends)) }),
		demand("stream.last", "stream.terminal", "it is the last event",
			"send nothing after it", func(s *seen) string {
				return found(!s.stream.last.terminal(), "the last event is "+quote(s.stream.last.word))
			}),
		demand("stream.close", "stream.terminal", "the stream closes after it",
			"close the answer, in order, once it is sent", func(s *seen) string { return s.stream.stopped }),
	}
}

func endRules() []rule {
	return []rule{
		demand("end.request_id", "stream.terminal", "the terminal event's request_id is the request's",
			"repeat request_id as it came", func(s *seen) string { return s.stream.end.doc.notText("request_id", s.streamID) }),
		demand("end.task_type", "stream.terminal", "its task_type is the request's",
			"repeat task_type as it came", func(s *seen) string { return s.stream.end.doc.notText("task_type", s.task) }),
		demand("end.status", "stream.terminal", "its status is a string",
			"send \"status\":\"ok\", also beside success", func(s *seen) string { return s.stream.end.doc.noText("status") }),
		demand("end.success", "stream.terminal", "it says that the run succeeded",
			successHint, func(s *seen) string { return s.stream.end.doc.notSuccess("ok", "success") }).
			answeredBy(func(s *seen) (head, document) { return s.stream.head, s.stream.end.doc }),
		demand("end.error", "end.success", "a success has no error",
			"leave error out of an end that is ok", func(s *seen) string { return s.stream.end.doc.errorBeside() }),
		demand("end.outputs", "stream.terminal", "its outputs, or data, is an object",
			"send outputs, empty if there are none: {}",
			func(s *seen) string { return s.stream.end.doc.notOutputs("outputs", "data") }),
		demand("end.members", "stream.terminal", "what is optional is absent or of its kind, never null",
			membersHint, func(s *seen) string { return s.stream.end.doc.oddMember() }),
		demand("end.word", "end.status end.success", "its status is ok",
			"some callers know no other word",
			func(s *seen) string { return s.stream.end.doc.notText("status", schemas.RunOK) }).advised(),
	}
}

func refusalRules() []rule {
	return []rule{
		demand("unknown.status", "sync.status", "a task type that it has not is refused with 4xx",
			"answer 400", func(s *seen) string { return s.unknown.not4xx() }),
		demand("unknown.body", "unknown.status", "the refusal has the contract's shape",
			"answer with request_id, \"ok\":false, \"status\":\"error\", \"outputs\":{}, warnings and error",
			func(s *seen) string { return s.unknown.notRefusal() }),
		demand("unknown.request_id", "unknown.body", "its request_id is the request's",
			"repeat request_id as it came", func(s *seen) string { return s.unknown.doc.notText("request_id", s.unknownID) }),
		demand("malformed.status", "sync.status", "a request without request_id is refused with 4xx",
			"answer 422", func(s *seen) string { return s.malformed.not4xx() }),
	}
}
