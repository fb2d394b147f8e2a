package telemetry_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	span "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/internal/telemetry"
	"weir/schemas"
)

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
	call := func(number int, r schemas.Attempted) telemetry.Call {
		r.Number, r.Duration = number, time.Second
		return telemetry.Call{Attempt: schemas.Attempt{Number: number, Method: "GET", Decision: schemas.Decision{Entry: "e"}}, Result: r, Ended: at.Add(time.Duration(number) * time.Minute)}
	}
	sent.Ended(telemetry.Work{
		Action: a, Started: at.Add(time.Second), Ended: at.Add(time.Hour), Settled: schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 2},
		Calls: []telemetry.Call{call(1, schemas.Attempted{Code: schemas.UpstreamReset}), call(2, schemas.Attempted{Status: 200})},
	})
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

// TestWhatIsNoParent begins a trace of its own, and one that is not sampled sends nothing and
// is passed on.
func TestWhatIsNoParent(t *testing.T) {
	t.Parallel()
	url, all := collect(t)
	sent := traces(t, telemetry.NewMetrics(), url, nil)
	for _, header := range []string{"", "junk", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		r := sent.Request("GET", "/v1/actions", header)
		require.True(t, schemas.ValidTraceParent(r.TraceParent()), header)
		require.NotContains(t, r.TraceParent(), "0af7651916cd43dd8448eb211c80319c")
		r.End(200, "")
	}
	quiet := sent.Request("GET", "/v1/evidence", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	require.Regexp(t, "^00-0af7651916cd43dd8448eb211c80319c-.*-00$", quiet.TraceParent())
	quiet.End(200, "")
	require.NoError(t, sent.Close(t.Context()))
	got := byName(all())
	require.Len(t, got["GET /v1/actions"], 4)
	for _, s := range got["GET /v1/actions"] {
		require.Empty(t, s.GetParentSpanId())
	}
	require.NotContains(t, got, "GET /v1/evidence")
}

// TestWithoutTraces nothing is sent, and what the caller named is passed on as it is.
func TestWithoutTraces(t *testing.T) {
	t.Parallel()
	var none *telemetry.Traces
	require.Nil(t, none.Request("GET", "/", ""))
	none.Request("GET", "/", "").End(200, "a")
	require.Empty(t, none.Request("GET", "/", "").TraceParent())
	none.Ended(telemetry.Work{})
	require.Equal(t, "caller's", none.CallParent(schemas.Action{TraceParent: "caller's"}, 0, 1, 0))
}
