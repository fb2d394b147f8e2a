package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"weir/cmd/cli"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/telemetry"
	"weir/internal/traceparent"
	"weir/schemas"
)

// openTracing opens the connection to a collector of spans, if the configuration names one. It
// comes before anything that sends spans, so that it is the last to close.
func (a *App) openTracing(ctx context.Context) error {
	if a.cfg.Telemetry.OTLP.Endpoint == "" {
		return nil // nil traces send nothing
	}
	client := outbound.Operator()
	base := strings.TrimRight(a.cfg.Telemetry.OTLP.Endpoint, "/")
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(client), otlptracehttp.WithEndpointURL(base+"/v1/traces"))
	if err != nil {
		return err
	}
	traces, err := a.metrics.NewTraces(ctx, telemetry.TracesConfig{
		Exporter: exporter, Idle: client.CloseIdleConnections, Version: cli.Version, Logger: a.log,
	})
	if err != nil {
		return err
	}
	a.traces = traces
	a.teardown.push(traces.Close)
	a.teardown.push(func(context.Context) error { a.traced.Wait(); return nil }) // the requests themselves have ended by then
	return nil
}

// trace links the work of a request to the caller's trace. With a collector each request is a span
// that ends with its answer; for a stream, when its last reader leaves. Without one, the caller's
// own span is passed on.
func (a *App) trace(c *gin.Context) {
	caller := ""
	if named := c.Request.Header.Values(schemas.HeaderTraceParent); len(named) == 1 && schemas.ValidTraceParent(named[0]) {
		caller = named[0]
	}
	var span *telemetry.Request
	if route := c.FullPath(); route != "" && !probes(route) {
		span = a.traces.Request(c.Request.Method, route, caller)
	}
	if span != nil {
		caller = span.TraceParent()
	}
	if caller == "" {
		return
	}
	ctx := c.Request.Context()
	c.Request = c.Request.WithContext(traceparent.With(ctx, caller))
	if span == nil {
		return
	}
	panics := true
	defer func() {
		status, action := c.Writer.Status(), c.Writer.Header().Get("Weir-Action-Id")
		switch {
		case panics:
			status = http.StatusInternalServerError
		case action == "" && status == http.StatusOK && strings.HasPrefix(c.FullPath(), "/v1/actions/:id"):
			action = c.Param("id") // there is one of that name
		}
		a.traced.Add(1)
		context.AfterFunc(ctx, func() {
			span.End(status, action)
			a.traced.Done()
		})
	}()
	c.Next()
	panics = false
}

// probes reports whether a route is polled by monitoring and belongs to no action.
func probes(route string) bool {
	switch route {
	case "/healthz", "/readyz", "/health", "/health/ready", "/ready", schemas.RouteAPI + "/ready", "/metrics":
		return true
	default:
		return false
	}
}

// traceEnd sends the spans of an action that has ended, and of its calls.
func (a *App) traceEnd(ctx context.Context, st *ledger.State) {
	if a.traces == nil || st.Settled == nil {
		return
	}
	w := telemetry.Work{Action: st.Action, Settled: *st.Settled}
	if st.Kind == schemas.KindChat {
		w.Asked, w.Chat = completion(ctx, st, a.ledger.Blob)
	}
	tries := make(map[[4]int]schemas.Attempt, len(st.Attempts))
	for _, t := range st.Attempts {
		tries[[4]int{t.Step, t.Number, t.Hop, t.Probe}] = t.Attempt
	}
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			w.Ended = e.Time
		}
		if w.Started.IsZero() && (e.Type == schemas.EventStarted || e.Attempt != nil) {
			w.Started = e.Time
		}
		if r := e.Attempted; r != nil {
			w.Calls = append(w.Calls, telemetry.Call{Attempt: tries[[4]int{r.Step, r.Number, r.Hop, r.Probe}], Result: *r, Ended: e.Time})
		}
	}
	a.traces.Ended(w) //nolint:contextcheck // spans are sent also when the work is interrupted
}

// completion is the model that a completion asked for, and its result: its documents may be missing. One that
// is stored as a blob may be inline too if it was read before.
func completion(
	ctx context.Context, st *ledger.State, blob func(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error),
) (asked string, result schemas.ChatResult) {
	var order struct {
		Dialect schemas.Dialect `json:"dialect"`
		Model   string          `json:"model"`
	}
	read := func(inline json.RawMessage, name string, into any) {
		if len(inline) > 0 {
			name = ""
		}
		if doc, err := blob(ctx, inline, name); err == nil {
			_ = json.Unmarshal(doc, into)
		}
	}
	read(st.Action.Payload, st.Action.PayloadBlob, &order)
	read(st.Settled.Result, st.Settled.ResultBlob, &result)
	result.Dialect = order.Dialect
	return order.Model, result
}
