package agent

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// onSync changes the synchronous answer alone, and onStream the stream.
func onSync(change func(p *plan)) func(*plan) {
	return func(p *plan) {
		if !p.streaming() {
			change(p)
		}
	}
}

func onStream(change func(p *plan)) func(*plan) {
	return func(p *plan) {
		if p.streaming() {
			change(p)
		}
	}
}

// faults is what each fault changes of a correct answer. Those of the health routes and of refusals
// change no run.
func faults() map[Fault]func(*plan) {
	last := func(p *plan) *frame { return &p.frames[len(p.frames)-1] }
	said := schemas.RunError{Code: "TASK_FAILED", Message: "the agent gave up", Details: json.RawMessage(`{"stage":3}`)}
	beside := schemas.RunError{Code: "TASK_FAILED", Message: "beside"}
	failed := func(err any) func(map[string]any) {
		return func(doc map[string]any) {
			doc["status"], doc["outputs"], doc["error"] = schemas.RunFault, map[string]any{}, err
			if _, ok := doc["success"]; ok {
				doc["success"] = false
			}
		}
	}
	again := func(change func(map[string]any)) func(*plan) {
		return func(p *plan) {
			doc := maps.Clone(p.final())
			change(doc)
			p.add(frame{name: "complete", data: doc})
		}
	}
	return map[Fault]func(*plan){
		HealthStatus: nil, HealthBody: nil, ReadyStatus: nil, ReadyBody: nil,
		UnknownAccepted: nil, UnknownStatus: nil, UnknownShape: nil, UnknownOtherID: nil, MalformedAccepted: nil,

		SyncStatus:       onSync(func(p *plan) { p.status = http.StatusCreated }),
		SyncType:         onSync(func(p *plan) { p.header["Content-Type"] = "text/plain" }),
		SyncNotJSON:      onSync(func(p *plan) { p.text = `{"status":"ok",` }),
		SyncNoID:         func(p *plan) { delete(p.sync, "request_id") },
		SyncOtherID:      func(p *plan) { p.sync["request_id"] = "another" },
		SyncNoOutputs:    func(p *plan) { delete(p.sync, "outputs") },
		SyncOutputsList:  func(p *plan) { p.sync["outputs"] = []int{1} },
		SyncNoSuccess:    func(p *plan) { delete(p.sync, "status") },
		SyncNulls:        func(p *plan) { p.sync["error"], p.sync["grounding"] = nil, nil },
		SyncOddArtifacts: func(p *plan) { p.sync["artifacts"] = []any{"a", 1} },
		SyncErrorBeside:  func(p *plan) { p.sync["error"] = beside },

		StreamStatus:   onStream(func(p *plan) { p.status = http.StatusCreated }),
		StreamType:     onStream(func(p *plan) { p.header["Content-Type"] = "text/plain" }),
		StreamNotUTF8:  func(p *plan) { last(p).before = ": \xff\n" },
		StreamBareLine: func(p *plan) { last(p).before = "no field at all\n" },
		StreamNotJSON:  func(p *plan) { p.insert(1, frame{name: "progress", raw: "half way there"}) },
		StreamSilent:   onStream(func(p *plan) { p.frames, p.after = nil, silent }),
		StreamNoStart:  func(p *plan) { p.frames = p.frames[1:] },
		StartNoID:      func(p *plan) { delete(p.frames[0].data, "request_id") },
		StartNoTask:    func(p *plan) { delete(p.frames[0].data, "task_type") },
		NoEnd:          func(p *plan) { p.frames = p.frames[:len(p.frames)-1] },
		TwoEnds:        func(p *plan) { p.add(frame{name: "complete", data: p.final()}) },
		EventAfterEnd:  func(p *plan) { p.add(frame{name: "progress", data: map[string]any{"step": "late"}}) },
		NoBlankLine:    func(p *plan) { p.open = true },
		HoldsOpen:      onStream(func(p *plan) { p.after = silent }),

		EndNoID:        func(p *plan) { delete(p.final(), "request_id") },
		EndOtherID:     func(p *plan) { p.final()["request_id"] = "another" },
		EndNoTaskType:  func(p *plan) { delete(p.final(), "task_type") },
		EndOtherType:   func(p *plan) { p.final()["task_type"] = "ANOTHER" },
		EndNoStatus:    func(p *plan) { delete(p.final(), "status") },
		EndNoOutputs:   func(p *plan) { delete(p.final(), "outputs") },
		EndNulls:       func(p *plan) { p.final()["error"], p.final()["grounding"] = nil, nil },
		EndErrorBeside: func(p *plan) { p.final()["error"] = beside },
		EndNoSuccess: func(p *plan) {
			p.final()["status"] = "finished"
			delete(p.final(), "success")
		},

		// What agents do that Weir must read all the same.
		DataEvent: func(p *plan) { p.named("event") },
		DataType:  func(p *plan) { p.named("type") },
		NameFinal: func(p *plan) { p.frames[len(p.frames)-1].name = "final" },
		NameDone:  func(p *plan) { p.frames[len(p.frames)-1].name = "done" },
		CRLF:      func(p *plan) { p.eol = "\r\n" },
		CR:        func(p *plan) { p.eol = "\r" },
		ByteOrder: func(p *plan) { p.lead = "\ufeff" },
		NoSpace:   func(p *plan) { p.colon = ":" },
		Comments:  func(p *plan) { p.each(func(_ int, f *frame) { f.before = ":\n: still here\n\n: data: no\n" }) },
		MultiLine: func(p *plan) { p.each(func(_ int, f *frame) { f.lines = true }) },
		IDs:       func(p *plan) { p.each(func(_ int, f *frame) { f.before = "id: 7\nretry: 10\n" }) },
		EmptyEvents: func(p *plan) {
			p.each(func(_ int, f *frame) { f.before = "event: nothing\n\n\n\nid: 1\n\n" })
		},
		Degraded:   func(p *plan) { p.ends(func(doc map[string]any) { doc["status"] = "degraded" }) },
		StatusWord: func(p *plan) { p.ends(func(doc map[string]any) { doc["status"] = "success" }) },
		OKTrue: func(p *plan) {
			p.ends(func(doc map[string]any) { delete(doc, "status"); delete(doc, "success"); doc["ok"] = true })
		},
		SuccessTrue: func(p *plan) {
			p.ends(func(doc map[string]any) { delete(doc, "status"); doc["success"] = true })
		},
		DataMember: func(p *plan) {
			p.ends(func(doc map[string]any) { doc["data"] = doc["outputs"]; delete(doc, "outputs") })
		},
		NullMembers: func(p *plan) {
			p.ends(func(doc map[string]any) {
				for _, name := range []string{"artifacts", "provenance", "usage", "grounding", "warnings", "error"} {
					doc[name] = nil
				}
			})
		},
		JSONOnStream: func(p *plan) { p.text = doubles.Encode(p.sync) },

		// Answers that say that the run failed, or contradict themselves.
		Failed:    func(p *plan) { p.ends(failed(said)) },
		ErrorText: func(p *plan) { p.ends(failed("the agent gave up")) },
		ErrorEvent: func(p *plan) {
			p.ends(failed("the agent gave up"))
			p.frames[len(p.frames)-1] = frame{name: "error", last: true, data: map[string]any{
				"error": "the agent gave up", "request_id": p.request.Run.RequestID,
			}}
		},
		StrayAfterEnd:   func(p *plan) { p.add(frame{name: "complete", data: map[string]any{}}) },
		ConflictingEnds: again(failed(said)),
		OtherOutputs:    again(func(doc map[string]any) { doc["outputs"] = map[string]any{"other": true} }),
		NoStream404:     absent(http.StatusNotFound),
		NoStream405:     absent(http.StatusMethodNotAllowed),
		NoStream406:     absent(http.StatusNotAcceptable),
		NoStream501:     absent(http.StatusNotImplemented),
		Status400:       refused(http.StatusBadRequest, "UNSUPPORTED_TASK_TYPE"),
		Status422:       refused(http.StatusUnprocessableEntity, "VALIDATION_ERROR"),
		Status429:       refused(http.StatusTooManyRequests, "TASK_FAILED"),
		Status503:       refused(http.StatusServiceUnavailable, "AGENT_UNAVAILABLE"),
		Status500:       page(http.StatusInternalServerError),
		Status502:       page(http.StatusBadGateway),
		HTML:            page(http.StatusOK),
		Redirects: func(p *plan) {
			p.status, p.text = http.StatusTemporaryRedirect, "{}"
			p.header["Location"] = p.request.Route + "/elsewhere"
		},

		// Answers that do not come whole.
		DiesUnanswered: func(p *plan) { p.begin = die },
		NeverAnswers:   func(p *plan) { p.begin = silent },
		DiesMidStream: func(p *plan) {
			p.frames, p.after = p.frames[:len(p.frames)-1], die
			p.half()
		},
		DiesInEvent: func(p *plan) {
			whole := p.render(p.frames[len(p.frames)-1], true)
			p.frames, p.after = p.frames[:len(p.frames)-1], func(x *Exchange) bool {
				x.Write(whole[:len(whole)/2])
				return die(x)
			}
			p.half()
		},
		Stalls:      func(p *plan) { p.frames, p.after = p.frames[:1], silent },
		EmptyStream: func(p *plan) { p.frames = nil },
		Garbage:     func(p *plan) { p.text, p.header["Content-Type"] = html, "text/event-stream" },
		HugeProgress: func(p *plan) {
			p.insert(1, frame{name: "progress", data: map[string]any{"much": strings.Repeat("a", 1<<20)}})
		},
		HugeEnd: func(p *plan) {
			p.ends(func(doc map[string]any) { doc["outputs"] = map[string]any{"much": strings.Repeat("a", 16<<20)} })
		},
		EndlessLine:   endless("data: ", strings.Repeat("a", 32<<10)),
		EndlessEvents: endless("", strings.Repeat("event: progress\ndata: {\"step\":1,\"pad\":\""+strings.Repeat("a", 2000)+"\"}\n\n", 16)),
	}
}
