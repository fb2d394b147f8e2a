package check

import "weir/schemas"

func endRules() []rule {
	ended := []string{"stream.terminal"}
	return []rule{
		{
			id: "end.request_id", what: "the terminal event's request_id is the request's",
			needs:  ended,
			hint:   "repeat request_id as it came",
			broken: func(s *seen) string { return s.stream.end.doc.notText("request_id", s.streamID) },
		},
		{
			id: "end.task_type", what: "its task_type is the request's",
			needs:  ended,
			hint:   "repeat task_type as it came",
			broken: func(s *seen) string { return s.stream.end.doc.notText("task_type", s.task) },
		},
		{
			id: "end.status", what: "its status is a string",
			needs:  ended,
			hint:   "send \"status\":\"ok\", also beside success",
			broken: func(s *seen) string { return s.stream.end.doc.noText("status") },
		},
		{
			id: "end.success", what: "it says that the run succeeded",
			told:   func(s *seen) (head, document) { return s.stream.head, s.stream.end.doc },
			needs:  ended,
			hint:   successHint,
			broken: func(s *seen) string { return s.stream.end.doc.notSuccess("ok", "success") },
		},
		{
			id: "end.error", what: "no error stands beside a success",
			needs:  []string{"end.success"},
			hint:   "leave error out of an end that is ok",
			broken: func(s *seen) string { return s.stream.end.doc.errorBeside() },
		},
		{
			id: "end.outputs", what: "its outputs, or data, is an object",
			needs:  ended,
			hint:   "send outputs, empty if there are none: {}",
			broken: func(s *seen) string { return s.stream.end.doc.notOutputs("outputs", "data") },
		},
		{
			id: "end.members", what: "what is optional is absent or of its kind, never null",
			needs:  ended,
			hint:   membersHint,
			broken: func(s *seen) string { return s.stream.end.doc.oddMember() },
		},
		{
			id: "end.word", what: "its status is the word ok",
			needs: []string{"end.status", "end.success"}, advice: true,
			hint:   "some callers know no other word",
			broken: func(s *seen) string { return s.stream.end.doc.notText("status", schemas.RunOK) },
		},
	}
}

func refusalRules() []rule {
	return []rule{
		{
			id: "unknown.status", what: "a task type that it has not is refused with 4xx",
			needs:  []string{"sync.status"},
			hint:   "answer 400",
			broken: func(s *seen) string { return s.unknown.not4xx() },
		},
		{
			id: "unknown.body", what: "the refusal has the contract's shape",
			needs:  []string{"unknown.status"},
			hint:   "answer with request_id, \"ok\":false, \"status\":\"error\", \"outputs\":{}, warnings and error",
			broken: func(s *seen) string { return s.unknown.notRefusal() },
		},
		{
			id: "unknown.request_id", what: "its request_id is the request's",
			needs:  []string{"unknown.body"},
			hint:   "repeat request_id as it came",
			broken: func(s *seen) string { return s.unknown.doc.notText("request_id", s.unknownID) },
		},
		{
			id: "malformed.status", what: "a request without request_id is refused with 4xx",
			needs:  []string{"sync.status"},
			hint:   "answer 422",
			broken: func(s *seen) string { return s.malformed.not4xx() },
		},
	}
}
