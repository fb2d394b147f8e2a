package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/capture"
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
policy:
  allowlist:
    - {name: told, url_prefix: "%[2]s/told", network: loopback, headers: {Traceparent: "${trace}"}}
    - {name: untold, url_prefix: "%[2]s/untold", network: loopback}
`, sink.URL, up.URL))

	caller := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	for _, key := range []string{"told", "untold"} {
		body := fmt.Sprintf(`{"method":"GET","url":"%s/%s","allowlist_key":%q,"request_id":%q}`, up.URL, key, key, key)
		a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", body, caller...)
	}
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
	require.Len(t, collected.got["GET"], 2)
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

type teller struct{ err error }

func (l teller) Ended(context.Context, *ledger.State) error { return l.err }

// docs are the documents that were put aside.
type docs map[string]string

func (d docs) Blob(_ context.Context, inline json.RawMessage, name string) (json.RawMessage, error) {
	if name == "" {
		return inline, nil
	}
	if doc, ok := d[name]; ok {
		return json.RawMessage(doc), nil
	}
	return nil, errors.New("gone")
}

func completed(id, blob string) *ledger.State {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	settled := schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: blob}
	return &ledger.State{
		Action:  schemas.Action{ID: id, Tenant: "t", Kind: schemas.KindChat, AcceptedAt: at, Payload: json.RawMessage(`{"model":"small"}`)},
		Settled: &settled,
		Events:  []ledger.Sequenced{{Event: schemas.Event{Type: schemas.EventSettled, Time: at.Add(time.Second), Settled: &settled}}},
	}
}

// TestTheEndOfACompletionIsTraced once it is told, whatever of it is still there.
func TestTheEndOfACompletionIsTraced(t *testing.T) {
	t.Parallel()
	var sent capture.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(&sent, r.Body)
		assert.NoError(t, err)
	}))
	t.Cleanup(collector.Close)
	a := &App{
		cfg:     config.Config{Telemetry: config.Telemetry{OTLP: config.OTLP{Endpoint: collector.URL}}},
		metrics: telemetry.NewMetrics(), log: slog.New(slog.DiscardHandler),
	}
	traces, err := new(App).openTraces(t.Context())
	require.NoError(t, err)
	require.Nil(t, traces, "no collector, no traces")
	traces, err = a.openTraces(t.Context())
	require.NoError(t, err)

	kept := docs{"b1": `{"upstream":"provider-1","usage":{"prompt_tokens":1}}`}
	tell := traced{ended: teller{}.Ended, traces: traces, docs: kept}
	require.NoError(t, tell.Ended(t.Context(), completed("a-whole", "b1")))
	require.NoError(t, tell.Ended(t.Context(), completed("a-gone", "b2")))
	large := completed("a-large", "b1")
	large.Action.Payload, large.Action.PayloadBlob = json.RawMessage(`{"model":"large"}`), "p1" // as it is once it was read
	require.NoError(t, tell.Ended(t.Context(), large))
	require.NoError(t, traced{ended: teller{}.Ended, docs: kept}.Ended(t.Context(), completed("a-untold", "b1")), "without a collector")
	again := errors.New("again")
	require.ErrorIs(t, traced{ended: teller{again}.Ended, traces: traces, docs: kept}.Ended(t.Context(), completed("a-again", "b1")), again)

	require.NoError(t, a.teardown.unwind(t.Context()), "which sends what is left")
	for _, want := range []string{"chat small", "a-whole", "provider-1", "gen_ai.usage.input_tokens", "a-gone", "chat large"} {
		assert.Contains(t, sent.String(), want)
	}
	assert.NotContains(t, sent.String(), "a-untold")
	assert.NotContains(t, sent.String(), "a-again", "it is told of when it comes back")
}
