package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	double "weir/internal/weirtest/agent"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/guard"
	"weir/schemas"
)

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

// TestTheTimeOfARun is that of its end, not that of the connection.
func TestTheTimeOfARun(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{Fault: double.HoldsOpen})
	l := newLine(t, a.URL())
	start := time.Now()
	_, end, _, err := l.talk(t.Context(), t, schemas.RouteRunStream)
	all := time.Since(start)
	require.NoError(t, err)
	var usage struct {
		Duration *int64 `json:"duration_ms"`
	}
	require.NoError(t, json.Unmarshal(end.Usage, &usage))
	require.NotNil(t, usage.Duration)
	assert.LessOrEqual(t, time.Duration(*usage.Duration)*time.Millisecond+grace, all)
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
			failed := harness.As[*fault.Call](t, err)
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
