package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/weirtest/table"
	"weir/processors/call/dial"
	"weir/processors/call/sse"
	"weir/schemas"
)

// sentence is one event with the terminal name.
type sentence struct{ name, data string }

// final is an end of these members.
func final(members string) []sentence { return []sentence{{"final", "{" + members + "}"}} }

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
			final(ok + `,"task_type":"T","outputs":{"n":1.50},"artifacts":["a"],"provenance":{"p":1},"usage":{"duration_ms":5},"grounding":[1],"warnings":["w"]`),
			`{"outputs":{"n":1.50},"artifacts":["a"],"provenance":{"p":1},"usage":{"duration_ms":5},"grounding":[1],"warnings":["w"]}`,
		},
		"nulls": {
			final(ok + `,"task_type":null,"outputs":{"a":null},"artifacts":null,"provenance":null,"usage":null,"grounding":null,"warnings":null,"error":null`),
			`{"outputs":{"a":null}}`,
		},
		"odd members": {
			final(ok + `,"outputs":{},"artifacts":{},"provenance":[],"usage":3,"warnings":"one"`),
			`{"outputs":{},"warnings":["one","artifacts was not in the form of the contract and is left out","provenance was not in the form of the contract and is left out","usage was not in the form of the contract and is left out"]}`,
		},
		"empty error beside":     {final(ok + `,"outputs":{},"error":{"code":"","message":"","details":{}}`), `{"outputs":{}}`},
		"letters of members":     {final(`"request_id":"r-1","Status":"ok","outputs":{}`), ``},
		"outputs before data":    {final(ok + `,"data":{"b":1},"outputs":{"a":1}`), `{"outputs":{"a":1}}`},
		"data for null outputs":  {final(ok + `,"data":{"b":1},"outputs":null`), `{"outputs":{"b":1}}`},
		"no outweighs yes":       {final(ok + `,"success":false,"outputs":{}`), `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed"}}`},
		"yes with an odd status": {final(`"request_id":"r-1","status":"finished","ok":true,"outputs":{}`), `{"outputs":{}}`},
		"ok is no boolean":       {final(`"request_id":"r-1","ok":"true","outputs":{}`), ``},
		"degraded, and why": {
			final(`"request_id":"r-1","status":"degraded","outputs":{},"error":{"message":"half"}`),
			`{"outputs":{},"warnings":["the agent reports a degraded result","the agent said: half"]}`,
		},
		"failure keeps the rest": {
			[]sentence{{"error", `{` + failure + `,"error":{"code":"X.Y","message":"m","details":{"a":1}},"usage":{"t":1},"warnings":["w"]}`}},
			`{"usage":{"t":1},"warnings":["w"],"error":{"code":"X.Y","message":"m","details":{"a":1}}}`,
		},
		"details of any kind": {final(failure + `,"error":{"code":"no word","details":[1]}`), `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"details":[1]}}}`},
		"error of any kind":   {final(failure + `,"error":["a"]`), `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"error":["a"]}}}`},
		"message":             {[]sentence{{"failed", `{` + failure + `,"message":"m"}`}}, `{"error":{"code":"TASK_FAILED","message":"m"}}`},
		"detail":              {[]sentence{{"failed", `{` + failure + `,"detail":[{"loc":"x"}]}`}}, `{"error":{"code":"TASK_FAILED","message":"the agent says that the task failed","details":{"detail":[{"loc":"x"}]}}}`},
		"outputs say why": {
			final(failure + `,"message":"m","outputs":{"warning":"w","error":"e","n":1.50}`),
			`{"outputs":{"warning":"w","error":"e","n":1.50},"error":{"code":"TASK_FAILED","message":"e"}}`,
		},
		"outputs warn": {
			final(failure + `,"outputs":{"error":{"a":1},"warning":"w"},"error":null`),
			`{"outputs":{"error":{"a":1},"warning":"w"},"error":{"code":"TASK_FAILED","message":"w"}}`,
		},
		"outputs say nothing": {
			final(failure + `,"message":"m","outputs":{"error":"","warning":[]}`),
			`{"outputs":{"error":"","warning":[]},"error":{"code":"TASK_FAILED","message":"m"}}`,
		},
		"outputs beside a text": {
			final(failure + `,"error":"t","outputs":{"error":"e"}`),
			`{"outputs":{"error":"e"},"error":{"code":"TASK_FAILED","message":"t"}}`,
		},
		"outputs beside an error": {
			final(failure + `,"error":{"code":"X"},"outputs":{"error":"e"}`),
			`{"error":{"code":"X","message":"the agent says that the task failed"}}`,
		},
		"outputs of an end without a status": {
			[]sentence{{"failed", `{"request_id":"r-1","outputs":{"error":"e"}}`}},
			`{"outputs":{"error":"e"},"error":{"code":"TASK_FAILED","message":"e"}}`,
		},
		"details of nothing":  {final(failure + `,"error":{"code":"X","message":"m","details":{}}`), `{"error":{"code":"X","message":"m"}}`},
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
		"of another, then ours":  {final(`"request_id":"r-2","status":"ok","outputs":{}`), `{"error":{"code":"TASK_FAILED","message":"the agent's end is that of another request","details":{"code":"UPSTREAM_PROTOCOL"}}}`},
		"a number for an id":     {final(`"request_id":7,"status":"ok","outputs":{}`), `{"outputs":{},"warnings":["the agent's end does not name the request"]}`},
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
		l := listening(func(schemas.RunProgress) {})
		l.take(t, sentence{n1, string(d1)}, sentence{n2, string(d2)})
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

// TestShorten: what is quoted is cut between code points, and is no copy.
func TestShorten(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	fits := strings.Repeat("\u00e9", maxStrayWords)
	assert.Equal(t, fits, Shorten(fits))
	long, got := fits+"x", ""
	assert.Zero(t, testing.AllocsPerRun(10, func() { got = Shorten(long) }))
	assert.Equal(t, fits, got)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listening is a listener to the run r-1, which gives its events to progress.
func listening(progress func(schemas.RunProgress)) *decoder {
	l := &decoder{Answer: &dial.Answer{Response: outbound.Response{Status: 200}}}
	l.reader.opts = CallOptions{RequestID: "r-1", TaskType: "T", Progress: func(_ context.Context, p schemas.RunProgress) error {
		progress(p)
		return nil
	}}
	return l
}

func (l *decoder) take(t *testing.T, said ...sentence) {
	t.Helper()
	for _, s := range said {
		require.NoError(t, l.event(t.Context(), sse.Event{Name: s.name, Data: []byte(s.data), Size: len(s.data)}))
	}
}

// heard has a listener take what was said, to the end of the stream.
func heard(t *testing.T, said ...sentence) (events []schemas.RunProgress, end string, code schemas.Code) {
	t.Helper()
	l := listening(func(p schemas.RunProgress) {
		p.Data = append(json.RawMessage(nil), p.Data...)
		events = append(events, p)
	})
	l.take(t, said...)
	reply, err := l.ended(io.EOF)
	if err != nil {
		failed, ok := errors.AsType[*fault.Call](err)
		require.True(t, ok)
		return events, "", failed.Code
	}
	return events, string(reply.Answer.Body), ""
}

const (
	proper   = `{"request_id":"r-1","status":"ok","outputs":{"a":1}}`
	properly = `{"outputs":{"a":1}}`
)

// TestEndsOfSomethingElse: an event with a word of its own ends no run by a word in
// its data, unless that data could be the run's and no other end comes.
func TestEndsOfSomethingElse(t *testing.T) {
	t.Parallel()
	const step = `{"tool":"search","type":"completed","status":"success"}`
	const (
		never   = iota
		atClose // of the stream, where nothing better came
		atOnce
	)
	const warned = "the agent's end was one only because no other came"
	type testCase struct {
		event sentence
		ends  int
	}
	table.Run(t, map[string]testCase{
		"a tool":                    {sentence{"tool_call", step}, never},
		"a tool, by event":          {sentence{"tool_call", `{"event":"done","ok":true}`}, never},
		"a tool that failed":        {sentence{"tool_call", `{"type":"error","error":"no such page"}`}, never},
		"outputs without a word":    {sentence{"tool_call", `{"type":"completed","outputs":{"b":2}}`}, never},
		"outputs that are a list":   {sentence{"tool_call", `{"type":"completed","status":"ok","outputs":[1]}`}, never},
		"outputs and an odd word":   {sentence{"tool_call", `{"type":"completed","status":"soon","outputs":{"b":2}}`}, never},
		"the end of a sub-run":      {sentence{"sub_agent", `{"type":"final","request_id":"sub-1","status":"ok","outputs":{"b":2}}`}, never},
		"a word with space":         {sentence{" tool_call", step}, never},
		"our id":                    {sentence{"agent", `{"type":"final","request_id":"r-1","status":"ok","outputs":{"a":1}}`}, atClose},
		"our id, by event":          {sentence{"agent", `{"event":"done","request_id":"r-1","success":true,"data":{"a":1}}`}, atClose},
		"outputs beside status":     {sentence{"agent", `{"type":"final","status":"ok","outputs":{"a":1}}`}, atClose},
		"data beside ok":            {sentence{"agent", `{"type":"final","ok":true,"data":{"a":1}}`}, atClose},
		"no name":                   {sentence{"", `{"type":"final","status":"ok","outputs":{"a":1}}`}, atOnce},
		"no name, nothing else":     {sentence{"", `{"type":"completed","status":"ok"}`}, atOnce},
		"the name of those without": {sentence{"message", `{"event":"complete","status":"ok","outputs":{"a":1}}`}, atOnce},
		"in other letters":          {sentence{" Message", `{"event":"complete","status":"ok","outputs":{"a":1}}`}, atOnce},
		"an end by name":            {sentence{"completed", `{"status":"ok","outputs":{"a":1}}`}, atOnce},
		"a step with our id":        {sentence{"tool_call", `{"type":"completed","status":"ok","request_id":"r-1"}`}, atClose},
		"a step with outputs":       {sentence{"tool_call", `{"type":"completed","success":true,"outputs":{"tool":1}}`}, atClose},
	}, func(t *testing.T, tt testCase) {
		events, end, code := heard(t, tt.event)
		switch tt.ends {
		case atOnce:
			assert.Empty(t, events)
			assert.NotEmpty(t, end)
			return
		case atClose:
			assert.Contains(t, end, warned)
		default:
			assert.Equal(t, schemas.UpstreamTruncated, code, "the run has no end of its own")
		}
		assert.Equal(t, []schemas.RunProgress{{Name: tt.event.name, Data: json.RawMessage(tt.event.data)}}, events)

		events, end, _ = heard(t, tt.event, sentence{"complete", proper})
		assert.Len(t, events, 1)
		assert.JSONEq(t, properly, end)
		_, end, _ = heard(t, tt.event, sentence{"complete", `{"request_id":"r-1","status":"error","error":{"code":"X","message":"m"}}`})
		assert.JSONEq(t, `{"error":{"code":"X","message":"m"}}`, end, "the one end stands, and contradicts nothing")
	})
}

// TestDataThatIsReadInTwoWays by two readers is handed on as its text, and ends
// nothing.
func TestDataThatIsReadInTwoWays(t *testing.T) {
	t.Parallel()
	const doubted = "the agent sent an end that is not valid JSON to every reader"
	table.Run(t, map[string]string{
		"a name twice":        `{"request_id":"r-1","status":"ok","status":"error","outputs":{}}`,
		"twice, once escaped": `{"request_id":"r-1","status":"ok","outputs":{"a":1,"\u0061":2}}`,
		"once made Unicode":   `{"request_id":"r-1","status":"ok","outputs":{"\ud800":1,"\udc00":2}}`,
	}, func(t *testing.T, bad string) {
		events, _, code := heard(t, sentence{"progress", bad})
		require.Len(t, events, 1)
		var text string
		require.NoError(t, json.Unmarshal(events[0].Data, &text))
		assert.Equal(t, bad, text)
		assert.Equal(t, schemas.UpstreamTruncated, code)

		named := `{"type":"final",` + bad[1:]
		for _, end := range []sentence{{"complete", bad}, {"error", bad}, {"", named}, {"message", named}, {"agent", named}} {
			events, _, code = heard(t, sentence{"progress", "1"}, end)
			assert.Len(t, events, 1, end.name)
			assert.Equal(t, schemas.UpstreamProtocol, code, end.name)

			_, kept, _ := heard(t, end, sentence{"complete", proper})
			assert.JSONEq(t, `{"outputs":{"a":1},"warnings":["`+doubted+`"]}`, kept, end.name)
			_, kept, _ = heard(t, sentence{"complete", proper}, end)
			assert.JSONEq(t, `{"outputs":{"a":1},"warnings":["`+doubted+`"]}`, kept, end.name)
		}
	})
}

// TestHalfASurrogate in an end, such as a cut emoji, is replaced. Elsewhere it is handed on as it came.
func TestHalfASurrogate(t *testing.T) {
	t.Parallel()
	const half = `{"request_id":"r-1","status":"ok", "outputs":{"a":"cut \ud83d","n":1e2}}`
	for _, end := range []sentence{{"complete", half}, {"message", `{"type":"final",` + half[1:]}} {
		events, kept, _ := heard(t, sentence{"progress", half}, end)
		require.Len(t, events, 1)
		var text string
		require.NoError(t, json.Unmarshal(events[0].Data, &text))
		assert.Equal(t, []string{half}, []string{text})
		assert.JSONEq(t, `{"outputs":{"a":"cut \ufffd","n":1e2},"warnings":["`+halvedEnd+`"]}`, kept)
	}
	_, kept, _ := heard(t, sentence{"error", `{"request_id":"r-1","status":"error","error":"cut \ud83d"}`})
	assert.Contains(t, kept, `"message":"cut �"`)
}

// TestTooManyEvents: what one run may leave on the log has a bound. Its end is not
// among what is left out, and says how much that is.
func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	const ok = `{"request_id":"r-1","status":"ok","outputs":{}}`
	type testCase struct {
		said     []sentence // behind all events but one that there may be
		given    int
		warnings []string
	}
	table.Run(t, map[string]testCase{
		"one less":  {[]sentence{{"final", ok}}, 0, nil},
		"as many":   {[]sentence{{"progress", "1"}, {"final", ok}}, 1, nil},
		"one more":  {[]sentence{{"progress", "1"}, {"progress", "2"}, {"final", ok}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
		"a failure": {[]sentence{{"progress", "1"}, {"progress", "2"}, {"error", "it broke"}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
	}, func(t *testing.T, tt testCase) {
		given := 0
		l := listening(func(schemas.RunProgress) { given++ })
		l.given = maxEvents - 1
		l.take(t, tt.said...)
		reply, err := l.ended(io.EOF)
		require.NoError(t, err)
		var end schemas.RunResult
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &end))
		assert.Equal(t, tt.warnings, end.Warnings)
		assert.Equal(t, tt.given, given)
	})
}
