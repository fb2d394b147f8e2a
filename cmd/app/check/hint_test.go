package check_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/cmd/app/check"
	"weir/internal/weirtest/agent"
	"weir/schemas"
)

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

// TestHintsFitTheError: of a run that did not succeed the hint is about what the
// service says was in its way, on both routes.
func TestHintsFitTheError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err         schemas.RunError
		found, hint string
	}{
		{
			schemas.RunError{Code: "AGENT_UNAVAILABLE", Message: `no "x"`},
			"status is \"error\"; its error is \"AGENT_UNAVAILABLE\": `no \"x\"`", "start the agent behind it",
		},
		{schemas.RunError{Code: "TASK_FAILED", Message: "no"}, `status is "error"; its error is "TASK_FAILED": "no"`, "if it needs inputs"},
		{schemas.RunError{Code: "VALIDATION_ERROR"}, `status is "error"; its error is "VALIDATION_ERROR"`, "give the inputs"},
		{schemas.RunError{Code: "UNSUPPORTED_TASK_TYPE"}, `status is "error"; its error is "UNSUPPORTED_TASK_TYPE"`, "name a task type"},
		{
			schemas.RunError{Code: "TASK_FAILED", Message: "no", Details: json.RawMessage(`{"code":"DENY_HOST"}`)},
			`status is "error"; its error is "TASK_FAILED" ("DENY_HOST"): "no"`, "its policy denies",
		},
		{schemas.RunError{Code: "TASK_FAILED", Message: "no", Details: json.RawMessage(`[5]`)}, `status is "error"; its error is "TASK_FAILED": "no"`, "if it needs inputs"},
	} {
		t.Run(tt.found, func(t *testing.T) {
			t.Parallel()
			got := failures(run(t, agent.New(t, agent.Config{Script: []agent.Act{{Error: &tt.err}}}), check.Config{}))
			assert.Len(t, got, 2)
			for _, id := range []string{"sync.success", "end.success"} {
				assert.Equal(t, tt.found, got[id][0], id)
				assert.Contains(t, got[id][1], tt.hint, id)
			}
		})
	}
}

// TestHintsFitTheStatus: a refusal of either route is told with its error, and
// the hint is about that.
func TestHintsFitTheStatus(t *testing.T) {
	t.Parallel()
	for fault, want := range map[agent.Fault][2]string{
		agent.Status400:   {`its error is "UNSUPPORTED_TASK_TYPE"`, "name a task type"},
		agent.Status422:   {`its error is "VALIDATION_ERROR"`, "--inputs"},
		agent.Status429:   {"429 Too Many Requests", "busy"},
		agent.Status503:   {"503 Service Unavailable", "busy"},
		agent.Redirects:   {"307 Temporary Redirect", "redirects are not followed"},
		agent.NoStream404: {"404 Not Found", "serve this route"},
		agent.Status500:   {"500 Internal Server Error", "serve this route"},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			script := []agent.Act{{Fault: fault}}
			ids := []string{"sync.status", "stream.status"}
			if fault == agent.NoStream404 {
				ids = ids[1:]
			}
			got := failures(run(t, agent.New(t, agent.Config{Script: script}), check.Config{}))
			assert.Len(t, got, len(ids))
			for _, id := range ids {
				assert.Contains(t, got[id][0], want[0], id)
				assert.Contains(t, got[id][1], want[1], id)
			}
		})
	}
}

// TestFoundIsQuotedOnce has members as they stand in a document, on one line and
// with nothing that a terminal obeys.
func TestFoundIsQuotedOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	for value, want := range map[string]string{
		`"over"`:               `"over"`,
		`5`:                    `5`,
		`null`:                 `null`,
		`{ "a" : [1, "b"] }`:   `{"a":[1,"b"]}`,
		`"a \"b\""`:            "`a \"b\"`",
		"\"a`\\\"\"":           "\"a`\\\"\"",
		`"\u001b[31m"`:         `"\x1b[31m"`,
		"[\"\u202e\"]":         `"[\"\u202e\"]"`,
		`"` + long + `"`:       `"` + long[:160] + `…"`,
		`["` + long + `"]`:     `["` + long[:158] + `…`,
		`"` + "é" + long + `"`: `"\u00e9` + long[:154] + `…"`,
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
