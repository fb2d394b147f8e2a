package app

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/internal/ledger"
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

// trace makes the work of a request a part of the caller's trace. With a collector each
// request is a span, whose end is that of its answer: a stream's comes when nobody reads
// it any more. Without one the caller's own span is passed on.
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

// probes tells the routes that machines ask every few seconds, and nobody for an action.
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
	tries := make(map[[3]int]schemas.Attempt, len(st.Attempts))
	for _, t := range st.Attempts {
		tries[[3]int{t.Step, t.Number, t.Hop}] = t.Attempt
	}
	for _, e := range st.Events {
		if w.Started.IsZero() && (e.Type == schemas.EventStarted || e.Attempt != nil) {
			w.Started = e.Time
		}
		if r := e.Attempted; r != nil {
			w.Calls = append(w.Calls, telemetry.Call{Attempt: tries[[3]int{r.Step, r.Number, r.Hop}], Result: *r, Ended: e.Time})
		}
	}
	a.traces.Ended(w)
}
