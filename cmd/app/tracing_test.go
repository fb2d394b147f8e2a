package app

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/config"
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
		status, text, _ := a.ask(t, http.MethodPost, "/v1/execute", body, caller...)
		require.Equal(t, http.StatusOK, status, text)
	}
	header := <-told
	require.Empty(t, <-told, "an entry that does not say so tells nobody")
	status, text, _ := a.ask(t, http.MethodGet, "/v1/actions/told/events", "", append([]string{"Accept", "text/event-stream"}, caller...)...)
	require.Equal(t, http.StatusOK, status)
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

// TestTracesArePassedOn without a collector: as the caller named its span, and not if that
// is malformed.
func TestTracesArePassedOn(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told <- strings.Join(r.Header.Values("Traceparent"), "|")
	}))
	t.Cleanup(up.Close)
	a := newApp(t, fmt.Sprintf(`log: {durability: process}
policy:
  allowlist:
    - {name: told, url_prefix: "%s/", network: loopback, headers: {Traceparent: "${trace}"}}
`, up.URL))
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for named, want := range map[string]string{span: span, "junk": "", "": "", "ff" + span[2:]: ""} {
		status, text, _ := a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/x"}`, up.URL), "Traceparent", named)
		require.Equal(t, http.StatusOK, status, text)
		require.Equal(t, want, <-told, named)
	}
}

// TestTracePlaceholder stands in one place.
func TestTracePlaceholder(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		`headers: {X-Trace: "${trace}"}`, `headers: {Traceparent: "x ${trace}"}`, `query: {traceparent: "${trace}"}`, `body: {traceparent: "${trace}"}`,
	} {
		_, err := config.Parse("test", fmt.Appendf(nil, "policy: {allowlist: [{name: a, url_prefix: 'https://a.example/', methods: [POST], %s}]}", entry), nil, nil)
		require.ErrorContains(t, err, "placeholder", entry)
	}
}
