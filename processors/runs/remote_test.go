package runs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
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
	calls   int    // of the agent; default 1
}

func TestEveryVerdict(t *testing.T) {
	t.Parallel()
	ok := verdict{outcome: schemas.OutcomeSucceeded}
	said := verdict{schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", `{"stage":3}`, 1}
	breach := verdict{schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", `{"code":"UPSTREAM_PROTOCOL"}`, 1}
	broke := func(code schemas.Code) verdict {
		return verdict{schemas.OutcomeFailed, code, "TASK_FAILED", `{"code":"` + string(code) + `"}`, 1}
	}
	busy := func(status, code string) string {
		return `{"status":` + status + `,"agent_error":{"code":"` + code + `","message":"the agent does not take it"}}`
	}
	status := func(word schemas.Code, details string) verdict {
		return verdict{schemas.OutcomeFailed, word, string(word), details, 1}
	}
	for f, want := range map[double.Fault]verdict{
		double.Correct: ok, double.JSONOnStream: ok, // what an adapter reads as either is shown there
		double.NoStream404: {outcome: schemas.OutcomeSucceeded, calls: 2}, double.NoStream405: {outcome: schemas.OutcomeSucceeded, calls: 2},
		double.NoStream406: {schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", "", 1}, double.NoStream501: {outcome: schemas.OutcomeSucceeded, calls: 2},
		double.Failed: said, double.ErrorText: {schemas.OutcomeFailed, schemas.TaskFailed, "TASK_FAILED", "", 1},
		double.EndOtherID: breach,
		double.Status400:  {schemas.OutcomeFailed, schemas.TaskFailed, "UNSUPPORTED_TASK_TYPE", "", 1},
		double.Status422:  {schemas.OutcomeFailed, schemas.TaskFailed, "VALIDATION_ERROR", "", 1},
		double.Status429:  status(schemas.AgentUnavailable, busy("429", "TASK_FAILED")), double.Status502: status(schemas.TaskFailed, `{"status":502}`),
		double.Status503: status(schemas.AgentUnavailable, busy("503", "AGENT_UNAVAILABLE")), double.Status500: status(schemas.TaskFailed, `{"status":500}`),
		double.Redirects: status(schemas.TaskFailed, `{"status":307}`),
		double.NoEnd:     broke(schemas.UpstreamTruncated), double.Garbage: broke(schemas.UpstreamProtocol), double.HugeEnd: broke(schemas.UpstreamTooLarge),
		double.DiesUnanswered: {schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, "TASK_FAILED", `{"code":"OUTCOME_UNKNOWN","resolve_url":"/v1/actions/r-1/resolve"}`, 1},
	} {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			a := double.New(t, double.Config{Fault: f})
			r := newRoom(t, options{}, to(a))
			e := r.run("r-1")
			assert.Equal(t, want.outcome, e.Outcome)
			assert.Equal(t, want.code, e.Code)
			assert.Equal(t, max(want.calls, 1), a.Hits(), "the agent is asked once a route")
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
	r := newRoom(t, options{}, to(a))
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
	r := newRoom(t, options{}, synced)
	budgets := harness.Decode[schemas.RunBudgets](t, []byte(`{"timeout_ms":60000,"max_output_tokens":60000,"own":{"z":1.50,"a":null}}`))
	order := schemas.RunOrder{
		TaskType: double.TaskType, WorkflowID: "w", StageID: "s", UserID: "u", Mode: "LIVE", RiskTier: "PHI", DomainID: "d",
		Budgets: &budgets,
	}
	require.Equal(t, schemas.OutcomeSucceeded, r.perform(r.claim("r-1", schemas.Run{RunOrder: order}, time.Minute), still).Outcome)
	got := a.WaitRun(1)
	assert.Equal(t, schemas.RouteRunSync, got.Route)
	assert.Equal(t, "application/json", got.Header.Get("Accept"))
	assert.Equal(t, "r-1", got.Header.Get("X-Request-Id"))
	assert.JSONEq(t, `{"request_id":"r-1","task_type":"DOUBLE","workflow_id":"w","stage_id":"s","user_id":"u","mode":"LIVE",
		"risk_tier":"PHI","domain_id":"d","inputs":{},"budgets":{"timeout_ms":60000,"max_output_tokens":60000,"own":{"z":1.50,"a":null}}}`, string(got.Body))
	assert.Contains(t, string(got.Body), `"own":{"z":1.50,"a":null}`, "byte for byte")
}

func TestAStopClosesTheAgentsConnection(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]double.Fault{"mid-stream": double.Stalls, "before the first word": double.NeverAnswers}, func(t *testing.T, f double.Fault) {
		a := double.New(t, double.Config{Fault: f})
		r := newRoom(t, options{}, to(a))
		stop := harness.NewStop(t)
		go func() {
			a.WaitRun(1)
			stop.Pull()
		}()
		e := r.done(r.claim("r-1", schemas.Run{}, time.Minute), stop)
		assert.Equal(t, schemas.OutcomeCanceled, e.Outcome)
		assert.JSONEq(t, `{"code":"CANCELED"}`, string(e.result.Error.Details))
		<-a.WaitRun(1).Closed()
		assert.True(t, a.WaitRun(1).Cut())
		assert.Len(t, r.evidence("r-1"), 1)
	})
}

func TestTheDeadlineEndsARun(t *testing.T) {
	t.Parallel()
	for _, f := range []double.Fault{double.NeverAnswers, double.Stalls} {
		t.Run("fault "+string(f), func(t *testing.T) {
			t.Parallel()
			a := double.New(t, double.Config{Fault: f})
			r := newRoom(t, options{}, to(a))
			e := r.done(r.claim("r-1", schemas.Run{}, 3*time.Second), still)
			assert.Equal(t, schemas.OutcomeExpired, e.Outcome)
			assert.Equal(t, schemas.DeadlineExceeded, e.Code)
			assert.JSONEq(t, `{"code":"DEADLINE_EXCEEDED"}`, string(e.result.Error.Details))
			<-a.WaitRun(1).Closed()
		})
	}
}

// TestTheAgentsOwnTimeout: before its first word nobody knows what it did.
func TestTheAgentsOwnTimeout(t *testing.T) {
	t.Parallel()
	for f, want := range map[double.Fault]schemas.Outcome{double.NeverAnswers: schemas.OutcomeUnknown, double.Stalls: schemas.OutcomeFailed} {
		a := double.New(t, double.Config{Fault: f})
		quick := to(a)
		quick.Timeout = 3 * time.Second
		e := newRoom(t, options{}, quick).run("r-1")
		assert.Equal(t, want, e.Outcome, f)
		if want == schemas.OutcomeFailed {
			assert.Equal(t, schemas.UpstreamTimeout, e.Code)
		}
	}
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
		r := newRoom(t, options{}, to(a))
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
		e := newRoom(t, options{}).run("r-1")
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.Equal(t, "AGENT_UNAVAILABLE", e.result.Error.Code)
		assert.Nil(t, e.result.Error.Details)
	})
	t.Run("on the network", func(t *testing.T) {
		t.Parallel()
		a := double.New(t, double.Config{})
		a.Close()
		r := newRoom(t, options{}, to(a))
		e := r.run("r-1")
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.JSONEq(t, `{"code":"UPSTREAM_CONNECT"}`, string(e.result.Error.Details))
		assert.Len(t, r.evidence("r-1"), 3, "nothing was sent, so it was tried again")
	})
	t.Run("in the policy, for this token", func(t *testing.T) {
		t.Parallel()
		a := double.New(t, double.Config{})
		r := newRoom(t, options{}, to(a))
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

// TestALogThatIsAway while the run is stopped or its time is up: how it ended is
// known, and written down once the log is back.
func TestALogThatIsAway(t *testing.T) {
	t.Parallel()
	type testCase struct {
		stop     bool
		deadline time.Duration
		want     schemas.Outcome
	}
	table.Run(t, map[string]testCase{
		"a stop":       {true, time.Minute, schemas.OutcomeCanceled},
		"the deadline": {false, 3 * time.Second, schemas.OutcomeExpired},
	}, func(t *testing.T, tt testCase) {
		stop := harness.NewStop(t)
		hooks := memlog.Hooks{Before: func(m schemas.Append) error {
			ev, err := ledger.Decode(m.Data)
			if err == nil && ev.Type == schemas.EventProgress {
				if tt.stop {
					stop.Pull()
				}
				return fault.ErrUnavailable
			}
			return nil
		}}
		a := double.New(t, double.Config{Fault: double.EndlessEvents})
		r := newRoom(t, options{hooks: hooks}, to(a))
		e := r.done(r.claim("r-1", schemas.Run{}, tt.deadline), stop)
		assert.Equal(t, tt.want, e.Outcome)
		<-a.WaitRun(1).Closed()
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
		r := newRoom(t, options{}, to(a))
		st := r.claim("r-1", schemas.Run{}, time.Minute)
		harness.Append(t, r.ledger, st, schemas.Event{Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Step: 2, Number: 1, Class: schemas.ClassOnce}, Attempted: res})
		parked := harness.As[*fault.Parked](t, r.perform(st, still).err)
		_, err := r.runs.Evidence(st)
		require.ErrorAs(t, err, &parked)
		assert.Zero(t, a.Hits())
	})
}

func TestADrainGivesTheRunBack(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{})
	r := newRoom(t, options{}, to(a))
	close(r.draining)
	e := r.perform(r.claim("r-1", schemas.Run{}, time.Minute), still)
	require.ErrorAs(t, e.err, new(*fault.Later))
	assert.Zero(t, a.Hits())
	var rest *call.Rest
	require.NotErrorAs(t, e.err, &rest)
}
