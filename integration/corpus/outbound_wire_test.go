//go:build e2e

package corpus_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wire calls check with each request that arrived; there must be one.
func (x *trial) wire(t *testing.T, want json.RawMessage, what string, part func(target, method, host string, body []byte) string) {
	t.Helper()
	ledger := x.stage.server.Ledger()
	require.NotEmpty(t, ledger)
	for _, got := range ledger {
		alternatives := strings.Split(text(want), "|")
		assert.Contains(t, alternatives, part(got.Target, got.Method, got.Header("Host"), got.Body), what)
	}
}

func checkHostHeader(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	x.wire(t, want, "Host", func(_, _, host string, _ []byte) string { return host })
}

func checkWirePath(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	x.wire(t, want, "path", func(target, _, _ string, _ []byte) string {
		path, _, _ := strings.Cut(target, "?")
		return path
	})
}

func checkWireQuery(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	x.wire(t, want, "query", func(target, _, _ string, _ []byte) string {
		_, query, _ := strings.Cut(target, "?")
		return query
	})
}

func checkWireMethod(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	x.wire(t, want, "method", func(_, method, _ string, _ []byte) string { return method })
}

func checkWireBody(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	if text(want) == "" { // written as the value that it is
		want = mustEncode(t, string(want))
	}
	x.wire(t, want, "body", func(_, _, _ string, body []byte) string { return string(body) })
}

func checkWireAbsent(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, lost := range list(t, want) {
		for _, got := range x.stage.server.Ledger() {
			assert.NotContains(t, strings.ToLower(got.Target), strings.ToLower(lost))
			for _, h := range got.Headers {
				assert.NotContains(t, strings.ToLower(h.Name+": "+h.Value), strings.ToLower(lost))
			}
		}
	}
}

func checkSameHeader(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, name := range list(t, want) {
		values := map[string]bool{}
		for _, got := range x.stage.server.Ledger() {
			values[strings.Join(got.Values(name), "\n")] = true
		}
		assert.Len(t, values, 1, "%s differs", name)
		assert.NotContains(t, values, "", "%s is absent", name)
	}
}
