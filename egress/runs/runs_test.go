package runs_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/runs"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

var run = runs.Stream{Ref: schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "run-1"}, TaskType: "LIT_RETRIEVAL"}

type ending struct {
	settled schemas.Settled
	doc     string // what is stored; empty: nothing is
}

func settled(outcome schemas.Outcome, code schemas.Code) schemas.Settled {
	return schemas.Settled{Outcome: outcome, Code: code, Attempts: 1}
}

func endings() map[string]ending {
	fail := func(code schemas.Code) schemas.Settled { return settled(schemas.OutcomeFailed, code) }
	ok := settled(schemas.OutcomeSucceeded, "")
	answer := `"answer":{"status":200,"headers":[{"name":"a","value":"<b>&"}],"body":{"n":1.10000000000000000001,"z":null},"hash":"never shown"}`
	return map[string]ending{
		"succeeded": {ok, `{"outputs":{"b":1.10000000000000000001,"a":"<&>\u2028","n":null},"artifacts":["s3://x"],"provenance":{"m":"x"},` +
			`"usage":{"duration_ms":12},"grounding":[{"id":1}],"warnings":["degraded"]}`},
		"succeeded_with_nothing":   {ok, ""},
		"succeeded_with_nulls":     {ok, `{"outputs":null,"artifacts":null,"provenance":null,"usage":null,"grounding":null,"warnings":null,"error":null}`},
		"succeeded_oddly":          {ok, `{"outputs":["no object"],"provenance":"text","usage":7,"error":{"code":"IGNORED","message":"it succeeded"}}`},
		"http_succeeded":           {ok, `{"http":{` + answer + `,"report":{"passed":true,"assertions":[]}}}`},
		"http_empty":               {ok, `{"http":{"answer":{"status":204,"headers":null,"body":null,"hash":""}}}`},
		"http_failed":              {fail(schemas.HTTPFailure), `{"http":{"variant":"HttpFailure","message":"the target answered with status 404 Not Found",` + answer + `},"error":{"code":"TASK_FAILED","message":"x"}}`},
		"http_denied":              {settled(schemas.OutcomeDenied, schemas.DenyHost), `{"http":{"variant":"DisallowedHost","message":"disallowed host 'h'","decision":{"allowed":false,"code":"DENY_HOST","reason":"no entry","version":"v"}}}`},
		"http_unknown":             {settled(schemas.OutcomeUnknown, schemas.OutcomeUnknownCode), `{"http":{"message":"interrupted"}}`},
		"failed_by_the_agent":      {fail(schemas.TaskFailed), `{"error":{"code":"MODEL_REFUSED","message":"no","details":{"why":[1.0]}},"usage":{"duration_ms":3}}`},
		"failed_by_its_outputs":    {fail(schemas.TaskFailed), `{"outputs":{"error":"why","n":1.10},"error":{"code":"TASK_FAILED","message":"why"}}`},
		"failed_without_a_word":    {fail(schemas.TaskFailed), `{"error":{"code":"","message":"","details":null}}`},
		"failed_mid_stream":        {fail(schemas.UpstreamTruncated), ""},
		"agent_unavailable":        {fail(schemas.AgentUnavailable), ""},
		"denied":                   {settled(schemas.OutcomeDenied, schemas.DenyAddress), ""},
		"canceled":                 {settled(schemas.OutcomeCanceled, schemas.Canceled), ""},
		"expired":                  {settled(schemas.OutcomeExpired, schemas.DeadlineExceeded), `{"error":{"code":"TASK_FAILED","message":"too late","details":{"code":"DEADLINE_EXCEEDED"}}}`},
		"expired_without_a_result": {settled(schemas.OutcomeExpired, schemas.DeadlineExceeded), ""},
		"outcome_unknown":          {settled(schemas.OutcomeUnknown, schemas.OutcomeUnknownCode), `{"error":{"code":"X","message":"try again"}}`},
		"poison":                   {fail(schemas.Poison), ""},
		"unreadable":               {ok, `[]`},
	}
}

// TestGolden pins both forms of every end.
func TestGolden(t *testing.T) {
	t.Parallel()
	seen := map[schemas.Outcome]bool{}
	for name, e := range endings() {
		seen[e.settled.Outcome] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, body, err := runs.Render(run.Ref, &e.settled, json.RawMessage(e.doc))
			require.NoError(t, err)
			last := run.Event(schemas.Event{Type: schemas.EventSettled, Settled: &e.settled}, json.RawMessage(e.doc))
			require.Equal(t, "complete", last.Name)
			got := fmt.Appendf(nil, "%s\n\nevent: %s\ndata: %s\n", body, last.Name, last.Data)
			fixture.Golden(t, name, got)
		})
	}
	for _, o := range schemas.Outcomes() {
		require.True(t, seen[o], "an end with the outcome %s", o)
	}
}

func TestEventsThatAreShown(t *testing.T) {
	t.Parallel()
	shown := run.Event(schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{Payload: json.RawMessage(`{"secret":1}`)}}, nil)
	require.Equal(t, "started", shown.Name)
	require.JSONEq(t, `{"type":"started","request_id":"run-1","task_type":"LIT_RETRIEVAL"}`, string(shown.Data))
	for _, kind := range []schemas.EventType{
		schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventWaiting, schemas.EventDelta,
		schemas.EventCancel, schemas.EventResolution, "unknown",
	} {
		require.Empty(t, run.Event(schemas.Event{Type: kind, Data: json.RawMessage(`{}`)}, nil).Name, kind)
	}
}

func TestAResultThatWasDropped(t *testing.T) {
	t.Parallel()
	lost := run.Lost()
	require.Equal(t, "complete", lost.Name)
	for _, part := range []string{`"type":"final"`, `"status":"error"`, `"success":false`, `"outputs":{}`} {
		require.Contains(t, string(lost.Data), part)
	}
	require.Contains(t, string(lost.Data), `"details":{"code":"STREAM_GONE"}`)
}

func progress(t *testing.T, p schemas.RunProgress) string {
	t.Helper()
	data, err := ledger.Encode(p)
	require.NoError(t, err)
	ev := run.Event(schemas.Event{Type: schemas.EventProgress, Data: data}, nil)
	require.Equal(t, "progress", ev.Name)
	require.True(t, json.Valid(ev.Data), string(ev.Data))
	return string(ev.Data)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	const ids = `"request_id":"run-1","task_type":"LIT_RETRIEVAL"`
	for _, tc := range []struct{ name, data, want string }{
		{"progress", `{"percent":50.0,"step":"x"}`, `{"type":"progress",` + ids + `,"percent":50.0,"step":"x"}`},
		{"", ``, `{"type":"progress",` + ids + `}`},
		{"a \"b\" <c>", ``, `{"type":"a \"b\" <c>",` + ids + `}`},
		{"progress", `{"type":"chunk","request_id":"theirs","task_type":"T","n":1}`, `{` + ids + `,"type":"chunk","agent_request_id":"theirs","agent_task_type":"T","n":1}`},
		{"progress", `{"n":1,"task_type":"LIT_RETRIEVAL","request_id":"run-1"}`, `{"type":"progress","n":1,"task_type":"LIT_RETRIEVAL","request_id":"run-1"}`},
		{"progress", `{"request_id":7,"task_type":{"a":"LIT_RETRIEVAL"}}`, `{"type":"progress",` + ids + `,"agent_request_id":7,"agent_task_type":{"a":"LIT_RETRIEVAL"}}`},
		{"progress", `{"request_id":"run-1","r\u0065quest_id":"theirs"}`, `{"type":"progress","task_type":"LIT_RETRIEVAL","request_id":"run-1","agent_request_id":"theirs"}`},
		{"progress", `{"type":"final","agent_type":1,"agent_agent_type":2,"type":"done"}`, `{"type":"progress",` + ids + `,"agent_agent_agent_type":"final","agent_type":1,"agent_agent_type":2,"agent_agent_agent_type":"done"}`},
		{"progress", `{"type":null,"request_id":null,"task_type":null,"n":null}`, `{"type":"progress",` + ids + `,"n":null}`},
		{"progress", `{"\u0074ype":"chunk","a\"b":"\u2028<&>","n":1.10000000000000000001}`, `{` + ids + `,"\u0074ype":"chunk","a\"b":"\u2028<&>","n":1.10000000000000000001}`},
		{"progress", `{"a":{"type":"final"},"b":[1,{"c":[]}]}`, `{"type":"progress",` + ids + `,"a":{"type":"final"},"b":[1,{"c":[]}]}`},
		{"progress", `"half a sentence"`, `{"type":"progress",` + ids + `,"data":"half a sentence"}`},
		// No word of an agent's ends the stream.
		{"final", `{"n":1}`, `{"type":"progress",` + ids + `,"n":1}`},
		{"progress", `{"type":"final","event":"DONE ","n":1}`, `{"type":"progress",` + ids + `,"agent_type":"final","agent_event":"DONE ","n":1}`},
		{"progress", `{"type":"chunk","type":"complete"}`, `{` + ids + `,"type":"chunk","agent_type":"complete"}`},
	} {
		require.Equal(t, tc.want, progress(t, schemas.RunProgress{Name: tc.name, Data: json.RawMessage(tc.data)}), tc.data)
	}
	require.JSONEq(t, `{"type":"progress",`+ids+`,"omitted_bytes":300000}`, progress(t, schemas.RunProgress{Name: "progress", Omitted: 300_000}))
}

// TestProgressOfAnother: what no worker of this version wrote is shown as it is.
func TestProgressOfAnother(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`1`: `{"type":"progress","request_id":"run-1","task_type":"LIT_RETRIEVAL","data":1}`,
		``:  `{"type":"progress","request_id":"run-1","task_type":"LIT_RETRIEVAL"}`,
	} {
		require.Equal(t, want, string(run.Event(schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(data)}, nil).Data))
	}
}

func FuzzProgress(f *testing.F) {
	for _, s := range []string{`{}`, `{"type":"final"}`, `{"event":"done","type":null}`, `{"request_id":"theirs","task_type":"T"}`, `{"request_id":"run-1","task_type":7,"request_id":null}`, `[]`, `"x"`, `{"a":{"b":[1e400]},"a":2}`, `{"\ud800":"\u0000"}`, `nul`} {
		f.Add("progress", []byte(s))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		stored, err := ledger.Encode(schemas.RunProgress{Name: name, Data: data})
		if err != nil {
			return // not JSON, and so never stored
		}
		ev := run.Event(schemas.Event{Type: schemas.EventProgress, Data: stored}, nil)
		require.True(t, json.Valid(ev.Data))
		require.NotContains(t, string(ev.Data), "\n")
		var all map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(ev.Data, &all))
		for _, m := range []string{"type", "event"} {
			var word string
			if json.Unmarshal(all[m], &word) == nil {
				require.NotContains(t, []string{"final", "complete", "done", "error"}, word)
			}
		}
		require.NotEmpty(t, all["type"])
		require.NotEqual(t, "null", string(all["type"]))
		var id, taskType string
		require.NoError(t, json.Unmarshal(all["request_id"], &id))
		require.NoError(t, json.Unmarshal(all["task_type"], &taskType))
		require.Equal(t, []string{run.Ref.ID, run.TaskType}, []string{id, taskType}, "whatever the agent calls it")
	})
}
