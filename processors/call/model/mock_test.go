package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call/model"
	"weir/processors/guard"
	"weir/schemas"
)

// TestMock: a rule's answer is read as a provider's would be, and the provider hears
// nothing.
func TestMock(t *testing.T) {
	t.Parallel()
	const whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"mocked"},"finish_reason":"stop"}]}`
	const events = `data: {"choices":[{"index":0,"delta":{"content":"mo"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"cked"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	type testCase struct {
		rule   schemas.Rule
		status int // default 200
		fault  string
		code   schemas.Code
	}
	table.Run(t, map[string]testCase{
		"a document":       {rule: rulebook.Mock("m", "*", 200, whole)},
		"a stream":         {rule: rulebook.MockText("m", "*", 200, "text/event-stream", events)},
		"a refusal":        {rule: rulebook.Mock("m", "*", 429, `{"error":{"message":"later"}}`), status: 429, fault: "later"},
		"no success":       {rule: rulebook.Mock("m", "*", 503, ""), status: 503},
		"an error":         {rule: rulebook.Mock("m", "*", 200, `{"error":{"code":429,"message":"later"}}`), fault: "later"},
		"an error in list": {rule: rulebook.Mock("m", "*", 200, `[{"error":{"code":429,"message":"later"}}]`), fault: "later"},
		"a list":           {rule: rulebook.Mock("m", "*", 200, `[]`), code: schemas.UpstreamProtocol},
		"nothing":          {rule: rulebook.Mock("m", "*", 200, ""), code: schemas.UpstreamTruncated},
		"another document": {rule: rulebook.Mock("m", "*", 200, `{"ok":true}`), code: schemas.UpstreamProtocol},
		"no choice":        {rule: rulebook.MockText("m", "*", 200, "", "data: {}\n\ndata: [DONE]\n\n"), code: schemas.UpstreamProtocol},
		"an error event":   {rule: rulebook.MockText("m", "*", 200, "", "event: error\ndata: {\"type\":\"x\",\"message\":\"later\"}\n\n"), fault: "later"},
		"an error in text": {rule: rulebook.MockText("m", "*", 200, "", "event: error\ndata: later\n\n"), fault: "later"},
		"another's events": {rule: rulebook.MockText("m", "*", 200, "", "event: ping\ndata: pong\n\n"+events)},
		"no event":         {rule: rulebook.MockText("m", "*", 200, "text/plain", "no healthy upstream"), code: schemas.UpstreamProtocol},
		"too large":        {rule: rulebook.MockText("m", "*", 200, "", "data: "+strings.Repeat("x", 70<<10)+"\n\n"), code: schemas.UpstreamTooLarge},
		"a large document": {rule: rulebook.Mock("m", "*", 200, `{"x":"`+strings.Repeat("x", 70<<10)+`"}`), code: schemas.UpstreamTooLarge},
	}, func(t *testing.T, tt testCase) {
		s := llm.New(t, llm.Config{})
		l := newLine(t, s.URL())
		var book rulebook.Book
		book.Put(t, tt.rule)
		l.guard = ruled(t, s.URL(), &book)
		for _, stream := range []bool{true, false} {
			h := l.talk(t.Context(), t, request("m", stream), model.Talk{Stream: stream})
			require.Equal(t, tt.code, h.code(), "%v", h.err)
			if tt.code != "" {
				continue
			}
			assert.Equal(t, max(200, tt.status), h.status)
			if tt.fault != "" {
				assert.Equal(t, tt.fault, h.told.Fault.Message)
			} else if tt.status == 0 {
				assert.Contains(t, string(h.told.Completion), `"content":"mocked"`)
				assert.Equal(t, stream, h.text(t) == "mocked")
			}
		}
		assert.Zero(t, s.Hits())
	})
}

func ruled(t *testing.T, base string, book *rulebook.Book) *guard.Guard {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: schemas.ModelEntry("up"), URLPrefix: base + schemas.RouteChat, Methods: []string{"POST"}, Network: policy.NetworkLoopback, Agent: true,
	}}})
	require.NoError(t, err)
	return guard.New(func() *policy.Policy { return p }, book)
}
