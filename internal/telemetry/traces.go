package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracesPath is where a collector takes spans, behind its base URL.
const tracesPath = "/v1/traces"

// TracesConfig says where traces go.
type TracesConfig struct {
	// Endpoint is the base URL of a collector that speaks OTLP over HTTP; /v1/traces is
	// added to it.
	Endpoint string
	// Version is the program's.
	Version string
	// Client is what the collector is reached by, and Idle lets go of its connections.
	Client otlptracehttp.Option
	Idle   func()
	// Logger hears of spans that could not be sent.
	Logger *slog.Logger
}

// Traces sends spans to a collector, in batches and beside the work: nothing waits for
// it. What does not fit its queue is lost; what the collector does not take is lost too,
// logged and counted in weir_spans_lost_total. A nil *Traces sends nothing. The variables
// of OpenTelemetry's SDK hold for it, such as OTEL_EXPORTER_OTLP_HEADERS for a credential,
// OTEL_RESOURCE_ATTRIBUTES and OTEL_TRACES_SAMPLER; without the last a caller's word
// counts, and everything else is sent. It is safe for concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	parents  propagation.TraceContext
	idle     func()
}

// NewTraces begins to send. It reaches for nobody: a collector may come later.
func (m *Metrics) NewTraces(ctx context.Context, cfg TracesConfig) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx, cfg.Client,
		otlptracehttp.WithEndpointURL(strings.TrimRight(cfg.Endpoint, "/")+tracesPath))
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "weir"), attribute.String("service.version", cfg.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	provider := sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithIDGenerator(named{}),
		sdk.WithBatcher(quiet{exporter, cfg.Logger, m.spansLost}))
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
		return nil // spans are no work: a collector that is away keeps nobody from stopping
	}
	return err
}

// quiet sends spans, and keeps the errors of that from OpenTelemetry's own log, which
// would print the collector's URL and its answer.
type quiet struct {
	sdk.SpanExporter
	log  *slog.Logger
	lost interface{ Add(n float64) }
}

// ExportSpans implements sdk.SpanExporter.
func (q quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.lost.Add(float64(len(spans)))
		q.log.WarnContext(ctx, "spans not sent", "count", len(spans), "err_kind", ErrKind(err))
	}
	return nil
}
