package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/guard"
	"weir/schemas"
)

// TestMock: a rule's answer is read as an agent's would be, in every dialect, and the
// agent hears nothing.
func TestMock(t *testing.T) {
	t.Parallel()
	const end = `{"request_id":"r-1","status":"ok","outputs":{"a":1}}`
	sse := func(events ...string) schemas.Rule {
		return rulebook.MockText("m", "*", 200, "text/event-stream", strings.Join(events, ""))
	}
	type testCase struct {
		rule    schemas.Rule
		events  int
		outputs string
		failed  string       // the code of the end's error
		status  int          // default 200
		code    schemas.Code // of the failed call
	}
	table.Run(t, map[string]testCase{
		"a document":           {rule: rulebook.Mock("m", "*", 200, end), outputs: `{"a":1}`},
		"a stream":             {rule: sse("event: started\ndata: {\"request_id\":\"r-1\"}\n\n", "event: progress\ndata: {\"n\":1}\n\n", "event: complete\ndata: "+end+"\n\n"), events: 1, outputs: `{"a":1}`},
		"a stream by its look": {rule: rulebook.MockText("m", "*", 200, "", "event: complete\ndata: "+end+"\n\n"), outputs: `{"a":1}`},
		"a failure":            {rule: rulebook.Mock("m", "*", 200, `{"request_id":"r-1","status":"error","error":{"code":"TASK_FAILED","message":"no"}}`), failed: "TASK_FAILED"},
		"a refusal":            {rule: rulebook.Mock("m", "*", 429, `{"error":{"code":"BUSY","message":"later"}}`), status: 429, failed: "BUSY"},
		"no such route":        {rule: rulebook.Mock("m", "*", 404, ""), status: 404},
		"no end":               {rule: sse("event: progress\ndata: {}\n\n"), events: 1, code: schemas.UpstreamTruncated},
		"nothing":              {rule: rulebook.Mock("m", "*", 200, ""), code: schemas.UpstreamProtocol},
		"an array":             {rule: rulebook.Mock("m", "*", 200, "[]"), code: schemas.UpstreamProtocol},
	}, func(t *testing.T, tt testCase) {
		a := double.New(t, double.Config{})
		l := newLine(t, a.URL())
		var book rulebook.Book
		book.Put(t, tt.rule)
		l.guard = ruled(t, a.URL(), &book)
		events, got, reply, err := l.talk(t.Context(), t, schemas.RouteRunStream)
		assert.Empty(t, a.Ledger())
		if tt.code != "" {
			var failed *fault.Call
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, tt.code, failed.Code)
			return
		}
		require.NoError(t, err)
		assert.Len(t, events, tt.events)
		if tt.status == 0 {
			tt.status = 200
		}
		assert.Equal(t, tt.status, reply.Answer.Status)
		if tt.failed != "" {
			require.NotNil(t, got.Error)
			assert.Equal(t, tt.failed, got.Error.Code)
		} else {
			assert.Nil(t, got.Error)
		}
		if tt.outputs != "" {
			assert.JSONEq(t, tt.outputs, string(got.Outputs))
		}
	})
}

// ruled is the guard of a line that goes by rules.
func ruled(t *testing.T, base string, rules guard.Rules) *guard.Guard {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: schemas.AgentEntry(double.TaskType), URLPrefix: base + "/agents/run/", Methods: []string{"POST"},
		Network: policy.NetworkLoopback, Agent: true, Headers: map[string]string{"Authorization": "Bearer ${secret:NONE}"},
	}}})
	require.NoError(t, err)
	return guard.New(func() *policy.Policy { return p }, rules)
}
