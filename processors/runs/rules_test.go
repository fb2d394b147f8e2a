package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

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
	e := r.perform(st, still{})
	var rest *call.Rest
	require.ErrorAs(t, e.err, &rest)
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
