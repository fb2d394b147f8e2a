package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/table"
	"weir/processors/call/sse"
	"weir/schemas"
)

// sentence is one event with the terminal name.
type sentence struct{ name, data string }

// TestEnds holds what an agent says against what is kept of it, byte for byte.
func TestEnds(t *testing.T) {
	t.Parallel()
	const ok = `"request_id":"r-1","status":"ok"`
	const failure = `"request_id":"r-1","status":"error"`
	type testCase struct {
		said []sentence
		want string // the kept end; empty: there is none
	}
	table.Run(t, map[string]testCase{
		"all members": {
			[]sentence{{"final", `{` + ok + `,"task_type":"T","outputs":{"n":1.50},"artifacts":["a"],"provenance":{"p":1},"usage":{"duration_ms":5},"grounding":[1],"warnings":["w"]}`}},
			`{"outputs":{"n":1.50},"artifacts":["a"],"provenance":{"p":1},"usage":{"duration_ms":5},"grounding":[1],"warnings":["w"]}`,
		},
		"nulls": {
			[]sentence{{"final", `{` + ok + `,"task_type":null,"outputs":{"a":null},"artifacts":null,"provenance":null,"usage":null,"grounding":null,"warnings":null,"error":null}`}},
			`{"outputs":{"a":null}}`,
		},
		"odd members": {
			[]sentence{{"final", `{` + ok + `,"outputs":{},"artifacts":{},"provenance":[],"usage":3,"warnings":"one"}`}},
			`{"outputs":{},"warnings":["one","artifacts was not in the form of the contract and is left out","provenance was not in the form of the contract and is left out","usage was not in the form of the contract and is left out"]}`,
		},
		"empty error beside":     {[]sentence{{"final", `{` + ok + `,"outputs":{},"error":{"code":"","message":"","details":{}}}`}}, `{"outputs":{}}`},
		"detail beside":          {[]sentence{{"final", `{` + ok + `,"outputs":{},"detail":"fine","message":"done"}`}}, `{"outputs":{}}`},
		"letters of status":      {[]sentence{{"final", `{"request_id":"r-1","status":"OK","outputs":{}}`}}, `{"outputs":{}}`},
		"letters of members":     {[]sentence{{"final", `{"request_id":"r-1","Status":"ok","outputs":{}}`}}, ``},
		"outputs before data":    {[]sentence{{"final", `{` + ok + `,"data":{"b":1},"outputs":{"a":1}}`}}, `{"outputs":{"a":1}}`},
		"data for null outputs":  {[]sentence{{"final", `{` + ok + `,"data":{"b":1},"outputs":null}`}}, `{"outputs":{"b":1}}`},
		"no outweighs yes":       {[]sentence{{"final", `{` + ok + `,"success":false,"outputs":{}}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed"}}`},
		"yes with an odd status": {[]sentence{{"final", `{"request_id":"r-1","status":"finished","ok":true,"outputs":{}}`}}, `{"outputs":{}}`},
		"ok is no boolean":       {[]sentence{{"final", `{"request_id":"r-1","ok":"true","outputs":{}}`}}, ``},
		"degraded, and why": {
			[]sentence{{"final", `{"request_id":"r-1","status":"degraded","outputs":{},"error":{"message":"half"}}`}},
			`{"outputs":{},"warnings":["the agent reports a degraded result","the agent said: half"]}`,
		},
		"failure keeps the rest": {
			[]sentence{{"error", `{` + failure + `,"error":{"code":"X.Y","message":"m","details":{"a":1}},"usage":{"t":1},"warnings":["w"]}`}},
			`{"usage":{"t":1},"warnings":["w"],"error":{"code":"X.Y","message":"m","details":{"a":1}}}`,
		},
		"details of any kind": {[]sentence{{"final", `{` + failure + `,"error":{"code":"no word","details":[1]}}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"details":[1]}}}`},
		"error of any kind":   {[]sentence{{"final", `{` + failure + `,"error":["a"]}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"error":["a"]}}}`},
		"message":             {[]sentence{{"failed", `{` + failure + `,"message":"m"}`}}, `{"error":{"code":"TASK_FAILED","message":"m"}}`},
		"detail":              {[]sentence{{"failed", `{` + failure + `,"detail":[{"loc":"x"}]}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"detail":[{"loc":"x"}]}}}`},
		"outputs say why": {
			[]sentence{{"final", `{` + failure + `,"message":"m","outputs":{"warning":"w","error":"e","n":1.50}}`}},
			`{"outputs":{"warning":"w","error":"e","n":1.50},"error":{"code":"TASK_FAILED","message":"e"}}`,
		},
		"outputs warn": {
			[]sentence{{"final", `{` + failure + `,"outputs":{"error":{"a":1},"warning":"w"},"error":null}`}},
			`{"outputs":{"error":{"a":1},"warning":"w"},"error":{"code":"TASK_FAILED","message":"w"}}`,
		},
		"outputs say nothing": {
			[]sentence{{"final", `{` + failure + `,"message":"m","outputs":{"error":"","warning":[]}}`}},
			`{"outputs":{"error":"","warning":[]},"error":{"code":"TASK_FAILED","message":"m"}}`,
		},
		"outputs beside a text": {
			[]sentence{{"final", `{` + failure + `,"error":"t","outputs":{"error":"e"}}`}},
			`{"outputs":{"error":"e"},"error":{"code":"TASK_FAILED","message":"t"}}`,
		},
		"outputs beside an error": {
			[]sentence{{"final", `{` + failure + `,"error":{"code":"X"},"outputs":{"error":"e"}}`}},
			`{"error":{"code":"X","message":"the agent says that the task failed"}}`,
		},
		"outputs of an end without a status": {
			[]sentence{{"failed", `{"request_id":"r-1","outputs":{"error":"e"}}`}},
			`{"outputs":{"error":"e"},"error":{"code":"TASK_FAILED","message":"e"}}`,
		},
		"error as text alone": {[]sentence{{"error", `it broke`}}, `{"error":{"code":"TASK_FAILED","message":"it broke"}}`},
		"error before the end": {
			[]sentence{{"error", `it broke`}, {"done", `{}`}, {"final", `{` + ok + `,"outputs":{}}`}},
			`{"outputs":{},"warnings":["the agent sent an end that does not say whether the run succeeded","before its end the agent said: it broke"]}`,
		},
		"the same twice": {
			[]sentence{{"final", `{` + ok + `,"outputs":{"a":1,"b":[2]}}`}, {"complete", `{` + ok + `,"outputs":{"b":[2],"a":1}}`}},
			`{"outputs":{"a":1,"b":[2]},"warnings":["the agent sent more after its end"]}`,
		},
		"the same number otherwise": {
			[]sentence{{"final", `{` + ok + `,"outputs":{"a":1}}`}, {"complete", `{` + ok + `,"outputs":{"a":1.0}}`}},
			`{"error":{"code":"TASK_FAILED","message":"the agent ended the run twice, and differently","details":{"code":"UPSTREAM_PROTOCOL"}}}`,
		},
		"failure, then success": {
			[]sentence{{"final", `{` + failure + `}`}, {"complete", `{` + ok + `,"outputs":{}}`}},
			`{"error":{"code":"TASK_FAILED","message":"the agent ended the run twice, and differently","details":{"code":"UPSTREAM_PROTOCOL"}}}`,
		},
		"of another, then ours":  {[]sentence{{"final", `{"request_id":"r-2","status":"ok","outputs":{}}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent's end is that of another request","details":{"code":"UPSTREAM_PROTOCOL"}}}`},
		"a number for an id":     {[]sentence{{"final", `{"request_id":7,"status":"ok","outputs":{}}`}}, `{"outputs":{},"warnings":["the agent's end does not name the request"]}`},
		"done and nothing":       {[]sentence{{"done", `[DONE]`}}, ``},
		"an end that is no JSON": {[]sentence{{"final", `ok`}}, ``},
	}, func(t *testing.T, tt testCase) {
		_, end, code := heard(t, tt.said...)
		assert.Equal(t, tt.want, end)
		assert.Equal(t, tt.want == "", code != "")
	})
}

// FuzzEnd: whatever an agent says, there is either one end in canonical form or a
// failure, and never a success that also failed.
func FuzzEnd(f *testing.F) {
	for _, seed := range []string{
		`{"request_id":"r-1","status":"ok","outputs":{}}`, `{"ok":true,"data":[1],"warnings":[null,1]}`, `{"status":"error","error":"x"}`,
		`{"status":"degraded","error":{"details":null},"artifacts":"a"}`, `{"success":true,"error":{"code":1}}`, `null`, `"x"`, `{"status":"ok","outputs": [ ] }`,
	} {
		f.Add("final", []byte(seed), "error", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, n1 string, d1 []byte, n2 string, d2 []byte) {
		l := &listener{exchange: &exchange{}, head: head{status: 200}}
		l.talk = Talk{RequestID: "r-1", TaskType: "T", Progress: discard}
		l.reader.talk = l.talk
		for _, s := range []sentence{{n1, string(d1)}, {n2, string(d2)}} {
			require.NoError(t, l.event(t.Context(), sse.Event{Name: s.name, Data: []byte(s.data), Size: len(s.data)}))
		}
		reply, err := l.ended(io.EOF)
		if err != nil {
			failed, ok := errors.AsType[*fault.Call](err)
			require.True(t, ok)
			require.True(t, failed.Sent)
			return
		}
		var end schemas.RunResult
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &end))
		require.False(t, end.Error == nil && end.Outputs == nil, "outputs, an error or both")
		for _, object := range []json.RawMessage{end.Outputs, end.Usage, end.Provenance} {
			require.True(t, object == nil || object[0] == '{')
		}
		if end.Error != nil {
			require.NotEmpty(t, end.Error.Code)
			require.NotEmpty(t, end.Error.Message)
			require.True(t, end.Error.Details == nil || end.Error.Details[0] == '{')
		}
		_, err = ledger.Encode(reply.Answer)
		require.NoError(t, err)
	})
}

func discard(context.Context, schemas.RunProgress) error { return nil }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
