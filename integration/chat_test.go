//go:build e2e

package integration_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/redact"
	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// TestAwkwardProviders: whatever a provider gets wrong that can be put right, the
// reader gets the whole text and one end, as a stream and as a whole.
func TestAwkwardProviders(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey, Default: llm.Act{Texts: []string{"Grüße", ", 世", "界 ", "👋🏽"}}})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	const text = "Grüße, 世界 👋🏽"
	for _, fault := range []llm.Fault{
		llm.None, llm.CRLF, llm.CR, llm.Comments, llm.SplitUTF8, llm.Named, llm.Lines, llm.BOM, llm.Gzip, llm.NoType, llm.JSONType,
		llm.NoDone, llm.NoID, llm.NoUsage, llm.UsageEver, llm.UsageEach, llm.UsageLast, llm.AfterDone, llm.JSONAnswer, llm.SSEAnswer,
	} {
		t.Run("like "+string(fault), func(t *testing.T) {
			t.Parallel()
			model := "sim/" + string(fault)
			if fault == llm.None {
				model += "plain"
			}
			resp := openChat(t.Context(), t, w.URL, chatBody(model, true, `,"stream_options":{"include_usage":true}`))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
			got := readChat(t, resp.Body, nil)
			require.Nil(t, got.fault, "%+v", got.fault)
			require.Equal(t, []any{text, "stop", 1}, []any{got.text, got.finish, got.done})
			end, _ := settledChat(t, w, resp.Header.Get(schemas.HeaderGeneration))
			require.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.NotNil(t, res.Usage)
			require.Equal(t, fault == llm.NoUsage, res.Usage.Estimated, "%+v", res.Usage)
			require.Positive(t, res.Usage.Total)
			require.False(t, res.Partial)

			whole, body := w.request(t, http.MethodPost, schemas.RouteChat, chatBody(model, false, ""))
			require.Equal(t, http.StatusOK, whole.StatusCode, body)
			require.Contains(t, body, text)
			require.NotContains(t, body, `"id":""`)
		})
	}
}

// TestBrokenProviders: a stream that breaks off says so in its last event but one, and
// what had come is kept.
func TestBrokenProviders(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, "  sim/hang-mid: {url: \""+provider.URL()+"\", headers: {Authorization: \"Bearer ${secret:PROVIDER}\"}, timeouts: {idle: 3s}}\n"))
	for fault, code := range map[llm.Fault]schemas.Code{
		llm.ErrorMid: schemas.ModelFailed, llm.ErrorText: schemas.ModelFailed, llm.ResetMid: schemas.UpstreamReset,
		llm.NoFinish: schemas.UpstreamTruncated, llm.NotJSON: schemas.UpstreamProtocol, llm.HangMid: schemas.UpstreamTimeout,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			resp := openChat(t.Context(), t, w.URL, chatBody("sim/"+string(fault), true, ""))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			got := readChat(t, resp.Body, nil)
			require.NotNil(t, got.fault)
			require.Equal(t, 1, got.done)
			const whole = "Hello, world"
			require.True(t, strings.HasPrefix(whole, got.text) && got.text != "", "%q", got.text)
			end, _ := settledChat(t, w, resp.Header.Get(schemas.HeaderGeneration))
			require.Equal(t, schemas.OutcomeFailed, end.Outcome)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.True(t, res.Partial)
			require.Contains(t, string(res.Completion), got.text)
			require.NotNil(t, res.Usage)
			require.True(t, res.Usage.Estimated)
			if fault != llm.ResetMid { // a reset may be read as a body that ended
				require.Equal(t, code, end.Code)
				require.Equal(t, code, got.fault.Metadata.Code)
			}
		})
	}
}

// TestProviderKeyStaysHere: a provider that says its own credential, in any way, says
// it to nobody: not in the answer, the log's events, the evidence or Weir's own log.
func TestProviderKeyStaysHere(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	var all strings.Builder
	for _, fault := range []llm.Fault{
		llm.EchoKey, llm.EchoKeySplit, llm.EchoKeyBase64, llm.EchoKeyTool, llm.EchoKeyReason, llm.EchoKeyError, llm.EchoKeyMid, llm.EchoKeyHeader,
	} {
		for _, stream := range []bool{true, false} {
			resp, text := w.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/"+string(fault), stream, ""))
			all.WriteString(text)
			for _, values := range resp.Header {
				all.WriteString(strings.Join(values, " "))
			}
			var joined strings.Builder
			if stream && resp.StatusCode == http.StatusOK {
				for line := range strings.Lines(text) {
					if data, ok := strings.CutPrefix(line, "data: {"); ok {
						c := decode[chatChunk](t, "{"+data)
						for _, choice := range c.Choices {
							joined.WriteString(choice.Delta.Content + choice.Delta.Reasoning)
						}
					}
				}
			}
			require.NotContains(t, joined.String(), providerKey, "put together from the chunks, for %s", fault)
			if fault != llm.EchoKeyHeader && (stream || fault != llm.EchoKeyMid) { // those tell the caller nothing
				require.Contains(t, text, redact.Mark, "it was told, for %s", fault)
			}
			_, events := settledChat(t, w, resp.Header.Get(schemas.HeaderGeneration))
			for _, e := range events {
				if e.Settled != nil {
					all.Write(e.Settled.Result)
				}
				all.Write(e.Data)
			}
		}
	}
	_, evidence := w.request(t, http.MethodGet, "/v1/evidence?limit=1000", "", "Accept", "application/json")
	require.Contains(t, evidence, schemas.EvidenceChat)
	all.WriteString(evidence)
	all.WriteString(w.Said())
	require.NotContains(t, all.String(), providerKey)
	require.NotContains(t, all.String(), "QUdXQ0FOQVJZLXByb3ZpZGVyLWtleS0yZjYx", "in base64")
	require.Positive(t, provider.Hits())
	require.Equal(t, providerKey, provider.Ledger()[0].Key(), "and it was sent")
}

// TestChatFallsBack asks a first upstream that fails in every way that may be made
// good by another, before anything of an answer came.
func TestChatFallsBack(t *testing.T) {
	t.Parallel()
	good := llm.New(t, llm.Config{})
	bad := llm.New(t, llm.Config{})
	gone := llm.New(t, llm.Config{})
	gone.Close()
	var config strings.Builder
	faults := []llm.Fault{llm.Status(429), llm.Status(500), llm.Status(503), llm.HTML, llm.ErrorFirst, llm.Reset, llm.Hang}
	for _, f := range faults {
		config.WriteString("  two/" + string(f) + ":\n    timeouts: {first_byte: 5s}\n    upstreams:\n      - {name: bad-" + string(f) + ", url: \"" + bad.URL() + "\", model: any/" + string(f) + "}\n      - {name: good-" + string(f) + ", url: \"" + good.URL() + "\", model: plain}\n")
	}
	config.WriteString("  two/gone:\n    upstreams:\n      - {name: gone, url: \"" + gone.URL() + "\"}\n      - {name: here, url: \"" + good.URL() + "\", model: plain}\n")
	w := serveChat(t, t.TempDir(), chatConfig(t, good, config.String()))
	for _, f := range append(faults, "gone") {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			resp := openChat(t.Context(), t, w.URL, chatBody("two/"+string(f), true, ""))
			require.Equal(t, http.StatusOK, resp.StatusCode)
			got := readChat(t, resp.Body, nil)
			require.Nil(t, got.fault)
			require.Equal(t, "Hello, world", got.text)
			end, events := settledChat(t, w, resp.Header.Get(schemas.HeaderGeneration))
			require.Equal(t, 2, end.Attempts)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.NotEqual(t, "bad-"+string(f), strings.TrimPrefix(res.Upstream, schemas.ModelEntryPrefix))
			require.NotEmpty(t, events)
		})
	}
	t.Run("by the request's own list", func(t *testing.T) {
		t.Parallel()
		_, text := w.request(t, http.MethodPost, schemas.RouteChat, chatBody("two/none-such", false, `,"models":["sim/plain"]`))
		require.Contains(t, text, "Hello, world")
	})
}

// TestChatResumes cuts a stream's connection twice and comes back with the same key,
// by the surface's own route and by the action's: every text comes once.
func TestChatResumes(t *testing.T) {
	t.Parallel()
	step := make(chan struct{}, 6)
	provider := llm.New(t, llm.Config{Default: llm.Act{Texts: []string{"a", "b", "c", "d", "e", "f"}, Step: step}})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	body, text, after, id := chatBody("sim/plain", true, ""), "", "", ""
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		header := []string{"Idempotency-Key", "one"}
		if after != "" {
			header = append(header, "Last-Event-ID", after)
		}
		step <- struct{}{}
		step <- struct{}{}
		resp := openChat(ctx, t, w.URL, body, header...)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		id = resp.Header.Get(schemas.HeaderGeneration)
		got := readChat(t, resp.Body, func(s chatStream) bool { return round < 2 && len(s.text) == 2 })
		text, after = text+got.text, got.id
		cancel()
	}
	require.Equal(t, "abcdef", text)
	require.Equal(t, 1, provider.Hits())

	again := openChat(t.Context(), t, w.URL, body, "Idempotency-Key", "one")
	got := readChat(t, again.Body, nil)
	require.Equal(t, []any{"abcdef", 1}, []any{got.text, got.done})
	other, _ := w.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/plain", true, `,"seed":1`), "Idempotency-Key", "one")
	require.Equal(t, http.StatusUnprocessableEntity, other.StatusCode)
	require.Equal(t, 1, provider.Hits())

	_, events := settledChat(t, w, id)
	var joined strings.Builder
	for _, e := range events {
		if e.Type != schemas.EventDelta {
			continue
		}
		for _, c := range decode[schemas.ChatDelta](t, string(e.Data)).Chunks {
			for _, choice := range decode[chatChunk](t, string(c)).Choices {
				joined.WriteString(choice.Delta.Content)
			}
		}
	}
	require.Equal(t, "abcdef", joined.String())
}

// TestBudgetOfAFallback: a model that somebody names behind another one is within its
// budget all the same.
func TestBudgetOfAFallback(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, "budgets:\n  dear: {models: [sim/dear], requests: 1}\n"))
	resp, text := w.request(t, http.MethodPost, schemas.RouteChat, chatBody("nobody/knows", false, `,"models":["sim/dear"]`))
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	for _, model := range []string{"sim/dear", "nobody/knows", "sim/status-500"} {
		resp, text = w.request(t, http.MethodPost, schemas.RouteChat, chatBody(model, false, `,"models":["sim/dear"]`))
		require.Equal(t, http.StatusPaymentRequired, resp.StatusCode, text)
	}
	require.Equal(t, 1, provider.Hits())
}

// TestLargeConversation: what the door lets in, policy lets out.
func TestLargeConversation(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	long := strings.Repeat("long ", 1<<20)
	resp, text := w.request(t, http.MethodPost, schemas.RouteChat, `{"model":"sim/plain","messages":[{"role":"user","content":"`+long+`"}]}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	require.Contains(t, string(provider.WaitRequest(1).Body), long)
	resp, text = w.request(t, http.MethodPost, schemas.RouteChat, `{"model":"sim/plain","messages":[{"role":"user","content":"`+strings.Repeat(long, 4)+`"}]}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, text)
}
