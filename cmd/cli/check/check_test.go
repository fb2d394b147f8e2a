package check_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/cmd/cli/check"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, a *agent.Agent, cfg check.Config) check.Report {
	t.Helper()
	cfg.Grace = cmp.Or(cfg.Grace, time.Minute)
	return check.Run(t.Context(), check.Target{URL: a.URL(), TaskType: agent.TaskType}, cfg)
}

// with lists the rules that have a verdict.
func with(r check.Report, verdict string) []string {
	var ids []string
	for _, rule := range r.Rules {
		if rule.Result == verdict {
			ids = append(ids, rule.ID)
		}
	}
	return ids
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	a := agent.New(t, agent.Config{Token: "secret"})
	r := run(t, a, check.Config{Token: "secret", Inputs: json.RawMessage(`{"n":1.50}`)})
	assert.True(t, r.Passed)
	assert.Equal(t, check.Rules(), with(r, check.Passed))
	runs := a.Ledger()
	require.Len(t, runs, 2)
	assert.Equal(t, 2, a.Refused(), "the unknown task type and the malformed request")
	assert.NotEqual(t, runs[0].Run.RequestID, runs[1].Run.RequestID)
	for _, run := range runs {
		assert.True(t, schemas.ValidID(run.Run.RequestID))
		assert.JSONEq(t, `{"n":1.50}`, string(run.Run.Inputs))
	}
}

// breakers has, for each rule, what breaks it and no other. Bodies without any
// answer break reach.
func breakers() map[string][]agent.Config {
	fault := func(faults ...agent.Fault) (all []agent.Config) {
		for _, f := range faults {
			all = append(all, agent.Config{Fault: f})
		}
		return all
	}
	only := func(route int, f agent.Fault) []agent.Config {
		script := []agent.Act{{}, {}}
		script[route].Fault = f
		return []agent.Config{{Script: script}}
	}
	said := &schemas.RunError{Code: "TASK_FAILED", Message: "no \x1b[31m inputs"}
	return map[string][]agent.Config{
		"reach":              {},
		"health.status":      fault(agent.HealthStatus),
		"health.body":        fault(agent.HealthBody),
		"ready.status":       fault(agent.ReadyStatus),
		"ready.body":         fault(agent.ReadyBody),
		"sync.status":        append(fault(agent.SyncStatus), slices.Concat(only(0, agent.Redirects), only(0, agent.Status500), only(0, agent.DiesUnanswered))...),
		"sync.type":          fault(agent.SyncType),
		"sync.body":          append(fault(agent.SyncNotJSON), only(0, agent.HugeEnd)...),
		"sync.request_id":    fault(agent.SyncNoID, agent.SyncOtherID),
		"sync.success":       append(fault(agent.SyncNoSuccess), agent.Config{Script: []agent.Act{{Error: said}, {}}}),
		"sync.error":         fault(agent.SyncErrorBeside),
		"sync.outputs":       fault(agent.SyncNoOutputs, agent.SyncOutputsList),
		"sync.members":       fault(agent.SyncNulls, agent.SyncOddArtifacts),
		"sync.word":          only(0, agent.StatusWord),
		"stream.status":      append(fault(agent.StreamStatus), slices.Concat(only(1, agent.NoStream404), only(1, agent.NeverAnswers))...),
		"stream.type":        fault(agent.StreamType),
		"stream.first":       append(fault(agent.StreamSilent), only(1, agent.EmptyStream)...),
		"stream.utf8":        fault(agent.StreamNotUTF8),
		"stream.framing":     fault(agent.StreamBareLine),
		"stream.names":       append(fault(agent.DataType), only(1, agent.DataEvent)...),
		"stream.data":        fault(agent.StreamNotJSON),
		"stream.blank":       fault(agent.NoBlankLine),
		"start.name":         fault(agent.StreamNoStart),
		"start.request_id":   fault(agent.StartNoID),
		"start.task_type":    fault(agent.StartNoTask),
		"stream.terminal":    append(fault(agent.NoEnd), slices.Concat(only(1, agent.DiesMidStream), only(1, agent.EndlessEvents), only(1, agent.EndlessLine))...),
		"stream.single":      fault(agent.TwoEnds),
		"stream.last":        fault(agent.EventAfterEnd),
		"stream.close":       fault(agent.HoldsOpen),
		"end.request_id":     fault(agent.EndNoID, agent.EndOtherID),
		"end.task_type":      fault(agent.EndNoTaskType, agent.EndOtherType),
		"end.status":         fault(agent.EndNoStatus),
		"end.success":        append(fault(agent.EndNoSuccess), agent.Config{Script: []agent.Act{{}, {Error: said}}}),
		"end.error":          fault(agent.EndErrorBeside),
		"end.outputs":        fault(agent.EndNoOutputs),
		"end.members":        fault(agent.EndNulls),
		"end.word":           only(1, agent.StatusWord),
		"unknown.status":     fault(agent.UnknownAccepted, agent.UnknownStatus),
		"unknown.body":       fault(agent.UnknownShape),
		"unknown.request_id": fault(agent.UnknownOtherID),
		"malformed.status":   fault(agent.MalformedAccepted),
	}
}

// short is for faults that last until a limit of the check passes.
func short(cfg agent.Config) check.Config {
	last := cfg.Fault
	if last == "" {
		last = cfg.Script[len(cfg.Script)-1].Fault
	}
	switch last {
	case agent.StreamSilent, agent.NeverAnswers:
		return check.Config{FirstEvent: 5 * time.Second}
	case agent.HoldsOpen:
		return check.Config{Grace: 300 * time.Millisecond}
	default:
		return check.Config{}
	}
}

func TestEachRule(t *testing.T) {
	t.Parallel()
	all := breakers()
	for _, id := range check.Rules() {
		require.Contains(t, all, id, "a rule that nothing breaks")
		for _, cfg := range all[id] {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				r := run(t, agent.New(t, cfg), short(cfg))
				broken := append(with(r, check.Failed), with(r, check.Warning)...)
				assert.Equal(t, []string{id}, broken)
				for _, rule := range r.Rules {
					assert.Equal(t, rule.Result == check.Passed, rule.Passed)
					if rule.ID == id {
						assert.NotEmpty(t, rule.Found)
						assert.NotEmpty(t, rule.Hint)
						assert.Equal(t, rule.Result == check.Warning, r.Passed, "a warning fails no target")
						assert.NotContains(t, rule.Found, "\x1b")
						assert.Less(t, len(rule.Found), 500)
					}
				}
			})
		}
		delete(all, id)
	}
	require.Empty(t, all, "what breaks a rule that is not there")
}

// TestOtherForms has what a correct service may do, too.
func TestOtherForms(t *testing.T) {
	t.Parallel()
	for _, f := range []agent.Fault{
		agent.NameFinal, agent.NameDone, agent.CRLF, agent.CR, agent.Comments, agent.ByteOrder,
		agent.MultiLine, agent.NoSpace, agent.IDs, agent.EmptyEvents, agent.HugeProgress,
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			r := run(t, agent.New(t, agent.Config{Script: []agent.Act{{}, {Fault: f}}}), check.Config{})
			assert.Equal(t, check.Rules(), with(r, check.Passed))
		})
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	r := run(t, agent.New(t, agent.Config{Token: "secret"}), check.Config{})
	assert.Equal(t, []string{"sync.status", "stream.status"}, with(r, check.Failed))
	i := slices.IndexFunc(r.Rules, func(r check.Result) bool { return r.ID == "sync.status" })
	assert.Contains(t, r.Rules[i].Hint, "--token-file")
	assert.Contains(t, with(r, check.Skipped), "malformed.status", "a 401 proves nothing")
}

// TestStops shows that a check ends with its context.
func TestStops(t *testing.T) {
	t.Parallel()
	a := agent.New(t, agent.Config{Script: []agent.Act{{}, {Fault: agent.Stalls}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan check.Report)
	go func() { done <- check.Run(ctx, check.Target{URL: a.URL(), TaskType: agent.TaskType}, check.Config{}) }()
	a.WaitRun(2)
	cancel()
	r := <-done
	assert.False(t, r.Passed)
	assert.Contains(t, with(r, check.Passed), "sync.members")
}

func TestTargets(t *testing.T) {
	t.Parallel()
	got, err := check.Targets([]string{"http://a:1=A,https://b/base/=B.c:1-_", "http://[::1]:9=C"})
	require.NoError(t, err)
	assert.Equal(t, []check.Target{{"http://a:1", "A"}, {"https://b/base", "B.c:1-_"}, {"http://[::1]:9", "C"}}, got)
	for _, bad := range []string{
		"", "http://a", "http://a=", "a:1=A", "ftp://a=A", "http://=A", "http://u:p@a=A", "http://a?q=A", "http://a#f=A",
		"http://a=A,", "http://a=A B", "http://a=" + strings.Repeat("A", 129), "http://a\x7f=A",
	} {
		_, err := check.Targets([]string{bad})
		require.Error(t, err, bad)
		assert.NotContains(t, err.Error(), "u:p")
	}
	for route, base := range map[string]string{
		"/agents/run/sync": "http://a/x/agents/run/sync", "/agents/run/stream": "http://a/agents/run/stream/", "/agents/run": "http://a/agents/run",
	} {
		_, err := check.Targets([]string{base + "=A"})
		require.ErrorContains(t, err, "leave out "+route)
	}
}

// failures has what was found, and the hint, by rule.
func failures(r check.Report) map[string][2]string {
	all := map[string][2]string{}
	for _, rule := range r.Rules {
		if rule.Result == check.Failed {
			all[rule.ID] = [2]string{rule.Found, rule.Hint}
		}
	}
	return all
}

// TestHints: of a run that did not succeed, and of a refusal, the report has what the service says was in its way, and a
// hint about that, on both routes.
func TestHints(t *testing.T) {
	t.Parallel()
	failed := func(code, message, details string) agent.Act {
		e := &schemas.RunError{Code: code, Message: message}
		if details != "" {
			e.Details = json.RawMessage(details)
		}
		return agent.Act{Error: e}
	}
	for want, act := range map[[2]string]agent.Act{
		{`status is "error"; its error is "AGENT_UNAVAILABLE": "no \"x\""`, "start the agent that serves"}: failed("AGENT_UNAVAILABLE", `no "x"`, ""),
		{`status is "error"; its error is "TASK_FAILED": "no"`, "if it needs inputs"}:                      failed("TASK_FAILED", "no", ""),
		{`status is "error"; its error is "VALIDATION_ERROR"`, "give the inputs"}:                          failed("VALIDATION_ERROR", "", ""),
		{`status is "error"; its error is "UNSUPPORTED_TASK_TYPE"`, "name a task type"}:                    failed("UNSUPPORTED_TASK_TYPE", "", ""),
		{`status is "error"; its error is "TASK_FAILED" ("DENY_HOST"): "no"`, "its policy denies"}:         failed("TASK_FAILED", "no", `{"code":"DENY_HOST"}`),
		{`status is "error"; its error is "TASK_FAILED": "odd"`, "if it needs inputs"}:                     failed("TASK_FAILED", "odd", `[5]`),
		{`its error is "UNSUPPORTED_TASK_TYPE"`, "name a task type"}:                                       {Fault: agent.Status400},
		{`its error is "VALIDATION_ERROR"`, "--inputs"}:                                                    {Fault: agent.Status422},
		{"429 Too Many Requests", "busy"}:                                                                  {Fault: agent.Status429},
		{"503 Service Unavailable", "busy"}:                                                                {Fault: agent.Status503},
		{"307 Temporary Redirect", "redirects are not followed"}:                                           {Fault: agent.Redirects},
		{"404 Not Found", "serve this route"}:                                                              {Fault: agent.NoStream404},
		{"500 Internal Server Error", "serve this route"}:                                                  {Fault: agent.Status500},
	} {
		t.Run(want[0], func(t *testing.T) {
			t.Parallel()
			ids := []string{"sync.status", "stream.status"}
			switch {
			case act.Error != nil:
				ids = []string{"sync.success", "end.success"}
			case act.Fault == agent.NoStream404:
				ids = ids[1:]
			}
			got := failures(run(t, agent.New(t, agent.Config{Script: []agent.Act{act}}), check.Config{}))
			assert.Len(t, got, len(ids))
			for _, id := range ids {
				assert.Contains(t, got[id][0], want[0], id)
				assert.Contains(t, got[id][1], want[1], id)
			}
		})
	}
}

// TestFoundIsTheMember as the document has it, on one line and not at any length.
func TestFoundIsTheMember(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	for value, want := range map[string]string{
		`"over"`:             `"over"`,
		`{ "a" : [1, "b"] }`: `{"a":[1,"b"]}`,
		`"a \"b\""`:          `"a \"b\""`,
		`"\u001b[31m"`:       `"\u001b[31m"`,
		`"` + long + `"`:     `"` + long[:2*159] + `…`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			doc := `{"request_id":"x","outputs":{},"status":` + value + `}`
			a := agent.New(t, agent.Config{Script: []agent.Act{{Answer: func(x *agent.Exchange) {
				x.Begin(http.StatusOK, "application/json")
				x.Write(doc)
			}}, {}}})
			for _, rule := range run(t, a, check.Config{}).Rules {
				if rule.ID == "sync.success" {
					assert.Equal(t, "status is "+want, rule.Found)
				}
			}
		})
	}
}

// TestPrint is the readable report as a person sees it, byte for byte.
func TestPrint(t *testing.T) {
	t.Parallel()
	dead := agent.New(t, agent.Config{})
	dead.Close()
	type testCase struct {
		of   *agent.Agent
		want string
	}
	table.Run(t, map[string]testCase{
		"a warning": {agent.New(t, agent.Config{Fault: agent.StartNoTask}), `
AT DOUBLE: passed
  health    5 passed
  sync      9 passed
  stream    1 warning, 22 passed
    warning  start.task_type: its task_type is the request's
             found: there is no task_type
             fix:   repeat task_type as it came
  refusals  4 passed
  40 passed, 0 failed, 0 skipped, 1 warnings
`},
		"two to blame": {agent.New(t, agent.Config{Script: []agent.Act{{Fault: agent.Status503}, {Fault: agent.EmptyStream}}}), `
AT DOUBLE: failed
  health    5 passed
  sync      1 failed, 8 skipped
    failed   sync.status: POST /agents/run/sync answers 200
             found: 503 Service Unavailable; its error is "AGENT_UNAVAILABLE": "the agent does not take it"
             fix:   it says that it is busy or not ready; try again when it is neither
  stream    1 failed, 2 passed, 20 skipped
    failed   stream.first: the first event comes in time
             found: the stream closed without one
             fix:   send started as soon as the run is taken, and flush it
  refusals  not checked
  32 rules could not be checked because sync.status and stream.first failed
  7 passed, 2 failed, 32 skipped, 0 warnings
`},
		"nobody there": {dead, `
AT DOUBLE: failed
  health    1 failed, 4 skipped
    failed   reach: the service answers at all
             found: no answer: "dial tcp ADDRESS: connect: connection refused"
             fix:   start it, and name the address it listens on
  sync      not checked
  stream    not checked
  refusals  not checked
  40 rules could not be checked because reach failed
  0 passed, 1 failed, 40 skipped, 0 warnings
`},
	}, func(t *testing.T, tt testCase) {
		at := strings.TrimPrefix(tt.of.URL(), "http://")
		got := strings.NewReplacer(tt.of.URL(), "AT", at, "ADDRESS").Replace(run(t, tt.of, check.Config{}).Text())
		assert.Equal(t, strings.TrimPrefix(tt.want, "\n"), got)
	})
}
