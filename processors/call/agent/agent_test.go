package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/secrets"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/schemas"
)

const (
	secret = "zq-CANARY-AGENT-TOKEN-0123456789"
	id     = "r-1"
	echoed = `{"echo":{"q":"1"}}`
	grace  = 3 * time.Second
)

// line is an adapter over the real client, with the entry of one agent.
type line struct {
	adapter *agent.Adapter
	guard   *guard.Guard
	url     string
}

func newLine(t *testing.T, base string) *line {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: schemas.AgentEntry(double.TaskType), URLPrefix: base + "/agents/run/", Methods: []string{"POST"},
		Network: policy.NetworkLoopback, Agent: true, Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"},
	}}})
	require.NoError(t, err)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { return secret, name == "WEIR_SECRET_TOKEN" }})
	return &line{
		// Small limits, so that what is endless ends.
		adapter: agent.New(client, store, agent.Config{Event: 2 << 20, Stream: 6 << 20, Grace: grace}),
		guard:   guard.New(func() *policy.Policy { return p }, nil), url: base,
	}
}

func (l *line) pass(t *testing.T, route string) guard.Pass {
	t.Helper()
	body, err := ledger.Encode(schemas.RunRequest{RequestID: id, RunOrder: schemas.RunOrder{TaskType: double.TaskType, Inputs: json.RawMessage(`{"q":"1"}`)}})
	require.NoError(t, err)
	pass, d := l.guard.Check(schemas.HTTPCall{
		Method: "POST", URL: l.url + route, AllowlistKey: schemas.AgentEntry(double.TaskType), Body: body,
		Headers: []schemas.Header{{Name: "accept", Value: "text/event-stream"}, {Name: "x-request-id", Value: id}},
	}, evaluate.Scope{KeyRequired: true, Agent: true})
	require.True(t, pass.Valid(), "%+v", d)
	return pass
}

// talk makes the call of one run and returns what was handed on, the end and the
// failure.
func (l *line) talk(ctx context.Context, t *testing.T, route string) ([]schemas.RunProgress, schemas.RunResult, *call.Reply, error) {
	t.Helper()
	var events []schemas.RunProgress
	pass := l.pass(t, route)
	ex, err := l.adapter.For(agent.CallOptions{
		RequestID: id, TaskType: double.TaskType,
		Progress: func(_ context.Context, p schemas.RunProgress) error {
			p.Data = append(json.RawMessage(nil), p.Data...)
			events = append(events, p)
			return nil
		},
	}).Open(ctx, pass)
	require.NoError(t, err)
	defer ex.Close()
	reply, err := ex.Do(ctx, pass, nil)
	var end schemas.RunResult
	if err == nil {
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &end), string(reply.Answer.Body))
	}
	return events, end, reply, err
}

// want is what an answer of the double comes to.
type want struct {
	code     schemas.Code // of the failed call; empty: there is an end
	failed   string       // the code of the end's error
	message  string       // of the end's error, a part
	outputs  string       // default: the inputs
	warnings []string
	events   int // default: 2
	status   int // default: 200
}

func TestEveryFaultOnTheStream(t *testing.T) {
	t.Parallel()
	said := want{failed: "TASK_FAILED", message: "the agent gave up"}
	ok := want{}
	protocol, truncated := want{code: schemas.UpstreamProtocol, events: -1}, want{code: schemas.UpstreamTruncated}
	tooLarge := want{code: schemas.UpstreamTooLarge}
	warned := func(texts ...string) want { return want{warnings: texts} }
	const (
		noID, otherTask, after = "the agent's end does not name the request", "the agent's end names another task type", "the agent sent more after its end"
		twice, other           = "the agent ended the run twice, and differently", "the agent's end is that of another request"
	)
	answers := map[double.Fault]want{
		double.Correct: ok, double.StreamStatus: {status: 201}, double.StreamType: ok, double.StreamNotUTF8: ok, double.StreamBareLine: ok,
		double.StreamNotJSON: {events: 3}, double.StreamNoStart: ok, double.StartNoID: ok, double.StartNoTask: ok,
		double.NoEnd: truncated, double.TwoEnds: warned(after), double.EventAfterEnd: warned(after), double.HoldsOpen: ok,
		double.NoBlankLine: warned("the agent's last event was not finished by a blank line"),
		double.EndNoID:     warned(noID), double.EndOtherID: {failed: "TASK_FAILED", message: other},
		double.EndNoTaskType: ok, double.EndOtherType: warned(otherTask), double.EndNoStatus: ok,
		double.EndNoSuccess: {code: schemas.UpstreamProtocol}, double.EndNoOutputs: {outputs: "{}", warnings: []string{"the agent gave no outputs"}},
		double.EndNulls: ok, double.EndErrorBeside: {failed: "TASK_FAILED", message: "beside"},
		double.DataEvent: ok, double.DataType: ok, double.NameFinal: ok, double.NameDone: ok, double.CRLF: ok, double.CR: ok,
		double.Comments: ok, double.ByteOrder: ok, double.MultiLine: ok, double.NoSpace: ok, double.IDs: ok, double.EmptyEvents: ok,
		double.Degraded: warned("the agent reports a degraded result"), double.StatusWord: ok, double.OKTrue: ok, double.SuccessTrue: ok,
		double.DataMember: ok, double.NullMembers: ok, double.JSONOnStream: {events: -1},
		double.NoStream404: {failed: "TASK_FAILED", message: "Not Found", status: 404, events: -1},
		double.NoStream405: {failed: "TASK_FAILED", message: "Not Found", status: 405, events: -1},
		double.NoStream406: {failed: "TASK_FAILED", message: "Not Found", status: 406, events: -1},
		double.NoStream501: {failed: "TASK_FAILED", message: "Not Found", status: 501, events: -1},
		double.Status400:   {failed: "UNSUPPORTED_TASK_TYPE", message: "does not take it", status: 400, events: -1},
		double.Status422:   {failed: "VALIDATION_ERROR", message: "does not take it", status: 422, events: -1},
		double.Status429:   {failed: "TASK_FAILED", status: 429, events: -1},
		double.Status500:   {status: 500, events: -1, outputs: "none"}, double.Status502: {status: 502, events: -1, outputs: "none"},
		double.Status503: {failed: "AGENT_UNAVAILABLE", status: 503, events: -1}, double.Redirects: {status: 307, events: -1, outputs: "none"},
		double.Failed: said, double.ErrorEvent: said, double.ErrorText: said, double.StrayAfterEnd: warned(after),
		double.ConflictingEnds: {failed: "TASK_FAILED", message: twice}, double.OtherOutputs: {failed: "TASK_FAILED", message: twice},
		double.DiesMidStream: truncated, double.DiesInEvent: truncated, double.DiesUnanswered: {code: schemas.UpstreamReset, events: -1},
		double.Garbage: protocol, double.HTML: protocol, double.EmptyStream: protocol,
		double.HugeProgress: {events: 3}, double.HugeEnd: tooLarge, double.EndlessLine: {code: schemas.UpstreamTooLarge, events: -1},
		double.EndlessEvents: {code: schemas.UpstreamTooLarge, events: 1000},
	}
	// Those have no end of their own, or are of the other route.
	silent := map[double.Fault]bool{double.NeverAnswers: true, double.Stalls: true, double.StreamSilent: true}
	for _, f := range append(double.Faults(), double.Correct) {
		w, known := answers[f]
		if silent[f] {
			continue
		}
		if !known { // it is not of this route: nothing is wrong here
			require.NotContains(t, string(f), "end", f)
			w = ok
		}
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			a := double.New(t, double.Config{Fault: f, Token: secret})
			l := newLine(t, a.URL())
			events, end, reply, err := l.talk(t.Context(), t, schemas.RouteRunStream)
			w.hold(t, events, end, reply, err)
		})
	}
}

// hold holds what came against what is wanted.
func (w want) hold(t *testing.T, events []schemas.RunProgress, end schemas.RunResult, reply *call.Reply, err error) {
	t.Helper()
	switch n := w.events; {
	case n == 0:
		assert.Len(t, events, 2)
	case n < 0:
		assert.Empty(t, events)
	case n < 1000:
		assert.Len(t, events, n)
	}
	if w.code != "" {
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, w.code, failed.Code)
		assert.True(t, failed.Sent)
		assert.Equal(t, w.code != schemas.UpstreamReset, failed.Status != 0)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, cmp.Or(w.status, 200), reply.Answer.Status)
	assert.NotContains(t, string(reply.Answer.Body), "null")
	assert.NotEmpty(t, reply.Answer.Hash)
	assert.Empty(t, reply.Answer.Headers, "nothing that the agent says in headers is kept")
	assert.Equal(t, w.warnings, end.Warnings)
	if w.failed != "" {
		require.NotNil(t, end.Error)
		assert.Equal(t, w.failed, end.Error.Code)
		assert.Contains(t, end.Error.Message, w.message)
		assert.Empty(t, end.Outputs, "a failure has no outputs")
		return
	}
	assert.Nil(t, end.Error)
	switch w.outputs {
	case "none":
		assert.Empty(t, end.Outputs)
	case "":
		assert.JSONEq(t, echoed, string(end.Outputs))
	default:
		assert.JSONEq(t, w.outputs, string(end.Outputs))
	}
}

func TestEveryFaultOfSync(t *testing.T) {
	t.Parallel()
	for f, w := range map[double.Fault]want{
		double.Correct: {}, double.SyncStatus: {status: 201}, double.SyncType: {}, double.SyncNotJSON: {code: schemas.UpstreamProtocol},
		double.SyncNoID: {warnings: []string{"the agent's end does not name the request"}}, double.SyncOtherID: {failed: "TASK_FAILED", message: "another request"},
		double.SyncNoOutputs:   {outputs: "{}", warnings: []string{"the agent gave no outputs"}},
		double.SyncOutputsList: {outputs: `{"value":[1]}`, warnings: []string{"the agent's outputs were not an object; they are under value"}},
		double.SyncNoSuccess:   {code: schemas.UpstreamProtocol}, double.SyncNulls: {},
		double.SyncOddArtifacts: {warnings: []string{"an item of artifacts was not in the form of the contract and is left out"}},
		double.SyncErrorBeside:  {failed: "TASK_FAILED", message: "beside"},
		double.Degraded:         {warnings: []string{"the agent reports a degraded result"}}, double.StatusWord: {}, double.OKTrue: {}, double.SuccessTrue: {},
		double.DataMember: {}, double.NullMembers: {}, double.NoStream404: {}, double.NoStream501: {},
		double.Failed: {failed: "TASK_FAILED", message: "the agent gave up"}, double.ErrorText: {failed: "TASK_FAILED", message: "the agent gave up"},
		double.Status400: {failed: "UNSUPPORTED_TASK_TYPE", status: 400}, double.Status422: {failed: "VALIDATION_ERROR", status: 422},
		double.DiesUnanswered: {code: schemas.UpstreamReset}, double.DiesMidStream: {code: schemas.UpstreamTruncated},
		double.HTML: {code: schemas.UpstreamProtocol}, double.HugeEnd: {code: schemas.UpstreamTooLarge},
	} {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			a := double.New(t, double.Config{Fault: f})
			events, end, reply, err := newLine(t, a.URL()).talk(t.Context(), t, schemas.RouteRunSync)
			w.events = -1
			w.hold(t, events, end, reply, err)
		})
	}
}

// TestSilenceEndsWithItsContext: nothing but the run's own time bounds an agent
// that says nothing, and its end is heard at once.
func TestSilenceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for f, status := range map[double.Fault]int{double.NeverAnswers: 0, double.Stalls: 200, double.StreamSilent: 200} {
		a := double.New(t, double.Config{Fault: f})
		l := newLine(t, a.URL())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			a.WaitRun(1)
			cancel()
		}()
		_, _, _, err := l.talk(ctx, t, schemas.RouteRunStream)
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, schemas.Canceled, failed.Code, f)
		assert.Contains(t, []int{status, 0}, failed.Status, f)
		<-a.WaitRun(1).Closed()
		assert.True(t, a.WaitRun(1).Cut(), f)
	}
}

// TestASinkThatFailsEndsTheCall, with its own error.
func TestASinkThatFailsEndsTheCall(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{Fault: double.EndlessEvents})
	l := newLine(t, a.URL())
	full, pass := errors.New("the log is gone"), l.pass(t, schemas.RouteRunStream)
	ex, err := l.adapter.For(agent.CallOptions{RequestID: id, Progress: func(context.Context, schemas.RunProgress) error { return full }}).Open(t.Context(), pass)
	require.NoError(t, err)
	defer ex.Close()
	_, err = ex.Do(t.Context(), pass, nil)
	require.ErrorIs(t, err, full)
	<-a.WaitRun(1).Closed()
	assert.True(t, a.WaitRun(1).Cut())
}

// TestSecretsOfTheEntryDoNotComeBack: not in events, not in their names, not in
// the end, in any of its members.
func TestSecretsOfTheEntryDoNotComeBack(t *testing.T) {
	t.Parallel()
	quoted := `"you sent Bearer ` + secret + `"`
	a := double.New(t, double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
		x.Begin(200, "text/event-stream")
		x.Write("event: " + secret + "\ndata: {\"a\":" + quoted + ",\"" + secret + "\":1}\n\n")
		x.Write("data: text " + secret + "\n\n")
		x.Write("data: {\"type\":\"" + secret + "\"}\n\n")
		x.Write(`event: final` + "\n" + `data: {"request_id":"r-1","status":"error","error":{"code":"` + secret + `","message":` + quoted + `,"details":{"a":` + quoted + `}},"warnings":[` + quoted + `]}` + "\n\n")
	}}}})
	events, _, reply, err := newLine(t, a.URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	require.Len(t, events, 3)
	kept, err := json.Marshal(events)
	require.NoError(t, err)
	assert.NotContains(t, string(kept), "CANARY")
	assert.Contains(t, string(kept), "REDACTED")
	assert.NotContains(t, string(reply.Answer.Body), "CANARY")
	assert.Contains(t, string(reply.Answer.Body), "you sent REDACTED")
}

// TestEventsAsTheyAreKept: names, data and what is left out of them.
func TestEventsAsTheyAreKept(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 3<<20)
	large := strings.Repeat("y", schemas.InlineLimit)
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	type testCase struct {
		in   string
		want *schemas.RunProgress // nil: it is no event of its own
	}
	table.Run(t, map[string]testCase{
		"json":                  {"event: progress\ndata: {\"n\":1.50, \"big\":12345678901234567890}\n\n", &schemas.RunProgress{Name: "progress", Data: json.RawMessage(`{"n":1.50, "big":12345678901234567890}`)}},
		"text":                  {"event: log\ndata: half <way>\n\n", &schemas.RunProgress{Name: "log", Data: json.RawMessage("\"half \\u003cway\\u003e\"")}},
		"number":                {"data: 42\n\n", &schemas.RunProgress{Name: "message", Data: json.RawMessage("42")}},
		"too deep to be JSON":   {"event: progress\ndata: " + deep + "\n\n", &schemas.RunProgress{Name: "progress", Data: json.RawMessage(`"` + deep + `"`)}},
		"name in event":         {"data: {\"event\":\"tool_call\",\"type\":\"x\"}\n\n", &schemas.RunProgress{Name: "tool_call", Data: json.RawMessage(`{"event":"tool_call","type":"x"}`)}},
		"name in type":          {"event: message\ndata: {\"type\":\"tool_call\"}\n\n", &schemas.RunProgress{Name: "tool_call", Data: json.RawMessage(`{"type":"tool_call"}`)}},
		"a step that completed": {"event: progress\ndata: {\"type\":\"completed\",\"status\":\"ok\"}\n\n", &schemas.RunProgress{Name: "progress", Data: json.RawMessage(`{"type":"completed","status":"ok"}`)}},
		"over the inline limit": {"event: progress\ndata: \"" + large + "\"\n\n", &schemas.RunProgress{Name: "progress", Omitted: len(large) + 2}},
		"over every limit":      {"event: progress\ndata: " + huge + "\n\n", &schemas.RunProgress{Name: "progress", Omitted: len(huge)}},
		"started":               {"event: started\ndata: {\"request_id\":\"r-1\",\"task_type\":\"DOUBLE\"}\n\n", nil},
		"started, in a word":    {"event: started\ndata: Started\n\n", nil},
		"started, and a status": {"event: start\ndata: {\"event\":\"start\",\"type\":\"started\",\"status\":\"started\",\"request_id\":null}\n\n", nil},
		"started with a text":   {"event: started\ndata: on node 7\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`"on node 7"`)}},
		"started with a list":   {"event: started\ndata: [1]\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`[1]`)}},
		"started, another id":   {"event: started\ndata: {\"request_id\":\"own-7\"}\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`{"request_id":"own-7"}`)}},
		"started, another task": {"event: started\ndata: {\"task_type\":\"SUB\"}\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`{"task_type":"SUB"}`)}},
		"started, but how":      {"event: started\ndata: {\"status\":\"queued\"}\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`{"status":"queued"}`)}},
		"started, a number":     {"event: started\ndata: {\"status\":1}\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`{"status":1}`)}},
		"white space in a name": {"event:  progress \ndata: 1\n\n", &schemas.RunProgress{Name: " progress ", Data: json.RawMessage("1")}},
		"started with more":     {"event: started\ndata: {\"model\":\"m\"}\n\n", &schemas.RunProgress{Name: "started", Data: json.RawMessage(`{"model":"m"}`)}},
		"without data":          {"event: progress\n\nevent: progress\ndata:\n\n", nil},
		"an end without a word": {"event: done\ndata: [DONE]\n\n", nil},
	}, func(t *testing.T, tt testCase) {
		events, end, _, err := newLine(t, says(t, tt.in+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
		require.NoError(t, err)
		require.Nil(t, end.Error)
		if tt.want == nil {
			require.Empty(t, events)
			return
		}
		require.Len(t, events, 1)
		assert.Equal(t, tt.want.Name, events[0].Name)
		assert.Equal(t, tt.want.Omitted, events[0].Omitted)
		if string(tt.want.Data) != string(events[0].Data) {
			assert.JSONEq(t, string(tt.want.Data), string(events[0].Data))
		}
	})
}

// TestBytesThatAreNoText: what had to be mended to be read is handed on as a text,
// and is no end, on either route.
func TestBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	const bad = "{\"request_id\":\"r-1\",\"status\":\"ok\",\"outputs\":{\"a\":\"\xff\"}}"
	protocol := func(err error) {
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, schemas.UpstreamProtocol, failed.Code)
	}
	events, end, _, err := newLine(t, says(t, "event: progress\ndata: "+bad+"\n\n"+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	require.Nil(t, end.Error)
	require.Len(t, events, 1)
	assert.Contains(t, end.Warnings, "the agent sent an event that is not UTF-8; each invalid byte is shown as U+FFFD")
	assert.JSONEq(t, `"{\"request_id\":\"r-1\",\"status\":\"ok\",\"outputs\":{\"a\":\"\uFFFD\"}}"`, string(events[0].Data))

	_, _, _, err = newLine(t, says(t, "event: complete\ndata: "+bad+"\n\n").URL()).talk(t.Context(), t, schemas.RouteRunStream)
	protocol(err)
	for _, body := range []string{bad, `{"request_id":"r-1","status":"error","status":"ok","outputs":{}}`} {
		a := double.New(t, double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
			x.Begin(200, "application/json")
			x.Write(body)
		}}}})
		_, _, _, err = newLine(t, a.URL()).talk(t.Context(), t, schemas.RouteRunSync)
		protocol(err)
	}
}

// TestSecretsInDataThatIsNotTaken do not come back by its text, nor by two names
// that are the same once they are redacted.
func TestSecretsInDataThatIsNotTaken(t *testing.T) {
	t.Parallel()
	in := "event: progress\ndata: {\"a\":\"" + secret + "\",\"a\":\"\\ud800" + secret + "\"}\n\n" +
		"event: progress\ndata: {\"" + secret + "\":1,\"REDACTED\":2}\n\n"
	events, _, _, err := newLine(t, says(t, in+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	require.Len(t, events, 2)
	for i, want := range []string{`{"a":"REDACTED","a":"\ud800REDACTED"}`, `{"REDACTED":1,"REDACTED":2}`} {
		var text string
		require.NoError(t, json.Unmarshal(events[i].Data, &text), string(events[i].Data))
		assert.Equal(t, want, text)
	}
}

// says is an agent that answers with a stream.
func says(t *testing.T, stream string) *double.Agent {
	t.Helper()
	return double.New(t, double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
		x.Begin(200, "text/event-stream")
		x.Write(stream)
	}}}})
}

const finished = "event: final\ndata: {\"request_id\":\"r-1\",\"task_type\":\"DOUBLE\",\"status\":\"ok\",\"outputs\":{}}\n\n"

// TestNamesAreScrubbedBeforeTheyAreCut: most of a secret is as bad as all of it,
// and so is one that stood around a byte that is mended.
func TestNamesAreScrubbedBeforeTheyAreCut(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	var want []string
	for at := range 130 {
		before, behind := strings.Repeat("n", at), strings.Repeat("m", 200)
		kept := (before + "REDACTED" + behind)[:128]
		in.WriteString("event: " + before + secret + behind + "\ndata: 1\n\n")
		in.WriteString("data: {\"type\":\"" + before + secret + behind + "\"}\n\n")
		in.WriteString("event: " + before + "\xff" + secret + behind + "\ndata: 1\n\n")
		want = append(want, kept, kept, strings.ToValidUTF8((before + "\uFFFDREDACTED" + behind)[:128], ""))
	}
	events, _, _, err := newLine(t, says(t, in.String()+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	var got []string
	for _, e := range events {
		got = append(got, e.Name)
	}
	assert.Equal(t, want, got)
}

// TestALateEndIsItself: the end that no other replaces is that of its own event, whatever came after.
func TestALateEndIsItself(t *testing.T) {
	t.Parallel()
	const data = `{"type":"final","request_id":"r-1","status":"ok","outputs":{"a":1}}`
	_, end, reply, err := newLine(t, says(t, "event: agent\ndata: "+data+"\n\nevent: log\ndata: "+strings.Repeat("x", 2*len(data))+"\n\n").URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a":1}`, string(end.Outputs))
	assert.Equal(t, dial.Hash([]byte(data)), reply.Answer.Hash)
}
