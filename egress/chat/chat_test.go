package chat_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/chat"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

type ending struct {
	settled schemas.Settled
	doc     string
}

func end(outcome schemas.Outcome, code schemas.Code, doc string) ending {
	return ending{schemas.Settled{Outcome: outcome, Code: code, Attempts: 1}, doc}
}

const whole = `{"id":"gen-1","object":"chat.completion","created":1700000000,"model":"their/model","choices":[{"index":0,"message":{"role":"assistant","content":"<b>&\u2028\n\ndata: [DONE]"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"cost":1.10000000000000000001}}`

func endings() map[string]ending {
	ok, failed, denied := schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied
	partial := `"completion":` + whole + `,"partial":true,"model":"openai/gpt","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`
	limits := `"limits":[{"source":"team","what":"requests","limit":10,"remaining":0,"reset_ms":11500},{"source":"all","what":"requests","limit":90,"remaining":7},{"source":"team","what":"tokens","limit":1000,"remaining":-3,"reset_ms":11500}]`
	return map[string]ending{
		"succeeded":              end(ok, "", `{"completion":`+whole+`,"model":"openai/gpt"}`),
		"succeeded_with_nothing": end(ok, "", ""),
		"succeeded_partly":       end(ok, "", `{`+partial+`}`),
		"provider_refused": end(failed, schemas.ModelFailed,
			`{"error":{"status":400,"message":"no such <tool>","metadata":{"provider_name":"azure","raw":{"n":1.0},"code":"THEIRS"}}}`),
		"broke_off":        end(failed, schemas.UpstreamTruncated, `{`+partial+`,"error":{"status":502,"message":"the answer broke off"}}`),
		"rate_limited":     end(failed, schemas.RateLimited, `{"error":{"status":429,"message":"wait","retry_after_ms":11200,`+limits+`}}`),
		"upstream_limited": end(failed, schemas.ModelFailed, `{"error":{"status":429,"message":"slow down"}}`),
		"budget": end(denied, schemas.BudgetExhausted,
			`{"error":{"status":402,"message":"spent","metadata":{"limit_source":"team","limit_what":"usd"}}}`),
		"cut_by_a_budget":    end(failed, schemas.BudgetExhausted, `{`+partial+`,"error":{"status":402,"message":"spent","metadata":{"limit_source":"task"}}}`),
		"budget_with_no_doc": end(denied, schemas.BudgetExhausted, ""),
		"no_model":           end(failed, schemas.ModelNotFound, ""),
		"denied":             end(denied, schemas.DenyAddress, ""),
		"timeout":            end(failed, schemas.UpstreamTimeout, ""),
		"interrupted":        end(failed, schemas.Interrupted, ""),
		"canceled":           end(schemas.OutcomeCanceled, schemas.Canceled, `{`+partial+`}`),
		"expired":            end(schemas.OutcomeExpired, schemas.DeadlineExceeded, ""),
		"unknown":            end(schemas.OutcomeUnknown, "", ""),
		"unreadable":         end(failed, schemas.Poison, `[]`),
		"odd": end(failed, schemas.ModelFailed,
			`{"completion":"text","error":{"status":200,"message":"","metadata":["no object"]}}`),
	}
}

// TestGolden pins the whole answer and the last frames of every end.
func TestGolden(t *testing.T) {
	t.Parallel()
	seen := map[schemas.Outcome]bool{}
	for name, e := range endings() {
		seen[e.settled.Outcome] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			require.NoError(t, chat.Answer(w, schemas.DialectChat, &e.settled, json.RawMessage(e.doc)))
			status, body := w.Code, w.Body.Bytes()
			_, refusal := chat.Read(&e.settled, json.RawMessage(e.doc))
			frames := string(chat.Last(7, refusal))
			var b strings.Builder
			fmt.Fprintf(&b, "%d\n", status)
			require.NoError(t, w.Header().Write(&b))
			fmt.Fprintf(&b, "\n%s\n\n%s", body, frames)
			got := strings.ReplaceAll(b.String(), "\r\n", "\n")
			fixture.Golden(t, name, []byte(got))
		})
	}
	for _, o := range schemas.Outcomes() {
		require.True(t, seen[o], "an end with the outcome %s", o)
	}
}

// The usual clients repeat by themselves; a failure that its key keeps is not worth waiting for.
func TestReplayedFailure(t *testing.T) {
	t.Parallel()
	for replayed, want := range map[string][2]string{"": {"1", ""}, "true": {"", "false"}} {
		e, w := endings()["upstream_limited"], httptest.NewRecorder()
		w.Header().Set("Idempotency-Replayed", replayed)
		require.NoError(t, chat.Answer(w, schemas.DialectChat, &e.settled, json.RawMessage(e.doc)))
		require.Equal(t, want, [2]string{w.Header().Get("Retry-After"), w.Header().Get("X-Should-Retry")}, replayed)
	}
}

func TestLostAndCut(t *testing.T) {
	t.Parallel()
	_, lost := chat.Read(&schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.UpstreamReset, ResultBlob: "x"}, nil)
	require.Contains(t, string(chat.Last(7, lost)), `"error":{"message":"the completion could not be made","type":"server_error","param":null,"code":"upstream_reset","metadata":{"code":"UPSTREAM_RESET","status":502}}}`)
	require.Equal(t, `data: {"error":{"message":"again","type":"server_error","param":null,"code":"unavailable","metadata":{"code":"UNAVAILABLE","status":503}}}`+"\n\ndata: [DONE]\n\n", string(chat.Interrupted("again")))
	require.Equal(t, "data: [DONE]\n\n", string(chat.Ended(schemas.DialectChat)))
}

func TestDelta(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"chunks":[{"a":1.0}]}`:                                "id: 7\ndata: {\"a\":1.0}\n\n",
		`{"chunks":[{"a":"]},{"},{"b":["\\",{"c":"\""}]},{}]}`:  "id: 7.1\ndata: {\"a\":\"]},{\"}\n\nid: 7.2\ndata: {\"b\":[\"\\\\\",{\"c\":\"\\\"\"}]}\n\nid: 7\ndata: {}\n\n",
		`{"chunks":[{"a":"\n\nevent: final\n\ndata: [DONE]"}]}`: "id: 7\ndata: {\"a\":\"\\n\\nevent: final\\n\\ndata: [DONE]\"}\n\n",
		`{"chunks":[]}`: "",
		`{}`:            "",
		``:              "",
		`[1]`:           "",
	} {
		require.Equal(t, want, string(chat.Delta(schemas.DialectChat, 7, json.RawMessage(data))), data)
	}
}

func TestNamedDelta(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"chunks":[{"type":"response.output_text.delta","n":{"type":"x"}}]}`: "event: response.output_text.delta\nid: 7\ndata: {\"type\":\"response.output_text.delta\",\"n\":{\"type\":\"x\"}}\n\n",
		`{"chunks":[{"n":1,"type":"ping"},{"type":"message_stop"}]}`:          "event: ping\nid: 7.1\ndata: {\"n\":1,\"type\":\"ping\"}\n\nevent: message_stop\nid: 7\ndata: {\"type\":\"message_stop\"}\n\n",
		// A name that would break the frame, or is none, is left out.
		`{"chunks":[{"type":"a\n\ndata: b"}]}`: "id: 7\ndata: {\"type\":\"a\\n\\ndata: b\"}\n\n",
		`{"chunks":[{"type":7}]}`:              "id: 7\ndata: {\"type\":7}\n\n",
		`{"chunks":[{"n":{"type":"x"}}]}`:      "id: 7\ndata: {\"n\":{\"type\":\"x\"}}\n\n",
		`{"chunks":[7]}`:                       "id: 7\ndata: 7\n\n",
	} {
		require.Equal(t, want, string(chat.Delta(schemas.DialectResponses, 7, json.RawMessage(data))), data)
		require.Equal(t, want, string(chat.Delta(schemas.DialectMessages, 7, json.RawMessage(data))), data)
	}
}

// FuzzDelta holds the way without parsing against the one with, for what a worker writes.
func FuzzDelta(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"]},{"}`, `{"a":["\\",{"b":"\""}]}`, "{\"a\":\"\xff\u2028\"}", `{"a":1e400}`} {
		f.Add([]byte(s), []byte(`{"choices":[]}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		chunks := []json.RawMessage{}
		for _, c := range [][]byte{a, b} {
			if json.Valid(c) {
				chunks = append(chunks, c)
			}
		}
		data, err := ledger.Encode(schemas.ChatDelta{Chunks: chunks})
		require.NoError(t, err)
		frames := string(chat.Delta(schemas.DialectChat, 7, data))
		var got []string
		for part := range strings.SplitAfterSeq(frames, "\n\n") {
			if part == "" {
				continue
			}
			id, line, _ := strings.Cut(part, "\n")
			place, ok := chat.ParsePosition(strings.TrimPrefix(id, "id: "))
			require.True(t, ok, id)
			want := schemas.ChatPosition{Seq: 7, Chunk: len(got) + 1}
			if want.Chunk == len(chunks) {
				want.Chunk = 0 // the last of an event has the event's
			}
			require.Equal(t, want, place)
			text, ok := strings.CutPrefix(line, "data: ")
			require.True(t, ok, frames)
			text = strings.TrimSuffix(text, "\n\n")
			require.NotContains(t, text, "\n")
			require.True(t, json.Valid([]byte(text)))
			got = append(got, text)
		}
		require.Len(t, got, len(chunks))
		require.Equal(t, frames, string(chat.Delta(schemas.DialectChat, 7, append([]byte(" "), data...))), "as one that is parsed")
	})
}

func TestDeltaAllocatesItsFramesAlone(t *testing.T) { //nolint:paralleltest // other tests' allocations would be counted
	for _, chunks := range []int{1, 2, 1000} {
		data := json.RawMessage(`{"chunks":[` + strings.Repeat(whole+",", chunks-1) + whole + `]}`)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { chat.Delta(schemas.DialectChat, 1<<40, data) }), 1.0, chunks)
		const event = `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"a","sequence_number":4}`
		data = json.RawMessage(`{"chunks":[` + strings.Repeat(event+",", chunks-1) + event + `]}`)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { chat.Delta(schemas.DialectResponses, 1<<40, data) }), 1.0, chunks)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]schemas.ChatPosition{
		"7":                       {Seq: 7},
		"0":                       {},
		"7.1":                     {Seq: 7, Chunk: 1},
		"7.2147483647":            {Seq: 7, Chunk: math.MaxInt32},
		"18446744073709551614.10": {Seq: math.MaxUint64 - 1, Chunk: 10},
	} {
		got, ok := chat.ParsePosition(id)
		require.True(t, ok, id)
		require.Equal(t, want, got, id)
	}
	for _, id := range []string{
		"", ".", "7.", ".1", "7.0", "7.01", "0.1", "7.1.1", "7.-1", "7.+1", "-7.1", "7.1 ", " 7.1", "7 .1", "7,1", "7.1e1", "7.x", "x.1",
		"7.2147483648", "7.99999999999999999999", "18446744073709551615.1", "7.\uff11",
	} {
		got, ok := chat.ParsePosition(id)
		require.False(t, ok, id)
		require.Zero(t, got, id)
	}
}
