package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/telemetry"
	"weir/schemas"
)

// spans is what a collector was sent, by the path that it came to.
type spans struct {
	path  string
	key   string
	got   []*span.Span
	about map[string]any
}

// collect runs a collector of traces; call its function once everything was sent.
func collect(t *testing.T) (url string, read func() spans) {
	t.Helper()
	var all spans
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if !assert.NoError(t, err) {
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		assert.NoError(t, err)
		var req collector.ExportTraceServiceRequest
		assert.NoError(t, proto.Unmarshal(data, &req))
		all.path, all.key = r.URL.Path, r.Header.Get("X-Key")
		for _, rs := range req.GetResourceSpans() {
			all.about = plain(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				all.got = append(all.got, ss.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return server.URL, func() spans { server.Close(); return all }
}

func plain(list []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[kv.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			all[kv.GetKey()] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			all[kv.GetKey()] = v.BoolValue
		case *common.AnyValue_ArrayValue:
			words := []string{}
			for _, e := range v.ArrayValue.GetValues() {
				words = append(words, e.GetStringValue())
			}
			all[kv.GetKey()] = words
		}
	}
	return all
}

func traces(t *testing.T, m *telemetry.Metrics, url string, log *slog.Logger) *telemetry.Traces {
	t.Helper()
	client := outbound.Operator()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithHTTPClient(client), otlptracehttp.WithEndpointURL(url+"/v1/traces"))
	require.NoError(t, err)
	traces, err := m.NewTraces(t.Context(), telemetry.TracesConfig{
		Exporter: exporter, Version: "1.2.3", Logger: log, Idle: client.CloseIdleConnections,
	})
	require.NoError(t, err)
	return traces
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// inline has no documents that are stored apart.
func inline(_ context.Context, doc json.RawMessage, _ string) (json.RawMessage, error) {
	return doc, nil
}

// end sends the spans of an action that has ended.
func end(t *testing.T, to *telemetry.Traces, st *ledger.State) {
	t.Helper()
	to.Ended(t.Context(), st.Action, st.Settled, st.Events, inline)
}

// settled is the event at the end of an action that has ended so long after a time.
func settled(at time.Time, after time.Duration) schemas.Event {
	return schemas.Event{Type: schemas.EventSettled, Time: at.Add(after)}
}

func completion(t *testing.T) *ledger.State {
	t.Helper()
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	st := &ledger.State{
		Action: schemas.Action{
			ID: "a1", Tenant: "acme", Kind: schemas.KindChat, AcceptedAt: began, Payload: json.RawMessage(`{"model":"openai/gpt","x":"` + canary + `"}`),
		},
		Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 2},
		Events:  []schemas.Event{settled(began, 3*time.Second)},
	}
	answers(t, st, "", schemas.ChatResult{
		Completion: json.RawMessage(`{"model":"gpt-4-0613","choices":[{"finish_reason":"stop","message":{"content":"` + canary + `"}},{"finish_reason":"` + canary + `!"}]}`),
		Model:      "openai/*", Sent: "openai/gpt-4", Upstream: "openai",
		Usage: &schemas.ChatUsage{Prompt: 11, Completion: 7, Total: 18, Priced: true, Nanos: 1_500_000},
	})
	return st
}

// answers gives a completion in a dialect another result.
func answers(t *testing.T, st *ledger.State, d schemas.Dialect, r schemas.ChatResult) {
	t.Helper()
	if d != "" {
		st.Action.Payload = json.RawMessage(`{"model":"openai/gpt","dialect":"` + string(d) + `"}`)
	}
	var err error
	st.Settled.Result, err = json.Marshal(r)
	require.NoError(t, err)
}

func TestACompletionIsOneSpan(t *testing.T) {
	t.Parallel()
	url, read := collect(t)
	sent := traces(t, telemetry.NewMetrics(), url+"/base", nil)
	end(t, sent, completion(t))
	require.NoError(t, sent.Close(t.Context()))

	got := read()
	assert.Equal(t, "/base/v1/traces", got.path)
	assert.Equal(t, "weir", got.about["service.name"])
	assert.Equal(t, "1.2.3", got.about["service.version"])
	require.Len(t, got.got, 1)
	s := got.got[0]
	assert.Equal(t, "chat openai/gpt", s.GetName())
	assert.Equal(t, span.Span_SPAN_KIND_CLIENT, s.GetKind())
	assert.Empty(t, s.GetParentSpanId())
	assert.Equal(t, 3*time.Second, time.Duration(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()))
	assert.Equal(t, span.Status_STATUS_CODE_UNSET, s.GetStatus().GetCode())
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
		"gen_ai.request.model": "openai/gpt", "gen_ai.response.model": "gpt-4-0613",
		"gen_ai.response.finish_reasons": []string{"stop", "other"},
		"gen_ai.usage.input_tokens":      int64(11), "gen_ai.usage.output_tokens": int64(7),
		"weir.action_id": "a1", "weir.tenant": "acme", "weir.outcome": "succeeded", "weir.attempts": int64(2),
		"weir.usage_estimated": false, "weir.cost_usd": .0015,
	}, plain(s.GetAttributes()))
	assert.NotContains(t, s.String(), canary)
}

func TestTheSpanOfADialect(t *testing.T) {
	t.Parallel()
	of := func(d schemas.Dialect, doc string, u schemas.ChatUsage) func(st *ledger.State) {
		return func(st *ledger.State) {
			answers(t, st, d, schemas.ChatResult{Completion: json.RawMessage(doc), Sent: "openai/gpt-4", Usage: &u})
		}
	}
	got := chats(t,
		of(schemas.DialectResponses, `{"object":"response","model":"gpt-4-0613","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`,
			schemas.ChatUsage{Prompt: 5, Completion: 6, Reasoning: 4}),
		of(schemas.DialectMessages, `{"type":"message","model":"gpt-4-0613","stop_reason":"tool_use","content":[]}`,
			schemas.ChatUsage{Prompt: 5, Completion: 6, Cached: 2, CacheWrites: 3}),
		of(schemas.DialectEmbeddings, `{"object":"list","model":"gpt-4-0613","data":[]}`, schemas.ChatUsage{Prompt: 5}),
	)
	require.Len(t, got, 3)
	for i, want := range []map[string]any{
		{
			"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": []string{"length"}, "gen_ai.usage.output_tokens": int64(6),
			"gen_ai.usage.reasoning.output_tokens": int64(4), "gen_ai.usage.cache_read.input_tokens": nil,
		},
		{
			"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": []string{"tool_calls"},
			"gen_ai.usage.cache_read.input_tokens": int64(2), "gen_ai.usage.cache_creation.input_tokens": int64(3),
		},
		{"gen_ai.operation.name": "embeddings", "gen_ai.response.finish_reasons": nil, "gen_ai.usage.output_tokens": int64(0)},
	} {
		attributes := plain(got[i].GetAttributes())
		for name, value := range want {
			assert.Equal(t, value, attributes[name], "%d: %s", i, name)
		}
		assert.Equal(t, "gpt-4-0613", attributes["gen_ai.response.model"])
		assert.Equal(t, fmt.Sprint(want["gen_ai.operation.name"], " openai/gpt"), got[i].GetName())
	}
}

// chats are the spans of completions, each a change of an ordinary one.
func chats(t *testing.T, changes ...func(st *ledger.State)) []*span.Span {
	t.Helper()
	url, read := collect(t)
	sent := traces(t, telemetry.NewMetrics(), url, nil)
	for _, change := range changes {
		st := completion(t)
		change(st)
		end(t, sent, st)
	}
	require.NoError(t, sent.Close(t.Context()))
	return read().got
}

// TestTheSpanOfALargeCompletion has what is still there of its documents.
func TestTheSpanOfALargeCompletion(t *testing.T) {
	t.Parallel()
	blob := func(ctx context.Context, doc json.RawMessage, name string) (json.RawMessage, error) {
		switch name {
		case "":
			return inline(ctx, doc, name)
		case "kept":
			return json.RawMessage(`{"upstream":"provider-1"}`), nil
		default:
			return nil, errors.New("gone")
		}
	}
	for _, tt := range []struct{ result, payload, upstream string }{
		{"kept", "", "provider-1"}, {"gone", "", ""}, {"kept", "gone", "provider-1"}, // the payload was read before
	} {
		url, read := collect(t)
		sent, st := traces(t, telemetry.NewMetrics(), url, nil), completion(t)
		st.Action.PayloadBlob, st.Settled.Result, st.Settled.ResultBlob = tt.payload, nil, tt.result
		sent.Ended(t.Context(), st.Action, st.Settled, st.Events, blob)
		require.NoError(t, sent.Close(t.Context()))
		got := read().got
		require.Len(t, got, 1)
		assert.Equal(t, "chat openai/gpt", got[0].GetName())
		provider, _ := plain(got[0].GetAttributes())["gen_ai.provider.name"].(string)
		assert.Equal(t, tt.upstream, provider)
	}
}

func TestASpanHasTheCallersForItsParent(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]struct {
		parent string
		sent   int
	}{
		"00-" + parentTrace + "-" + parentSpan + "-01":              {parentSpan, 3},
		"00-" + parentTrace + "-" + parentSpan:                      {"", 3},
		"00-00000000000000000000000000000000-" + parentSpan + "-01": {"", 3},
		"00-" + parentTrace + "-" + parentSpan + "-00":              {"", 0}, // a caller that is not sampled gets no span, and its word is passed on
	} {
		url, read := collect(t)
		sent := traces(t, telemetry.NewMetrics(), url, nil)
		c := completion(t)
		c.Action.TraceParent = header
		end(t, sent, c)
		end(t, sent, c)
		request := sent.Request("GET", "/v1/actions", header)
		require.True(t, schemas.ValidTraceParent(request.TraceParent()), header)
		request.End(200, "")
		require.NoError(t, sent.Close(t.Context()))
		got := read().got
		require.Len(t, got, want.sent, header)
		if want.sent == 0 {
			require.Regexp(t, "^00-"+parentTrace+"-.*-00$", request.TraceParent())
			continue
		}
		assert.Equal(t, got[0].GetSpanId(), got[1].GetSpanId(), "a repeat is the same span")
		assert.Equal(t, got[0].GetTraceId(), got[1].GetTraceId())
		for _, s := range got {
			assert.Equal(t, want.parent, hex.EncodeToString(s.GetParentSpanId()), header)
			assert.Equal(t, want.parent != "", parentTrace == hex.EncodeToString(s.GetTraceId()), header)
		}
	}
}

func TestAFailureIsTheSpansError(t *testing.T) {
	t.Parallel()
	for want, failed := range map[string]schemas.Settled{
		"UPSTREAM_TIMEOUT": {Outcome: schemas.OutcomeFailed, Code: schemas.UpstreamTimeout},
		"canceled":         {Outcome: schemas.OutcomeCanceled},
		"other":            {Outcome: schemas.OutcomeFailed, Code: canary},
	} {
		failed.Message = canary
		got := chats(t, func(st *ledger.State) { st.Settled = &failed })
		require.Len(t, got, 1)
		assert.Equal(t, want, plain(got[0].GetAttributes())["error.type"])
		assert.Equal(t, span.Status_STATUS_CODE_ERROR, got[0].GetStatus().GetCode())
		assert.Equal(t, want, got[0].GetStatus().GetMessage())
		assert.NotContains(t, got[0].String(), canary)
		assert.NotContains(t, plain(got[0].GetAttributes()), "gen_ai.usage.input_tokens")
	}
}

func TestSpansThatNobodyTakesAreCounted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, canary, http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	m := telemetry.NewMetrics()
	var out bytes.Buffer
	sent := traces(t, m, server.URL, m.NewLogger(&out, "info", telemetry.FormatJSON))
	end(t, sent, completion(t))
	require.NoError(t, sent.Close(t.Context()))
	assert.Equal(t, "1", scrape(t, m)["weir_spans_lost_total"])
	assert.Contains(t, out.String(), `"msg":"span_export_failed"`)
	assert.NotContains(t, out.String(), canary)
	assert.NotContains(t, out.String(), server.URL)
}

func TestACollectorThatIsAwayKeepsNobodyFromStopping(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	sent := traces(t, telemetry.NewMetrics(), server.URL, nil)
	end(t, sent, completion(t))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.NoError(t, sent.Close(ctx))
}

func byName(all spans) map[string][]*span.Span {
	got := map[string][]*span.Span{}
	for _, s := range all.got {
		got[s.GetName()] = append(got[s.GetName()], s)
	}
	return got
}

// TestOneTraceOverAll: the request, the action and its calls are of the caller's trace, each
// the child of the one before, and a target is told the call's own span.
func TestOneTraceOverAll(t *testing.T) {
	t.Parallel()
	const caller = "00-" + parentTrace + "-" + parentSpan + "-01"
	url, all := collect(t)
	sent := traces(t, telemetry.NewMetrics(), url, nil)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

	request := sent.Request("POST", "/v1/execute", caller)
	a := schemas.Action{ID: "a-1", Tenant: "t", Kind: schemas.KindHTTP, AcceptedAt: at, TraceParent: request.TraceParent()}
	told := sent.CallParent(a, 0, 2, 0)
	require.Equal(t, told, sent.CallParent(a, 0, 2, 0), "after a crash it is the same")
	require.NotEqual(t, told, sent.CallParent(a, 0, 1, 0))
	st := &ledger.State{Action: a, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 2}}
	for i, r := range []schemas.Attempted{{Code: schemas.UpstreamReset}, {Status: 200}} {
		r.Number, r.Duration = i+1, time.Second
		try := schemas.Attempt{Number: r.Number, Method: "GET", Decision: schemas.Decision{Entry: "e"}}
		st.Events = append(st.Events, schemas.Event{Time: at.Add(time.Second), Attempt: &try}, schemas.Event{Time: at.Add(time.Duration(r.Number) * time.Minute), Attempted: &r})
	}
	st.Events = append(st.Events, settled(at, time.Hour))
	end(t, sent, st)
	request.End(200, "a-1")
	require.NoError(t, sent.Close(t.Context()))

	got := byName(all())
	require.Len(t, got["GET"], 2)
	in, work, first, second := got["POST /v1/execute"][0], got["action http"][0], got["GET"][0], got["GET"][1]
	for _, s := range []*span.Span{in, work, first, second} {
		assert.Equal(t, parentTrace, hex.EncodeToString(s.GetTraceId()), s.GetName())
	}
	assert.Equal(t, parentSpan, hex.EncodeToString(in.GetParentSpanId()))
	assert.Equal(t, in.GetSpanId(), work.GetParentSpanId())
	assert.Equal(t, work.GetSpanId(), first.GetParentSpanId())
	assert.Equal(t, work.GetSpanId(), second.GetParentSpanId())
	assert.Equal(t, "00-"+parentTrace+"-"+hex.EncodeToString(second.GetSpanId())+"-01", told)
	assert.Equal(t, "UPSTREAM_RESET", plain(first.GetAttributes())["error.type"])
	assert.Equal(t, int64(200), plain(second.GetAttributes())["http.response.status_code"])
	assert.Equal(t, "a-1", plain(in.GetAttributes())["weir.action_id"])
	assert.Equal(t, "succeeded", plain(work.GetAttributes())["weir.outcome"])
}

// TestWithoutTraces nothing is sent, and what the caller named is passed on as it is.
func TestWithoutTraces(t *testing.T) {
	t.Parallel()
	var none *telemetry.Traces
	require.NoError(t, none.Close(t.Context()))
	require.Nil(t, none.Request("GET", "/", ""))
	end(t, none, completion(t))
	require.Equal(t, "caller's", none.CallParent(schemas.Action{TraceParent: "caller's"}, 0, 1, 0))
}
