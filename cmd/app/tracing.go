package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"weir/cmd/cli"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/telemetry"
	"weir/internal/traceparent"
	"weir/schemas"
)

// openTracing opens the traces before anything that sends to them, so that they are the
// last to close.
func (a *App) openTracing(ctx context.Context) (err error) {
	a.traces, err = a.openTraces(ctx)
	a.teardown.push(func(context.Context) error { a.traced.Wait(); return nil }) // the requests themselves have ended by then
	return err
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

// tellEnd sends the spans of an action that has ended, and of its calls.
func (a *App) tellEnd(st *ledger.State) {
	if a.traces == nil || st.Settled == nil {
		return
	}
	w := telemetry.Work{Action: st.Action, Settled: *st.Settled, Ended: endOf(st)}
	tries := make(map[[4]int]schemas.Attempt, len(st.Attempts))
	for _, t := range st.Attempts {
		tries[[4]int{t.Step, t.Number, t.Hop, t.Probe}] = t.Attempt
	}
	for _, e := range st.Events {
		if w.Started.IsZero() && (e.Type == schemas.EventStarted || e.Attempt != nil) {
			w.Started = e.Time
		}
		if r := e.Attempted; r != nil {
			w.Calls = append(w.Calls, telemetry.Call{Attempt: tries[[4]int{r.Step, r.Number, r.Hop, r.Probe}], Result: *r, Ended: e.Time})
		}
	}
	a.traces.Ended(w)
}

// openTraces opens the way of spans to a collector, if the configuration names one.
func (a *App) openTraces(ctx context.Context) (*telemetry.Traces, error) {
	if a.cfg.Telemetry.OTLP.Endpoint == "" {
		return nil, nil // nil traces send nothing
	}
	client := outbound.Operator()
	traces, err := a.metrics.NewTraces(ctx, telemetry.TracesConfig{
		Client: otlptracehttp.WithHTTPClient(client), Idle: client.CloseIdleConnections,
		Endpoint: a.cfg.Telemetry.OTLP.Endpoint, Version: cli.Version, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.teardown.push(traces.Close)
	return traces, nil
}

// traced reports the ends of completions to a collector of traces.
type traced struct {
	ended  func(ctx context.Context, st *ledger.State) error // called first
	traces *telemetry.Traces
	docs   interface {
		Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
	}
}

// Ended is as in processors.Kind.
func (t traced) Ended(ctx context.Context, st *ledger.State) error {
	if err := t.ended(ctx, st); err != nil || t.traces == nil || st.Settled == nil {
		return err
	}
	c := telemetry.Completion{Action: st.Action, Settled: *st.Settled, Ended: endOf(st)}
	var order struct {
		Dialect schemas.Dialect `json:"dialect"`
		Model   string          `json:"model"`
	}
	t.read(ctx, st.Action.Payload, st.Action.PayloadBlob, &order)
	t.read(ctx, st.Settled.Result, st.Settled.ResultBlob, &c.Result)
	c.Asked, c.Result.Dialect = order.Model, order.Dialect
	t.traces.Chat(c)
	return nil
}

// read reads a document that may be missing: a span includes what is known. A separately stored
// document may be inline if it was read before.
func (t traced) read(ctx context.Context, inline json.RawMessage, name string, into any) {
	if len(inline) > 0 {
		name = ""
	}
	if doc, err := t.docs.Blob(ctx, inline, name); err == nil {
		_ = json.Unmarshal(doc, into)
	}
}

// endOf is when an action was settled.
func endOf(st *ledger.State) (at time.Time) {
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			at = e.Time
		}
	}
	return at
}
