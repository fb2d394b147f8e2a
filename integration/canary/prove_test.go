//go:build e2e

package canary_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/capture"
	"weir/schemas"
)

// TestEverySinkIsLookedAt plants one leak in each sink, through the sink itself,
// and finds every one of them: a sink that was not read, or not searched, would
// pass TestNothingLeaks whatever came out of it.
func TestEverySinkIsLookedAt(t *testing.T) { //nolint:paralleltest // what it leaves for a while, TestNothingLeaks would find
	g := &garden{}
	leaked := g.plant("leak")
	h := newHouse(t, g, ample, policyText+"    - {name: leaky, url_prefix: \"http://"+strings.ToLower(leaked)+".example/\"}\n")
	h.answers()
	planted := &garden{all: []canary{{class: "leak", text: leaked}, {class: "secret leak", text: g.text(t, "header"), secret: true}}}

	// An identifier is in the log, in subjects, headers of messages, evidence and
	// dead letters by contract. One that holds content leaks it there.
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"type": "Http", "request_id": leaked, "args": object{"method": "GET", "url": "http://panics.example/"}}), "Prefer", "respond-async")
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"type": "Http", "request_id": leaked + ".ok", "args": object{"method": "GET", "url": "http://plain.example/ok"}}))
	h.stranger.ask(http.MethodGet, "/v1/actions/none", "", "X-Request-ID", leaked)
	h.nobody.ask(http.MethodGet, "/v1/actions/none", "", "X-Request-ID", leaked)
	// The host of an entry is a label.
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "http://" + strings.ToLower(leaked) + ".example/"}))
	// A secret that its owner knows and sends is content like any other: it is
	// stored, and comes back from a target that did not get it from the worker.
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "POST", "url": "https://good.example/ok", "body": g.text(t, "header")}))
	h.good.Handle("/tell", fullText(g.text(t, "header")))
	h.owner.ask(http.MethodPost, "/v1/execute", h.jsonOf(object{"method": "GET", "url": "https://good.example/tell"}))

	h.settled(leaked)
	h.ownRepository()
	h.file("leaky", object{"request_id": leaked + ".task"})
	defer process(t, leaked)()
	require.Eventually(t, func() bool { return strings.Contains(h.sampled.seen.String(), leaked) }, patience, tick)
	file, err := os.CreateTemp("", "leak-") //nolint:usetesting // where the program's own would land
	require.NoError(t, err)
	_, err = file.WriteString("holds " + leaked)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	defer os.Remove(file.Name())
	stop := make(chan struct{})
	go pprof.Do(context.Background(), pprof.Labels("doing", leaked), func(context.Context) { <-stop })
	defer close(stop)
	require.Eventually(t, func() bool {
		var b capture.Buffer
		return pprof.Lookup("goroutine").WriteTo(&b, 1) == nil && strings.Contains(b.String(), leaked)
	}, patience, tick)

	h.spans.leak(t, leaked)
	sinks := h.running()
	h.stop()
	open(t, h.dir, func(js jetstream.JetStream) {
		kv, err := js.KeyValue(t.Context(), schemas.TokenBucket)
		require.NoError(t, err)
		_, err = kv.Create(t.Context(), leaked, []byte("value"))
		require.NoError(t, err)
		kv, err = js.KeyValue(t.Context(), schemas.BudgetBucket)
		require.NoError(t, err)
		_, err = kv.Create(t.Context(), "account", []byte(leaked))
		require.NoError(t, err)
		_, err = js.CreateConsumer(t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: leaked})
		require.NoError(t, err)
	})
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, leaked), []byte("x"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "index"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "index", "actions.db-wal"), []byte("x "+leaked), 0o600))
	sinks = append(sinks, h.after()...)

	leaks, err := scan(planted.list(), sinks)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, l := range leaks {
		found[l.sink] = true
	}
	for _, s := range sinks {
		assert.True(t, found[s.name], "a leak in the sink %q is not found", s.name)
	}
}

// TestPositiveCheckIsMade: lines that the program's logger would not write, in
// the sink of its log.
func TestPositiveCheckIsMade(t *testing.T) {
	t.Parallel()
	var log capture.Buffer
	_, _ = io.WriteString(&log, `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"request","tenant":"t"}`+"\n")
	require.Empty(t, checkLog(log.Bytes()))
	for _, line := range []string{
		`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"request","patient":"t"}`, `panic: something`,
		`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"dial tcp 10.0.0.1:80"}`, ``,
	} {
		var log capture.Buffer
		_, _ = io.WriteString(&log, line+"\n")
		require.NotEmpty(t, checkLog(log.Bytes()), line)
	}
}

const holdEnv = "WEIR_CANARY_HOLD"

// hold makes this program one that waits until its input ends.
func hold() bool {
	if os.Getenv(holdEnv) == "" {
		return false
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// process starts a child with an argument, and returns what ends it.
func process(tb testing.TB, argument string) (end func()) {
	tb.Helper()
	exe, err := os.Executable()
	require.NoError(tb, err)
	cmd := exec.CommandContext(tb.Context(), exe, argument)
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	return func() {
		assert.NoError(tb, in.Close())
		assert.NoError(tb, cmd.Wait())
	}
}
