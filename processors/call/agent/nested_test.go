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

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/processors/call/sse"
	"weir/schemas"
)

// heard has a listener take what was said, to the end of the stream.
func heard(t *testing.T, said ...sentence) (events []schemas.RunProgress, end string, code schemas.Code) {
	t.Helper()
	l := &listener{exchange: &exchange{}, head: head{status: 200}}
	l.talk = Talk{RequestID: "r-1", TaskType: "T", Progress: func(_ context.Context, p schemas.RunProgress) error {
		p.Data = append(json.RawMessage(nil), p.Data...)
		events = append(events, p)
		return nil
	}}
	l.reader.talk = l.talk
	for _, s := range said {
		require.NoError(t, l.event(t.Context(), sse.Event{Name: s.name, Data: []byte(s.data), Size: len(s.data)}))
	}
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
		"a name twice":           `{"request_id":"r-1","status":"ok","status":"error","outputs":{}}`,
		"a name twice, within":   `{"request_id":"r-1","status":"ok","outputs":{"a":1,"a":2}}`,
		"twice, once escaped":    `{"request_id":"r-1","status":"ok","outputs":{"a":1,"\u0061":2}}`,
		"half a surrogate":       `{"request_id":"r-1","status":"ok","outputs":{"a":"\ud800"}}`,
		"half a one in an error": `{"request_id":"r-1","status":"error","error":"\udc00"}`,
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

// TestDetailsThatSayNothing are left out.
func TestDetailsThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, details := range []string{`{}`, `{ }`, `null`} {
		_, end, _ := heard(t, sentence{"final", `{"request_id":"r-1","status":"error","error":{"code":"X","message":"m","details":` + details + `}}`})
		assert.JSONEq(t, `{"error":{"code":"X","message":"m"}}`, end, details)
	}
}

// TestTooManyEvents: what one run may leave on the log has a bound. Its end is not
// among what is left out, and says how much that is.
func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	const ok = `{"request_id":"r-1","status":"ok","outputs":{}}`
	large := `"` + strings.Repeat("x", schemas.InlineLimit) + `"`
	type testCase struct {
		said     []sentence // behind all events but one that there may be
		given    int
		warnings []string
	}
	table.Run(t, map[string]testCase{
		"one less":  {[]sentence{{"final", ok}}, 0, nil},
		"as many":   {[]sentence{{"progress", "1"}, {"final", ok}}, 1, nil},
		"one more":  {[]sentence{{"progress", "1"}, {"progress", "2"}, {"final", ok}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
		"of a sort": {[]sentence{{"progress", "1"}, {"log", "2"}, {"started", "{\"a\":1}"}, {"progress", large}, {"final", ok}}, 1, []string{"the agent sent more than 100000 events; 3 of them are left out"}},
		"a failure": {[]sentence{{"progress", "1"}, {"progress", "2"}, {"error", "it broke"}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
		"two ends": {
			[]sentence{{"progress", "1"}, {"progress", "2"}, {"final", ok}, {"final", `{"request_id":"r-1","status":"error"}`}},
			1,
			[]string{"the agent sent more than 100000 events; 1 of them are left out"},
		},
	}, func(t *testing.T, tt testCase) {
		given := 0
		l := &listener{exchange: &exchange{}, head: head{status: 200}, given: maxEvents - 1}
		l.talk = Talk{RequestID: "r-1", Progress: func(context.Context, schemas.RunProgress) error { given++; return nil }}
		l.reader.talk = l.talk
		for _, s := range tt.said {
			require.NoError(t, l.event(t.Context(), sse.Event{Name: s.name, Data: []byte(s.data), Size: len(s.data)}))
		}
		reply, err := l.ended(io.EOF)
		require.NoError(t, err)
		var end schemas.RunResult
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &end))
		assert.Equal(t, tt.warnings, end.Warnings)
		assert.Equal(t, tt.given, given)
	})
}

// TestEventsAreCounted from the first on, those whose data is not kept too.
func TestEventsAreCounted(t *testing.T) {
	t.Parallel()
	l := &listener{exchange: &exchange{}, head: head{status: 200}}
	l.talk = Talk{RequestID: "r-1", Progress: discard}
	for _, ev := range []sse.Event{
		{Name: "progress", Data: []byte("1"), Size: 1},
		{Name: "progress", Size: 9 << 20},
		{Name: "started", Data: []byte(`{"a":1}`), Size: 7},
		{Name: "started", Data: []byte("{}"), Size: 2},
		{Name: "progress"},
	} {
		require.NoError(t, l.event(t.Context(), ev))
	}
	assert.Equal(t, 3, l.given)
}
