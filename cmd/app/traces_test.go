package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/capture"
	"weir/schemas"
)

type teller struct{ err error }

func (l teller) Ended(context.Context, *ledger.State) error { return l.err }

// docs are the documents that were put aside.
type docs map[string]string

func (d docs) Blob(_ context.Context, inline json.RawMessage, name string) (json.RawMessage, error) {
	if name == "" {
		return inline, nil
	}
	if doc, ok := d[name]; ok {
		return json.RawMessage(doc), nil
	}
	return nil, errors.New("gone")
}

func completed(id, blob string) *ledger.State {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	settled := schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: blob}
	return &ledger.State{
		Action:  schemas.Action{ID: id, Tenant: "t", Kind: schemas.KindChat, AcceptedAt: at, Payload: json.RawMessage(`{"model":"small"}`)},
		Settled: &settled,
		Events:  []ledger.Sequenced{{Event: schemas.Event{Type: schemas.EventSettled, Time: at.Add(time.Second), Settled: &settled}}},
	}
}

// TestTheEndOfACompletionIsTraced once it is told, whatever of it is still there.
func TestTheEndOfACompletionIsTraced(t *testing.T) {
	t.Parallel()
	var sent capture.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(&sent, r.Body)
		assert.NoError(t, err)
	}))
	t.Cleanup(collector.Close)
	a := &App{
		cfg:     config.Config{Telemetry: config.Telemetry{OTLP: config.OTLP{Endpoint: collector.URL}}},
		metrics: telemetry.NewMetrics(), log: slog.New(slog.DiscardHandler),
	}
	traces, err := a.openTraces(t.Context())
	require.NoError(t, err)

	kept := docs{"b1": `{"upstream":"provider-1","usage":{"prompt_tokens":1}}`}
	tell := traced{Teller: teller{}, traces: traces, docs: kept}
	require.NoError(t, tell.Ended(t.Context(), completed("a-whole", "b1")))
	require.NoError(t, tell.Ended(t.Context(), completed("a-gone", "b2")))
	large := completed("a-large", "b1")
	large.Action.Payload, large.Action.PayloadBlob = json.RawMessage(`{"model":"large"}`), "p1" // as it is once it was read
	require.NoError(t, tell.Ended(t.Context(), large))
	require.NoError(t, traced{Teller: teller{}, docs: kept}.Ended(t.Context(), completed("a-untold", "b1")), "without a collector")
	again := errors.New("again")
	require.ErrorIs(t, traced{Teller: teller{again}, traces: traces, docs: kept}.Ended(t.Context(), completed("a-again", "b1")), again)

	require.NoError(t, a.teardown.unwind(t.Context()), "which sends what is left")
	for _, want := range []string{"chat small", "a-whole", "provider-1", "gen_ai.usage.input_tokens", "a-gone", "chat large"} {
		assert.Contains(t, sent.String(), want)
	}
	assert.NotContains(t, sent.String(), "a-untold")
	assert.NotContains(t, sent.String(), "a-again", "it is told of when it comes back")
}

func TestNoCollectorNoTraces(t *testing.T) {
	t.Parallel()
	traces, err := new(App).openTraces(t.Context())
	require.NoError(t, err)
	assert.Nil(t, traces)
}
