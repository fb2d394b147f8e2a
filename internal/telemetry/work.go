package telemetry

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"weir/schemas"
)

// Work is an action that has ended, with the calls that were made for it.
type Work struct {
	Action         schemas.Action
	Started, Ended time.Time // Started is zero where no worker began
	Settled        schemas.Settled
	Calls          []Call
}

// Call is one attempt whose result is known.
type Call struct {
	schemas.Attempt
	Result schemas.Attempted
	Ended  time.Time
}

// Ended sends the spans of an action: its own, unless it is a completion, whose is Chat's,
// and one for each call. They hold names of the configuration, numbers and words of
// closed sets. Their ids hang on the action and on the call's place in it alone: a repeat
// after a crash is the same spans, and a target that was told of a call's span before
// was told the right one.
func (t *Traces) Ended(w Work) {
	if t == nil {
		return
	}
	ctx, own := t.begin(w.Action, "action "+string(w.Action.Kind), trace.SpanKindConsumer)
	for _, c := range w.Calls {
		t.call(ctx, w.Action, c)
	}
	if w.Action.Kind == schemas.KindChat || !own.IsRecording() {
		return
	}
	own.SetAttributes(
		attribute.String("weir.action_id", w.Action.ID),
		attribute.String("weir.tenant", w.Action.Tenant),
		attribute.String("weir.kind", string(w.Action.Kind)),
		attribute.String("weir.outcome", string(w.Settled.Outcome)),
		attribute.Int("weir.attempts", w.Settled.Attempts))
	if !w.Started.IsZero() {
		own.AddEvent("started", trace.WithTimestamp(w.Started))
	}
	if word := failure(w.Settled); word != "" {
		own.SetAttributes(attribute.String("error.type", word))
		own.SetStatus(codes.Error, word)
	}
	own.End(trace.WithTimestamp(w.Ended))
}

// call sends the span of one call.
func (t *Traces) call(ctx context.Context, a schemas.Action, c Call) {
	name := c.Method
	if name == "" {
		name = "call"
	}
	_, span := t.tracer.Start(placed(ctx, a, c.Step, c.Number, c.Hop), name,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.Ended.Add(-c.Result.Duration)))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.Int("http.request.resend_count", c.Number-1),
			attribute.String("weir.entry", c.Decision.Entry),
			attribute.Int("weir.step", c.Step))
		if c.Method != "" {
			span.SetAttributes(attribute.String("http.request.method", c.Method))
		}
		if c.Result.Status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", c.Result.Status))
		}
		word := string(c.Result.Code)
		if word != "" && !knownCode(word) {
			word = other
		}
		if word == "" && c.Result.Status >= 400 {
			word = strconv.Itoa(c.Result.Status)
		}
		if word != "" {
			span.SetAttributes(attribute.String("error.type", word))
			span.SetStatus(codes.Error, word)
		}
	}
	span.End(trace.WithTimestamp(c.Ended))
}

// CallParent is what a call's target is to be told in traceparent: the call's own span, or
// without traces what the caller named.
func (t *Traces) CallParent(a schemas.Action, step, number, hop int) string {
	if t == nil {
		return a.TraceParent
	}
	ctx, _ := t.begin(a, "", trace.SpanKindConsumer)                  // neither is ended, so neither is sent
	_, span := t.tracer.Start(placed(ctx, a, step, number, hop), "")  //nolint:spancheck // what ends is sent
	return written(trace.ContextWithSpan(context.Background(), span)) //nolint:spancheck // as above
}

// begin makes an action's own span, a child of what its caller named.
func (t *Traces) begin(a schemas.Action, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	ctx := context.WithValue(context.Background(), actionKey{}, nameOf(a))
	ctx = t.parents.Extract(ctx, propagation.MapCarrier{traceParent: a.TraceParent})
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(a.AcceptedAt)) //nolint:spancheck // the caller ends it
}

// nameOf is what the ids of an action's spans hang on.
func nameOf(a schemas.Action) string { return a.Tenant + "/" + string(a.Kind) + "/" + a.ID }

// placed is what the id of a call's span hangs on.
func placed(ctx context.Context, a schemas.Action, step, number, hop int) context.Context {
	place := "/" + strconv.Itoa(step) + "/" + strconv.Itoa(number) + "/" + strconv.Itoa(hop)
	return context.WithValue(ctx, actionKey{}, nameOf(a)+place)
}

// traceParent is the header's name as propagation writes it.
const traceParent = "traceparent"

// written is the span of a context as the header has it.
func written(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceParent]
}
