package telemetry

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"weir/internal/completion"
	"weir/schemas"
)

// TracesConfig says where traces go.
type TracesConfig struct {
	// Exporter sends the spans to a collector.
	Exporter sdk.SpanExporter
	// Version is the program's.
	Version string
	// Idle closes the exporter's unused connections.
	Idle func()
	// Logger logs spans that could not be sent.
	Logger *slog.Logger
}

// Traces sends spans to a collector, in batches and in the background: no work waits for
// it. Spans that do not fit its queue are lost; spans that the collector does not take are lost too,
// logged and counted in weir_spans_lost_total. A nil *Traces sends nothing. The variables
// of OpenTelemetry's SDK hold for it, such as OTEL_EXPORTER_OTLP_HEADERS for a credential,
// OTEL_RESOURCE_ATTRIBUTES and OTEL_TRACES_SAMPLER; without the last a caller's decision
// counts, and everything else is sent. It is safe for concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	idle     func()
}

// NewTraces begins to send. It connects to nothing: a collector may come later.
func (m *Metrics) NewTraces(ctx context.Context, cfg TracesConfig) (*Traces, error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "weir"), attribute.String("service.version", cfg.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithIDGenerator(actionIDs{}),
		sdk.WithBatcher(quiet{cfg.Exporter, cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), m.spansLost}))
	return &Traces{provider: provider, tracer: provider.Tracer("weir"), idle: cfg.Idle}, nil
}

// closeTimeout is how long a node that stops waits for a collector.
const closeTimeout = 5 * time.Second

// Close sends what is left, for as long as ctx allows and five seconds at most.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	t.idle()
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // spans are no work: a collector that is away does not keep a node from stopping
	}
	return err
}

// quiet sends spans, and keeps the errors of that from OpenTelemetry's own log, which
// would print the collector's URL and its answer.
type quiet struct {
	sdk.SpanExporter

	log  *slog.Logger
	lost prometheus.Counter
}

func (q quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.lost.Add(float64(len(spans)))
		q.log.WarnContext(ctx, "span_export_failed", "count", len(spans), "err_kind", ErrKind(err))
	}
	return nil
}

// actionKey is the key in a context of the name that a span's ids are made of.
type actionKey struct{}

// actionIDs makes ids of the name of an action, so that a repeat after a crash is the same
// span. Without a name they are random.
type actionIDs struct{}

func (actionIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	name, ok := ctx.Value(actionKey{}).(string)
	if !ok {
		name = rand.Text()
	}
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:16])
	copy(span[:], sum[16:])
	return id, span
}

func (n actionIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := n.NewIDs(ctx)
	return span
}

// traceParent is the header's name as propagation writes it.
const traceParent = "traceparent"

// from is a context with the span that a header names.
func from(ctx context.Context, header string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: header})
}

// written is a span as the header has it.
func written(span trace.Span) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier[traceParent]
}

// Request is the span of one request to this node.
type Request struct{ span trace.Span }

// Request begins the span of a request: the method and the route, as it is registered. It is
// a child of the span that its header names; a header that is no traceparent is ignored. Without
// traces it is nil.
func (t *Traces) Request(method, route, header string) *Request {
	if t == nil {
		return nil
	}
	ctx := context.Background()
	if schemas.ValidTraceParent(header) {
		ctx = from(ctx, header)
	}
	about := trace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route))
	_, span := t.tracer.Start(ctx, method+" "+route, trace.WithSpanKind(trace.SpanKindServer), about) //nolint:spancheck // End ends it
	return &Request{span}                                                                             //nolint:spancheck // as above
}

// TraceParent is the span, as its children name it.
func (r *Request) TraceParent() string { return written(r.span) }

// End sends the span: the whole of the answer is written, a stream's end with it. The action
// is the one that the request made, joined or read; empty: none.
func (r *Request) End(status int, action string) {
	r.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if action != "" {
		r.span.SetAttributes(attribute.String("weir.action_id", action))
	}
	if status >= 500 {
		r.span.SetStatus(codes.Error, "")
	}
	r.span.End()
}

// named has the ids of a context's spans made of an action, and of a place in it.
func named(ctx context.Context, a schemas.Action, place ...int) context.Context {
	parts := []string{a.Tenant, string(a.Kind), a.ID}
	for _, n := range place {
		parts = append(parts, strconv.Itoa(n))
	}
	return context.WithValue(ctx, actionKey{}, strings.Join(parts, "/"))
}

// begin makes an action's own span, a child of the span that its caller named.
func (t *Traces) begin(a schemas.Action, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	ctx := from(named(context.Background(), a), a.TraceParent)
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(a.AcceptedAt)) //nolint:spancheck // the caller ends it
}

// finish ends a span. Failure is empty, or from a closed set.
func finish(span trace.Span, at time.Time, failure string, attributes ...attribute.KeyValue) {
	span.SetAttributes(attributes...)
	if failure != "" {
		span.SetAttributes(attribute.String("error.type", failure))
		span.SetStatus(codes.Error, failure)
	}
	span.End(trace.WithTimestamp(at))
}

// codeOf is a code from the closed set, or other; empty: there is none.
func codeOf(code schemas.Code) string {
	return orOther(string(code), code == "" || knownCode(string(code)))
}

// Blobs returns a document that is inline, or the one that a name names.
type Blobs = func(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)

// Ended sends the spans of an action that has ended: its own, and one for each call whose result is known. The
// span of a completion is its operation and the model's name, with the attributes of OpenTelemetry's conventions
// for generative AI. Spans hold names of the configuration, numbers and words of closed sets, and nothing of a
// conversation. Their ids depend on the action and on the call's place in it alone: a repeat after a crash is the
// same spans, and the target of a call got the right one.
func (t *Traces) Ended(ctx context.Context, a schemas.Action, end *schemas.Settled, events []schemas.Event, blob Blobs) {
	if t == nil || end == nil {
		return
	}
	name, kind := "action "+string(a.Kind), trace.SpanKindConsumer
	list := []attribute.KeyValue{
		attribute.String("weir.action_id", a.ID),
		attribute.String("weir.tenant", a.Tenant),
		attribute.String("weir.outcome", string(end.Outcome)),
		attribute.Int("weir.attempts", end.Attempts),
	}
	chat := a.Kind == schemas.KindChat
	if chat {
		asked, result := completed(ctx, a, end, blob)
		name, kind = result.Dialect.Operation()+" "+asked, trace.SpanKindClient
		list = append(list, chatAttributes(asked, result)...)
	} else {
		list = append(list, attribute.String("weir.kind", string(a.Kind)))
	}
	tries := map[[4]int]schemas.Attempt{}
	parent, own := t.begin(a, name, kind)
	var started, ended time.Time // started is zero where no worker began
	for _, e := range events {
		if e.Type == schemas.EventSettled {
			ended = e.Time
		}
		if started.IsZero() && (e.Type == schemas.EventStarted || e.Attempt != nil) {
			started = e.Time
		}
		if try := e.Attempt; try != nil {
			tries[[4]int{try.Step, try.Number, try.Hop, try.Probe}] = *try
		}
		if r := e.Attempted; r != nil {
			t.call(parent, a, tries[[4]int{r.Step, r.Number, r.Hop, r.Probe}], *r, e.Time) //nolint:contextcheck // spans are sent also when the work is interrupted
		}
	}
	if !chat && !started.IsZero() {
		own.AddEvent("started", trace.WithTimestamp(started))
	}
	failure := ""
	if end.Outcome != schemas.OutcomeSucceeded {
		failure = cmp.Or(codeOf(end.Code), string(end.Outcome))
	}
	finish(own, ended, failure, list...)
}

// completed is the model that a completion asked for, as it was written, and its result: its documents may be
// missing. One that is stored as a blob may be inline too if it was read before.
func completed(ctx context.Context, a schemas.Action, end *schemas.Settled, blob Blobs) (asked string, result schemas.ChatResult) {
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
	read(a.Payload, a.PayloadBlob, &order)
	read(end.Result, end.ResultBlob, &result)
	result.Dialect = order.Dialect
	return order.Model, result
}

func chatAttributes(asked string, chat schemas.ChatResult) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", chat.Dialect.Operation()), attribute.String("gen_ai.request.model", asked),
	}
	if chat.Upstream != "" {
		list = append(list, attribute.String("gen_ai.provider.name", chat.Upstream))
	}
	if model := schemas.ChatModel(chat.Sent, gjson.GetBytes(chat.Completion, "model").Str); model != "" {
		list = append(list, attribute.String("gen_ai.response.model", model))
	}
	protocol := completion.For(chat.Dialect)
	if whole, err := protocol.Read("", chat.Completion); err == nil {
		answer := protocol.Answer(completion.Options{})
		answer.Add(whole)
		if reasons := answer.Reasons(); len(reasons) > 0 {
			list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", reasons))
		}
	}
	if u := chat.Usage; u != nil {
		for name, n := range u.GenAI() {
			list = append(list, attribute.Int64(name, n))
		}
		list = append(list, attribute.Bool("weir.usage_estimated", u.Estimated))
		if u.Priced {
			list = append(list, attribute.Float64("weir.cost_usd", float64(u.Nanos)/1e9))
		}
	}
	return list
}

// call sends the span of one call.
func (t *Traces) call(ctx context.Context, a schemas.Action, c schemas.Attempt, result schemas.Attempted, ended time.Time) {
	_, span := t.tracer.Start(named(ctx, a, c.Place()...), cmp.Or(c.Method, "call"),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(ended.Add(-result.Duration)))
	list := []attribute.KeyValue{
		attribute.Int("http.request.resend_count", c.Number-1),
		attribute.String("weir.entry", c.Decision.Entry),
		attribute.Int("weir.step", c.Step),
	}
	if c.Method != "" {
		list = append(list, attribute.String("http.request.method", c.Method))
	}
	if result.Status != 0 {
		list = append(list, attribute.Int("http.response.status_code", result.Status))
	}
	word := codeOf(result.Code)
	if word == "" && result.Status >= 400 {
		word = strconv.Itoa(result.Status)
	}
	finish(span, ended, word, list...)
}

// CallParent is the traceparent that a call sends to its target: the call's own span, or
// without traces the one that the caller sent.
func (t *Traces) CallParent(a schemas.Action, place ...int) string {
	if t == nil {
		return a.TraceParent
	}
	ctx, _ := t.begin(a, "", trace.SpanKindConsumer)       // neither is ended, so neither is sent
	_, span := t.tracer.Start(named(ctx, a, place...), "") //nolint:spancheck // what ends is sent
	return written(span)                                   //nolint:spancheck // as above
}
