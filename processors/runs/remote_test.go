package runs_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// verdict is what a run of a double with a fault comes to.
type verdict struct {
	outcome schemas.Outcome
	code    schemas.Code
	error   string // RunError.Code
	details string // JSON; empty: none
}

func TestEveryVerdict(t *testing.T) {
	t.Parallel()
	ok := verdict{outcome: schemas.OutcomeSucceeded}
	said := verdict{schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", `{"stage":3}`}
	breach := verdict{schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", `{"code":"UPSTREAM_PROTOCOL"}`}
	broke := func(code schemas.Code) verdict {
		return verdict{schemas.OutcomeFailed, code, "TASK_FAILED", `{"code":"` + string(code) + `"}`}
	}
	busy := func(status, code string) string {
		return `{"status":` + status + `,"agent_error":{"code":"` + code + `","message":"the agent does not take it"}}`
	}
	status := func(word schemas.Code, details string) verdict {
		return verdict{schemas.OutcomeFailed, word, string(word), details}
	}
	for f, want := range map[double.Fault]verdict{
		double.Correct: ok, double.JSONOnStream: ok, // what an adapter reads as either is shown there
		double.Failed: said, double.ErrorText: {schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", ""},
		double.EndOtherID: breach,
		double.Status400:  {schemas.OutcomeFailed, schemas.TaskFailed, "UNSUPPORTED_TASK_TYPE", ""},
		double.Status422:  {schemas.OutcomeFailed, schemas.TaskFailed, "VALIDATION_ERROR", ""},
		double.Status429:  status(schemas.AgentUnavailable, busy("429", "TASK_FAILED")), double.Status502: status(schemas.TaskFailed, `{"status":502}`),
		double.Status503: status(schemas.AgentUnavailable, busy("503", "AGENT_UNAVAILABLE")), double.Status500: status(schemas.TaskFailed, `{"status":500}`),
		double.Redirects: status(schemas.TaskFailed, `{"status":307}`),
		double.NoEnd:     broke(schemas.UpstreamTruncated), double.Garbage: broke(schemas.UpstreamProtocol), double.HugeEnd: broke(schemas.UpstreamTooLarge),
		double.DiesUnanswered: {schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, "TASK_FAILED", `{"code":"OUTCOME_UNKNOWN","resolve_url":"/v1/actions/r-1/resolve"}`},
	} {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			a := double.New(t, double.Config{Fault: f})
			r := newEnv(t, options{}, to(a))
			e := r.run("r-1")
			assert.Equal(t, want.outcome, e.Outcome)
			assert.Equal(t, want.code, e.Code)
			assert.Equal(t, 1, a.Hits())
			if want.error == "" {
				require.Nil(t, e.result.Error)
				assert.JSONEq(t, `{"echo":{"q":"1"}}`, string(e.result.Outputs))
				assert.Contains(t, string(e.result.Usage), "duration_ms")
				return
			}
			require.NotNil(t, e.result.Error)
			assert.Equal(t, want.error, e.result.Error.Code)
			assert.NotEmpty(t, e.result.Error.Message)
			assert.Empty(t, e.result.Outputs)
			if want.details == "" {
				assert.Empty(t, e.result.Error.Details)
			} else {
				assert.JSONEq(t, want.details, string(e.result.Error.Details))
			}
		})
	}
}

// TestWhatARunLeaves: one attempt, written before it is made, the agent's events
// as they come, and one record of evidence for it.
func TestWhatARunLeaves(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	r := newEnv(t, options{}, to(a))
	require.Equal(t, schemas.OutcomeSucceeded, r.run("r-1").Outcome)
	assert.Equal(t, []schemas.EventType{schemas.EventAccepted, schemas.EventAttempt, schemas.EventProgress, schemas.EventProgress, schemas.EventAttempted}, r.types("r-1"))
	assert.JSONEq(t, `{"name":"progress","data":{"percent":50,"step":1}}`, string(r.events("r-1")[2].Data))
	left := r.evidence("r-1")
	require.Len(t, left, 1)
	assert.Equal(t, schemas.EvidenceAttempt, left[0].Kind)
	assert.Equal(t, "agent:DOUBLE", left[0].Entry)
	assert.Contains(t, string(left[0].Payload), `"request_fingerprint":"POST agent:DOUBLE/agents/run/stream"`)
	assert.Equal(t, map[string]int{double.TaskType: 0}, r.metrics.runs)

	r.enforce(schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1"}) // the record is of the run, not of the configuration
	st := harness.Load(t, r.ledger, runRef("r-1"))
	again, err := r.runs.Evidence(st)
	require.NoError(t, err)
	require.Len(t, again, 1)
	assert.Equal(t, left[0].ID, again[0].ID, "whoever recovers leaves the same record")
	assert.JSONEq(t, string(left[0].Payload), string(again[0].Payload))
}

func TestWhatTheAgentIsAsked(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	synced := to(a)
	synced.Mode = schemas.AgentSync
	r := newEnv(t, options{}, synced)
	budgets := fixture.Decode[schemas.RunBudgets](t, []byte(`{"timeout_ms":60000,"max_output_tokens":60000,"own":{"z":1.50,"a":null}}`))
	order := schemas.RunOrder{
		TaskType: double.TaskType, WorkflowID: "w", StageID: "s", UserID: "u", Mode: "LIVE", RiskTier: "PHI", DomainID: "d",
		Budgets: &budgets,
	}
	require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.claim("r-1", schemas.Run{RunOrder: order}, time.Minute), still).Outcome)
	got := a.WaitRun(1)
	assert.Equal(t, schemas.RouteRunSync, got.Route)
	assert.Equal(t, "application/json", got.Header.Get("Accept"))
	assert.Equal(t, "application/json", got.Header.Get("Content-Type"))
	assert.Equal(t, "r-1", got.Header.Get("X-Request-Id"))
	assert.JSONEq(t, `{"request_id":"r-1","task_type":"DOUBLE","workflow_id":"w","stage_id":"s","user_id":"u","mode":"LIVE",
		"risk_tier":"PHI","domain_id":"d","inputs":{},"budgets":{"timeout_ms":60000,"max_output_tokens":60000,"own":{"z":1.50,"a":null}}}`, string(got.Body))
	assert.Contains(t, string(got.Body), `"own":{"z":1.50,"a":null}`, "byte for byte")
}

// TestEndsOfItsOwn: a stop, the run's deadline and the agent's time end a run, whatever the agent or the
// log does meanwhile: the end is known, and its connection is closed. Before the agent's first word nobody
// knows what it did in its own time.
func TestEndsOfItsOwn(t *testing.T) {
	t.Parallel()
	type testCase struct {
		fault    double.Fault
		stop     bool
		deadline time.Duration
		timeout  time.Duration // the agent's
		logAway  bool
		outcome  schemas.Outcome
		code     schemas.Code
	}
	table.Run(t, map[string]testCase{
		"a stop, mid-stream":                  {double.Stalls, true, time.Minute, 0, false, schemas.OutcomeCanceled, schemas.Canceled},
		"a stop, before the first word":       {double.NeverAnswers, true, time.Minute, 0, false, schemas.OutcomeCanceled, schemas.Canceled},
		"a stop, and the log is away":         {double.EndlessEvents, true, time.Minute, 0, true, schemas.OutcomeCanceled, schemas.Canceled},
		"the deadline, mid-stream":            {double.Stalls, false, 2 * time.Second, 0, false, schemas.OutcomeExpired, schemas.DeadlineExceeded},
		"the deadline, before the first word": {double.NeverAnswers, false, 2 * time.Second, 0, false, schemas.OutcomeExpired, schemas.DeadlineExceeded},
		"the deadline, and the log is away":   {double.EndlessEvents, false, 2 * time.Second, 0, true, schemas.OutcomeExpired, schemas.DeadlineExceeded},
		"its own time, mid-stream":            {double.Stalls, false, time.Minute, 2 * time.Second, false, schemas.OutcomeFailed, schemas.UpstreamTimeout},
		"its own time, before the first word": {double.NeverAnswers, false, time.Minute, 2 * time.Second, false, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode},
	}, func(t *testing.T, tt testCase) {
		stop := harness.NewStop(t)
		hooks := memlog.Hooks{Before: func(m schemas.Append) error {
			if ev, _ := ledger.Decode(m.Data); tt.logAway && ev.Type == schemas.EventProgress {
				return fault.ErrUnavailable
			}
			return nil
		}}
		a := double.New(t, double.Config{Fault: tt.fault})
		served := to(a)
		served.Timeout = tt.timeout
		r := newEnv(t, options{hooks: hooks}, served)
		if tt.stop {
			go func() {
				a.WaitRun(1)
				stop.Pull()
			}()
		}
		e := r.done(r.claim("r-1", schemas.Run{}, tt.deadline), stop.Stop)
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Equal(t, tt.code, e.Code)
		assert.Contains(t, string(e.result.Error.Details), `{"code":"`+string(tt.code)+`"`)
		<-a.WaitRun(1).Closed()
		assert.True(t, a.WaitRun(1).Cut())
		assert.Len(t, r.evidence("r-1"), 1)
	})
}

// TestWhatTheLogHoldsIsNotAskedAgain, whoever asks: an end that was written down
// is the run's end, also when its agent is not in the configuration any more.
func TestWhatTheLogHoldsIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	answered := func(status int, body string) *schemas.Attempted {
		return &schemas.Attempted{Number: 1, Sent: true, Status: status, Answer: &schemas.Answer{Status: status, Body: json.RawMessage(body)}}
	}
	absent := answered(404, `{}`)
	absent.Answer.NoRoute = true
	type testCase struct {
		res     *schemas.Attempted
		gone    bool
		outcome schemas.Outcome
		calls   int
	}
	table.Run(t, map[string]testCase{
		"answered":             {answered(200, `{"outputs":{"a":1}}`), false, schemas.OutcomeSucceeded, 0},
		"answered, agent gone": {answered(200, `{"outputs":{"a":1}}`), true, schemas.OutcomeSucceeded, 0},
		"failed":               {answered(200, `{"error":{"code":"X","message":"m"}}`), true, schemas.OutcomeFailed, 0},
		"interrupted":          {&schemas.Attempted{Number: 1, Sent: true, Code: schemas.Interrupted}, false, schemas.OutcomeUnknown, 0},
		"refused":              {answered(404, `{}`), false, schemas.OutcomeFailed, 0},
		"no stream":            {absent, false, schemas.OutcomeSucceeded, 1},
		"no stream, gone":      {absent, true, schemas.OutcomeFailed, 0},
		"not sent yet":         {&schemas.Attempted{Number: 1, Code: schemas.UpstreamConnect, RetryAt: time.Now()}, false, schemas.OutcomeSucceeded, 1},
		"not sent yet, gone":   {&schemas.Attempted{Number: 1, Code: schemas.UpstreamConnect, RetryAt: time.Now()}, true, schemas.OutcomeFailed, 0},
	}, func(t *testing.T, tt testCase) {
		a := double.New(t, double.Config{})
		r := newEnv(t, options{}, to(a))
		st := r.claim("r-1", schemas.Run{}, time.Minute)
		attempt := &schemas.Attempt{Number: 1, Class: schemas.ClassOnce, Worker: "w0", Decision: schemas.Decision{Allowed: true, Entry: "agent:DOUBLE"}}
		harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempt, Attempt: attempt})
		harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempted: tt.res})
		if tt.gone {
			r.enforce()
		}
		e := r.done(st, still)
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Equal(t, tt.calls, a.Hits())
	})
}

func TestAnAgentThatIsNotThere(t *testing.T) {
	t.Parallel()
	t.Run("in the configuration", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t, options{}).run("r-1")
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.Equal(t, "AGENT_UNAVAILABLE", e.result.Error.Code)
		assert.Nil(t, e.result.Error.Details)
	})
	t.Run("on the network", func(t *testing.T) {
		t.Parallel()
		a := double.New(t, double.Config{})
		a.Close()
		r := newEnv(t, options{}, to(a))
		e := r.run("r-1")
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.JSONEq(t, `{"code":"UPSTREAM_CONNECT"}`, string(e.result.Error.Details))
		assert.Len(t, r.evidence("r-1"), 3, "nothing was sent, so it was tried again")
	})
	t.Run("in the policy, for this token", func(t *testing.T) {
		t.Parallel()
		a := double.New(t, double.Config{})
		r := newEnv(t, options{}, to(a))
		st := r.claim("r-1", schemas.Run{}, time.Minute)
		st.Action.Entries = []string{"another"}
		e := r.done(st, still)
		assert.Equal(t, schemas.OutcomeDenied, e.Outcome)
		assert.Equal(t, schemas.DenyKeyUnknown, e.Code)
		assert.Zero(t, a.Hits())
		left := r.evidence("r-1")
		require.Len(t, left, 1)
		assert.Equal(t, schemas.EvidenceDecision, left[0].Kind)
	})
}

// TestAStepThatNoRunHas is no step of a run: whatever wrote it, nothing is made of it.
func TestAStepThatNoRunHas(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]*schemas.Attempted{
		"ended":  {Step: 2, Number: 1, Sent: true, Status: 200, Answer: &schemas.Answer{Status: 200, Body: json.RawMessage(`{}`)}},
		"to try": {Step: 2, Number: 1, Code: schemas.UpstreamConnect, RetryAt: time.Now()},
	}, func(t *testing.T, res *schemas.Attempted) {
		a := double.New(t, double.Config{})
		r := newEnv(t, options{}, to(a))
		st := r.claim("r-1", schemas.Run{}, time.Minute)
		harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Step: 2, Number: 1, Class: schemas.ClassOnce}, Attempted: res})
		parked := harness.As[*fault.Terminal](t, r.perform(st, still).err)
		assert.Contains(t, parked.Reason, "step")
		assert.Zero(t, a.Hits())
	})
}

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
		"both":                     {schemas.AgentAuto, double.Config{}, [2][]string{{stream}, {sync}}, false},
		"stream first":             {schemas.AgentStream, double.Config{}, [2][]string{{stream}, {stream}}, false},
		"sync first":               {schemas.AgentSync, double.Config{}, [2][]string{{sync}, {sync}}, false},
		"404":                      {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", detail), [2][]string{}, false},
		"404, a page":              {schemas.AgentAuto, refuse(http.StatusNotFound, "text/html", "<h1>Cannot POST</h1>"), [2][]string{}, false},
		"405":                      {schemas.AgentAuto, refuse(http.StatusMethodNotAllowed, "text/plain", ""), [2][]string{}, false},
		"501":                      {schemas.AgentAuto, refuse(http.StatusNotImplemented, "text/plain", "no"), [2][]string{}, false},
		"neither":                  {schemas.AgentAuto, neither, [2][]string{}, true},
		"404, the agent's answer":  {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", contract), [2][]string{{stream}, {sync}}, true},
		"404, an error of its own": {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"error":{"code":"DOC_NOT_FOUND","message":"m"}}`), [2][]string{{stream}, {sync}}, true},
		"404, a detail of its own": {schemas.AgentAuto, refuse(http.StatusNotFound, "application/json", `{"detail":"document 17 not found"}`), [2][]string{{stream}, {sync}}, true},
		"406":                      {schemas.AgentAuto, refuse(http.StatusNotAcceptable, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
		"500":                      {schemas.AgentAuto, refuse(http.StatusInternalServerError, "text/plain", ""), [2][]string{{stream}, {sync}}, true},
	} {
		for i, caller := range []string{"stream", "sync"} {
			if i > 0 && tt.mode == schemas.AgentAuto && tt.failed { // the status says the same of either route
				continue
			}
			t.Run(name+", "+caller, func(t *testing.T) {
				t.Parallel()
				a := double.New(t, tt.agent)
				served := to(a)
				served.Mode = tt.mode
				r := newEnv(t, options{}, served)
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
	members := fixture.Decode[map[string]any](t, []byte(extras))
	members["provenance"] = json.RawMessage(`{"model":"m","n":1.50}`)
	a := double.New(t, double.Config{Script: []double.Act{{Extras: members}}})
	served := to(a)
	served.Mode = schemas.AgentAuto
	r := newEnv(t, options{}, served)
	r.sync = true
	e := r.run("r-2")
	require.Nil(t, e.result.Error)
	got, err := json.Marshal(e.result.RunExtras)
	require.NoError(t, err)
	assert.JSONEq(t, extras, string(got))
	assert.Contains(t, string(got), `"n":1.50`)
	assert.NotContains(t, r.types("r-2"), schemas.EventProgress)
}

// told is a run whose call has ended in a way.
func told(t *testing.T, res *schemas.Attempted) ended {
	t.Helper()
	r := newEnv(t, options{}, schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream, Concurrency: 1})
	st := r.claim("r-1", schemas.Run{}, time.Minute)
	attempt := &schemas.Attempt{Number: 1, Class: schemas.ClassOnce, Worker: "w0", Decision: schemas.Decision{Allowed: true, Entry: "agent:DOUBLE"}}
	harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempt, Attempt: attempt})
	harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempted: res})
	e := r.done(st, still)
	require.NotNil(t, e.result.Error)
	return e
}

// TestWhatAnEndSays: an agent that is busy is unavailable, and what it said is kept up to a length. What
// stands before an agent may have passed the run on, and what was done by the end of a run stands: nobody
// is told that it was not begun.
func TestWhatAnEndSays(t *testing.T) {
	t.Parallel()
	long, again := strings.Repeat("ä", 600), "before the run is sent again"
	type testCase struct {
		status  int
		broke   schemas.Code // in place of an answer
		body    string
		code    schemas.Code // of the error
		says    string
		details string
	}
	cases := map[string]testCase{
		"503, no words": {503, "", `{}`, schemas.AgentUnavailable, "status 503", `{"status":503,"retry_after_ms":7000}`},
		"429, no words": {429, "", `{}`, schemas.AgentUnavailable, "status 429", `{"status":429,"retry_after_ms":7000}`},
		"503, its words": {
			503, "", `{"error":{"code":"OVERLOADED","message":"ask again later","details":{"queue":9}}}`, schemas.AgentUnavailable, "status 503",
			`{"status":503,"retry_after_ms":7000,"agent_error":{"code":"OVERLOADED","message":"ask again later"}}`,
		},
		"503, many words": {
			503, "", `{"error":{"code":"X","message":"` + long + `"}}`, schemas.AgentUnavailable, "status 503",
			`{"status":503,"retry_after_ms":7000,"agent_error":{"code":"X","message":"` + long[:1024] + `"}}`,
		},
		"504, its words": {
			504, "", `{"error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`, schemas.TaskFailed, "may have begun",
			`{"status":504,"retry_after_ms":7000,"agent_error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`,
		},
		"502, no words": {502, "", `{}`, schemas.TaskFailed, again, `{"status":502,"retry_after_ms":7000}`},
	}
	for _, code := range []schemas.Code{schemas.UpstreamTruncated, schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTooLarge, schemas.UpstreamTimeout} {
		cases["200, "+string(code)] = testCase{200, code, "", schemas.TaskFailed, "the agent's work until then stays in effect: look at it " + again, `{"code":"` + string(code) + `"}`}
	}
	table.Run(t, cases, func(t *testing.T, tt testCase) {
		res := &schemas.Attempted{Number: 1, Sent: true, Status: tt.status, Code: tt.broke}
		if tt.broke == "" {
			res.Answer = &schemas.Answer{Status: tt.status, Body: json.RawMessage(tt.body), RetryAfter: 7 * time.Second}
		}
		e := told(t, res)
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, string(tt.code), e.result.Error.Code)
		assert.Contains(t, e.result.Error.Message, tt.says)
		assert.JSONEq(t, tt.details, string(e.result.Error.Details))
	})
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
		r := newEnv(t, options{rules: &book}, to(a))
		e := r.run("r-1")
		assert.Equal(t, tt.outcome, e.Outcome, "%+v", e.Outcome)
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
	r := newEnv(t, options{rules: &book}, to(a))
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
	r := newEnv(t, options{rules: &book}, to(a))
	st := r.claim("r-1", schemas.Run{}, 5*time.Minute)
	e := r.perform(st, still)
	rest := harness.As[*call.Deferral](t, e.err)
	assert.Equal(t, schemas.WaitRule, rest.Reason)
	assert.Zero(t, a.Hits())
	r.metrics.mu.Lock()
	defer r.metrics.mu.Unlock()
	assert.Zero(t, r.metrics.runs[double.TaskType])
}
