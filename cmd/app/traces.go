package app

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"weir/cmd/cli"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/telemetry"
	"weir/processors"
	"weir/schemas"
)

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

// traced is a performer of completions whose ends are told to a collector of traces.
type traced struct {
	processors.Performer
	processors.Teller

	traces *telemetry.Traces
	docs   interface {
		Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
	}
}

// Ended implements processors.Teller.
func (t traced) Ended(ctx context.Context, st *ledger.State) error {
	if err := t.Teller.Ended(ctx, st); err != nil || t.traces == nil || st.Settled == nil {
		return err
	}
	c := telemetry.Completion{Action: st.Action, Settled: *st.Settled, Ended: endOf(st)}
	var order struct {
		Model string `json:"model"`
	}
	t.read(ctx, st.Action.Payload, st.Action.PayloadBlob, &order)
	t.read(ctx, st.Settled.Result, st.Settled.ResultBlob, &c.Result)
	c.Asked = order.Model
	t.traces.Chat(c)
	return nil
}

// read reads a document that may be gone: a span says what is known. One that is kept
// apart may have been read before, and lie in its place.
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
