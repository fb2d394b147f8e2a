package runs_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// refuse is an agent that answers the first call with a status and a body, and others well.
func refuse(status int, contentType, body string) double.Config {
	return double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
		x.Begin(status, contentType)
		x.Write(body)
	}}, {}}}
}

// TestRoutes: the caller's route is asked first, or that of the agent's mode. The other one is
// asked only where an answer proves that the first does not exist, as a call of its own.
func TestRoutes(t *testing.T) {
	t.Parallel()
	const (
		stream, sync = schemas.RouteRunStream, schemas.RouteRunSync
		detail       = `{"detail":"Not Found"}`
		contract     = `{"request_id":"r-1","ok":false,"outputs":{},"warnings":["w"]}`
		unsupported  = `{"error":{"code":"UNSUPPORTED_TASK_TYPE","message":"m"}}`
	)
	first := func(sync bool) string {
		if sync {
			return schemas.RouteRunSync
		}
		return schemas.RouteRunStream
	}
	neither := refuse(http.StatusNotFound, "application/json", detail)
	neither.Script[1] = neither.Script[0]
	for name, tt := range map[string]struct {
		mode   string
		agent  double.Config
		routes [2][]string // that are asked for a streaming and for a synchronous caller; nil: the first, then the other
		failed bool
	}{
		"both":                         {schemas.AgentAuto, double.Config{}, [2][]string{{stream}, {sync}}, false},
		"stream first":                 {schemas.AgentStream, double.Config{}, [2][]string{{stream}, {stream}}, false},
		"sync first":                   {schemas.AgentSync, double.Config{}, [2][]string{{sync}, {sync}}, false},
		"404":                          {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", detail), [2][]string{}, false},
		"404, a page":                  {schemas.AgentAuto, refuse(http.StatusNotFound, "text/html", "<h1>Cannot POST</h1>"), [2][]string{}, false},
		"404, a framework's":           {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"status":404,"error":"Not Found","message":"m","path":"/"}`), [2][]string{}, false},
		"405":                          {schemas.AgentAuto, refuse(http.StatusMethodNotAllowed, "text/plain", ""), [2][]string{}, false},
		"501":                          {schemas.AgentAuto, refuse(http.StatusNotImplemented, "text/plain", "no"), [2][]string{}, false},
		"501, stream first":            {schemas.AgentStream, refuse(http.StatusNotImplemented, "text/plain", "no"), [2][]string{{stream, sync}, {stream, sync}}, false},
		"neither":                      {schemas.AgentAuto, neither, [2][]string{}, true},
		"404, the agent's answer":      {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", contract), [2][]string{{stream}, {sync}}, true},
		"404, the agent's error alone": {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", unsupported), [2][]string{{stream}, {sync}}, true},
		"404, an error of its own":     {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"error":{"code":"DOC_NOT_FOUND","message":"m"}}`), [2][]string{{stream}, {sync}}, true},
		"404, a detail of its own":     {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"detail":"document 17 not found"}`), [2][]string{{stream}, {sync}}, true},
		"406":                          {schemas.AgentAuto, refuse(http.StatusNotAcceptable, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"400":                          {schemas.AgentAuto, refuse(http.StatusBadRequest, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"500":                          {schemas.AgentAuto, refuse(http.StatusInternalServerError, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"502":                          {schemas.AgentAuto, refuse(http.StatusBadGateway, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
	} {
		for i, caller := range []string{"stream", "sync"} {
			t.Run(name+", "+caller, func(t *testing.T) {
				t.Parallel()
				a := double.New(t, tt.agent)
				served := to(a)
				served.Mode = tt.mode
				r := newRoom(t, options{}, served)
				r.sync = caller == "sync"
				e := r.run("r-1")
				want := tt.routes[i]
				if want == nil {
					want = []string{first(r.sync), first(!r.sync)}
				}
				var asked, left []string
				for n := range a.Hits() {
					asked = append(asked, a.WaitRun(n+1).Route)
				}
				assert.Equal(t, want, asked)
				for _, ev := range r.evidence("r-1") {
					route := sync
					if strings.Contains(string(ev.Payload), `"POST agent:DOUBLE`+stream+`"`) {
						route = stream
					}
					left = append(left, route)
				}
				assert.Equal(t, want, left, "each call leaves its evidence")
				assert.Equal(t, tt.failed, e.Outcome != schemas.OutcomeSucceeded)
			})
		}
	}
}

// TestASyncAnswerIsKept as it came: an agent says more there than in its stream.
func TestASyncAnswerIsKept(t *testing.T) {
	t.Parallel()
	const extras = `{"artifacts":["s3://a"],"provenance":{"model":"m","n":1.50},"usage":{"duration_ms":5,"tokens":7},"grounding":[{"id":1}],"warnings":["w"]}`
	members := harness.Decode[map[string]any](t, []byte(extras))
	members["provenance"] = json.RawMessage(`{"model":"m","n":1.50}`)
	a := double.New(t, double.Config{Script: []double.Act{{Extras: members}}})
	served := to(a)
	served.Mode = schemas.AgentAuto
	r := newRoom(t, options{}, served)
	r.sync = true
	e := r.run("r-2")
	require.Nil(t, e.result.Error)
	got, err := json.Marshal(e.result.RunExtras)
	require.NoError(t, err)
	assert.JSONEq(t, extras, string(got))
	assert.Contains(t, string(got), `"n":1.50`)
	assert.NotContains(t, r.types("r-2"), schemas.EventProgress)
}

// answers is a run whose agent, or what stands before it, answers with a status.
func answers(t *testing.T, status int, body string) ended {
	t.Helper()
	return told(t, &schemas.Attempted{Number: 1, Sent: true, Status: status, Answer: &schemas.Answer{
		Status: status, Body: json.RawMessage(body), RetryAfter: 7 * time.Second,
	}})
}

// told is a run whose call has ended in a way.
func told(t *testing.T, res *schemas.Attempted) ended {
	t.Helper()
	r := newRoom(t, options{}, schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream, Concurrency: 1})
	st := r.claim("r-1", schemas.Run{}, time.Minute)
	attempt := &schemas.Attempt{Number: 1, Class: schemas.ClassOnce, Worker: "w0", Decision: schemas.Decision{Allowed: true, Entry: "agent:DOUBLE"}}
	harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempt, Attempt: attempt})
	harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempted: res})
	e := r.done(st, still)
	require.NotNil(t, e.result.Error)
	return e
}

// TestWhatStandsBeforeAnAgent may have passed the run on: nobody is told that it
// was not begun.
func TestWhatStandsBeforeAnAgent(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, http.StatusGatewayTimeout} {
		e := answers(t, status, `{}`)
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, schemas.TaskFailed, e.Code)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.Contains(t, e.result.Error.Message, "may have begun")
		assert.Contains(t, e.result.Error.Message, "before the run is sent again")

		e = answers(t, status, `{"error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.JSONEq(t, `{"status":`+strconv.Itoa(status)+`,"retry_after_ms":7000,"agent_error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`, string(e.result.Error.Details))
	}
}

// TestAnAgentThatIsBusy: what it said of it is kept, up to a length.
func TestAnAgentThatIsBusy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 600)
	for body, want := range map[string]string{
		`{}`: `{"status":503,"retry_after_ms":7000}`,
		`{"error":{"code":"OVERLOADED","message":"ask again later","details":{"queue":9}}}`: `{"status":503,"retry_after_ms":7000,"agent_error":{"code":"OVERLOADED","message":"ask again later"}}`,
		`{"error":{"code":"X","message":"` + long + `"}}`:                                   `{"status":503,"retry_after_ms":7000,"agent_error":{"code":"X","message":"` + long[:1024] + `"}}`,
	} {
		e := answers(t, http.StatusServiceUnavailable, body)
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.Equal(t, "AGENT_UNAVAILABLE", e.result.Error.Code)
		assert.JSONEq(t, want, string(e.result.Error.Details))
	}
	assert.JSONEq(t, `{"status":429,"retry_after_ms":7000}`, string(answers(t, http.StatusTooManyRequests, `{}`).result.Error.Details))
}

// TestARunThatBrokeOff: what was done by then stands.
func TestARunThatBrokeOff(t *testing.T) {
	t.Parallel()
	for _, code := range []schemas.Code{schemas.UpstreamTruncated, schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTooLarge, schemas.UpstreamTimeout} {
		e := told(t, &schemas.Attempted{Number: 1, Sent: true, Status: 200, Code: code})
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.Contains(t, e.result.Error.Message, "what the agent had done by then stands")
		assert.Contains(t, e.result.Error.Message, "before the run is sent again")
	}
}

const anyAgent = "*://*:*/agents/run/*"

// TestMockedRun: a rule answers in the agent's place, the run goes as its answer
// says, and the agent is not asked.
func TestMockedRun(t *testing.T) {
	t.Parallel()
	const end = `{"request_id":"r-1","status":"ok","outputs":{"rehearsed":true}}`
	type testCase struct {
		rules    []schemas.Rule
		outcome  schemas.Outcome
		code     schemas.Code
		says     string // a part of the error's message
		attempts int
		progress int
	}
	table.Run(t, map[string]testCase{
		"a document": {[]schemas.Rule{rulebook.Mock("m", anyAgent, 200, end)}, schemas.OutcomeSucceeded, "", "", 1, 0},
		"a stream": {[]schemas.Rule{rulebook.MockText("m", anyAgent, 200, "text/event-stream",
			"event: progress\ndata: {\"n\":1}\n\nevent: complete\ndata: "+end+"\n\n")}, schemas.OutcomeSucceeded, "", "", 1, 1},
		"no stream, then a document": {[]schemas.Rule{
			rulebook.Mock("m1", "*://*:*/agents/run/stream", 404, ""), rulebook.Mock("m2", "*://*:*/agents/run/sync", 200, end),
		}, schemas.OutcomeSucceeded, "", "", 2, 0},
		"busy": {[]schemas.Rule{rulebook.Mock("m", anyAgent, 503, "")}, schemas.OutcomeFailed, schemas.AgentUnavailable, "status 503", 1, 0},
		"no end": {
			[]schemas.Rule{rulebook.MockText("m", anyAgent, 200, "text/event-stream", "event: progress\ndata: 1\n\n")},
			schemas.OutcomeFailed, schemas.UpstreamTruncated, "a traffic rule answered", 1, 1,
		},
		"nothing": {[]schemas.Rule{rulebook.Mock("m", anyAgent, 200, "")}, schemas.OutcomeFailed, schemas.UpstreamProtocol, "a traffic rule answered", 1, 0},
		"led out": {[]schemas.Rule{rulebook.Redirect("r", anyAgent, "http://127.0.0.1:1/agents/run/$3")}, schemas.OutcomeDenied, schemas.DenyRule, "policy", 0, 0},
	}, func(t *testing.T, tt testCase) {
		a := double.New(t, double.Config{})
		var book rulebook.Book
		etag := book.Put(t, tt.rules...)
		r := newRoom(t, options{rules: &book}, to(a))
		e := r.run("r-1")
		assert.Equal(t, tt.outcome, e.Outcome, "%+v", e.Verdict)
		assert.Equal(t, tt.code, e.Code)
		if tt.says != "" {
			require.NotNil(t, e.result.Error)
			assert.Contains(t, e.result.Error.Message, tt.says)
		} else {
			assert.JSONEq(t, `{"rehearsed":true}`, string(e.result.Outputs))
		}
		assert.Zero(t, a.Hits())
		attempts, progress := 0, 0
		for _, ev := range r.events("r-1") {
			switch ev.Type {
			case schemas.EventAttempted:
				attempts++
				assert.False(t, ev.Attempted.Sent)
				assert.NotEmpty(t, ev.Attempt.Decision.Traffic.Mocked)
				assert.Equal(t, schemas.RunRoute(ev.Attempt.URL), ev.Attempt.URL, "and not where the agent is")
			case schemas.EventAttempt:
				assert.Fail(t, "it was written down before")
			case schemas.EventProgress:
				progress++
			default:
			}
		}
		assert.Equal(t, tt.attempts, attempts)
		assert.Equal(t, tt.progress, progress)
		records := r.evidence("r-1")
		require.NotEmpty(t, records)
		for _, ev := range records {
			assert.Equal(t, etag, ev.Traffic.RulesEtag)
			assert.Empty(t, ev.Traffic.Target, "the agent's address is the configuration's")
		}
	})
}

// TestMocksSayNothingOfTheAgent: one that is rehearsed failing is not left alone, and
// one that is left alone is not well because a rule says so.
func TestMocksSayNothingOfTheAgent(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	var book rulebook.Book
	book.Put(t, rulebook.Mock("m", anyAgent, 500, ""))
	r := newRoom(t, options{rules: &book}, to(a))
	for i := range 2 * 5 {
		e := r.run("mocked-" + string(rune('a'+i)))
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
	}
	assert.False(t, r.metrics.isOpen())
	book.Put(t)
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("real").Outcome)
	assert.Equal(t, 1, a.Hits())
}

// TestDelayedRun rests with its place at the agent given back.
func TestDelayedRun(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	var book rulebook.Book
	book.Put(t, rulebook.Delay("d", anyAgent, 60_000))
	r := newRoom(t, options{rules: &book}, to(a))
	st := r.claim("r-1", schemas.Run{}, 5*time.Minute)
	e := r.perform(st, still)
	rest := harness.As[*call.Rest](t, e.err)
	assert.Equal(t, schemas.WaitRule, rest.For)
	assert.Zero(t, a.Hits())
	r.metrics.mu.Lock()
	defer r.metrics.mu.Unlock()
	assert.Zero(t, r.metrics.runs[double.TaskType])
}

// TestScopeOfARun: a rule for one task type is for no other.
func TestScopeOfARun(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	var book rulebook.Book
	mine, other := rulebook.Mock("m", anyAgent, 200, `{"status":"ok","outputs":{}}`), rulebook.Mock("n", anyAgent, 500, "")
	mine.Scope = &schemas.RuleScope{ActionKind: schemas.KindRun, Agent: double.TaskType, RequestID: "r-1"}
	other.Scope, other.Priority = &schemas.RuleScope{Agent: "ANOTHER"}, 9
	book.Put(t, mine, other)
	r := newRoom(t, options{rules: &book}, to(a))
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("r-1").Outcome)
	assert.Zero(t, a.Hits())
	assert.Equal(t, schemas.OutcomeSucceeded, r.run("r-2").Outcome)
	assert.Equal(t, 1, a.Hits())
}
