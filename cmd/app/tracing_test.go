package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/ledger"
	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// spanned collects spans.
type spanned struct {
	mu  sync.Mutex
	got map[string][]*span.Span // by name
}

func (s *spanned) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(data, &req) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, one := range ss.GetSpans() {
				s.got[one.GetName()] = append(s.got[one.GetName()], one)
			}
		}
	}
}

// TestOneTrace: the request, the action, the call and the stream of events are of the
// caller's trace; the target is told the call's span if its entry says so; and the log's
// message names the request's.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	collected := &spanned{got: map[string][]*span.Span{}}
	sink := httptest.NewServer(collected)
	t.Cleanup(sink.Close)
	told := make(chan string, 2)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Traceparent") }))
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`log: {durability: process}
telemetry: {otlp: {endpoint: %q}}
models: {small: {url: %[3]q}}
policy:
  allowlist:
    - {name: told, url_prefix: "%[2]s/told", network: loopback, headers: {Traceparent: "${trace}"}}
    - {name: untold, url_prefix: "%[2]s/untold", network: loopback}
`, sink.URL, up.URL, llm.New(t, llm.Config{}).URL()))

	caller := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	for _, key := range []string{"told", "untold"} {
		body := fmt.Sprintf(`{"method":"GET","url":"%s/%s","allowlist_key":%q,"request_id":%q}`, up.URL, key, key, key)
		a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", body, caller...)
	}
	a.asks(t, http.StatusOK, http.MethodPost, schemas.RouteChat, `{"model":"small","messages":[{"role":"user","content":"hi"}]}`, caller...)
	header := <-told
	require.Empty(t, <-told, "an entry that does not say so tells nobody")
	text, _ := a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/told/events", "", append([]string{"Accept", "text/event-stream"}, caller...)...)
	require.Contains(t, text, "settled")
	st, err := a.ledger.Find(t.Context(), "default", "told")
	require.NoError(t, err)
	require.NoError(t, a.Stop(context.WithoutCancel(t.Context())), "which sends what is left")

	collected.mu.Lock()
	defer collected.mu.Unlock()
	for name, list := range collected.got {
		for _, s := range list {
			assert.Equal(t, trace, hex.EncodeToString(s.GetTraceId()), name)
		}
	}
	require.Len(t, collected.got["POST /v1/execute"], 2)
	require.Len(t, collected.got["GET /v1/actions/:id/events"], 1, "%v", collected.got)
	require.Len(t, collected.got["action http"], 2)
	settled := st.Events[slices.IndexFunc(st.Events, func(e schemas.Event) bool { return e.Type == schemas.EventSettled })]
	require.True(t, slices.ContainsFunc(collected.got["action http"], func(s *span.Span) bool {
		return s.GetEndTimeUnixNano() == uint64(settled.Time.UnixNano())
	}), "an action's span ends when it was settled")
	require.Len(t, collected.got["GET"], 2)
	require.Len(t, collected.got["chat small"], 1)
	require.True(t, schemas.ValidTraceParent(header), header)
	called := strings.Split(header, "-")
	require.Equal(t, trace, called[1])
	mine := 0
	for _, s := range collected.got["GET"] {
		if hex.EncodeToString(s.GetSpanId()) == called[2] {
			mine++
		}
	}
	require.Equal(t, 1, mine, "the target was told one of the calls' spans")
	mine = 0
	for _, s := range collected.got["POST /v1/execute"] {
		if strings.Contains(st.Action.TraceParent, hex.EncodeToString(s.GetSpanId())) {
			mine++
		}
	}
	require.Equal(t, 1, mine, "the action is a child of its request")
}

// TestTheSpanOfACompletion has what is still there of its documents.
func TestTheSpanOfACompletion(t *testing.T) {
	t.Parallel()
	blob := func(_ context.Context, inline json.RawMessage, name string) (json.RawMessage, error) {
		switch name {
		case "":
			return inline, nil
		case "kept":
			return json.RawMessage(`{"upstream":"provider-1","usage":{"prompt_tokens":1}}`), nil
		default:
			return nil, errors.New("gone")
		}
	}
	for _, tt := range []struct{ result, payload, upstream string }{
		{"kept", "", "provider-1"}, {"gone", "", ""}, {"kept", "gone", "provider-1"}, // the payload was read before
	} {
		settled := schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: tt.result}
		asked, got := completion(t.Context(), &ledger.State{
			Action:  schemas.Action{ID: "a", Payload: json.RawMessage(`{"model":"small","dialect":"responses"}`), PayloadBlob: tt.payload},
			Settled: &settled,
		}, blob)
		assert.Equal(t, []any{"small", schemas.DialectResponses, tt.upstream}, []any{asked, got.Dialect, got.Upstream})
	}
}
