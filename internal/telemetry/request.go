package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"weir/schemas"
)

// Request is the span of one request to this node; nil: it is not traced.
type Request struct {
	span   trace.Span
	parent string
}

// Request begins the span of a request: the method and the route, as it is registered. It is
// a child of what its header names; what is no traceparent counts as none.
func (t *Traces) Request(method, route, header string) *Request {
	if t == nil {
		return nil
	}
	ctx := context.Background()
	if schemas.ValidTraceParent(header) {
		ctx = t.parents.Extract(ctx, propagation.MapCarrier{traceParent: header})
	}
	ctx, span := t.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes( //nolint:spancheck // End ends it
		attribute.String("http.request.method", method), attribute.String("http.route", route)))
	return &Request{span: span, parent: written(ctx)} //nolint:spancheck // as above
}

// TraceParent is the span, as what it leads to names it.
func (r *Request) TraceParent() string {
	if r == nil {
		return ""
	}
	return r.parent
}

// End sends the span: the whole of the answer is written, a stream's end with it. The action
// is that which the request made, joined or read; empty: none.
func (r *Request) End(status int, action string) {
	if r == nil {
		return
	}
	r.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if action != "" {
		r.span.SetAttributes(attribute.String("weir.action_id", action))
	}
	if status >= 500 {
		r.span.SetStatus(codes.Error, "")
	}
	r.span.End()
}
