//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestHangupReloads: SIGHUP has the policy read again, from a file that is
// watched as well, and a mistake in it neither ends the program nor changes it.
func TestHangupReloads(t *testing.T) {
	t.Parallel()
	target := upstream.New(t)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(methods string) {
		text := fmt.Sprintf("log: {durability: process}\npolicy:\n  allowed_hosts: []\n  allowlist:\n  - {name: up, url_prefix: %q, network: loopback, methods: [%s]}\n", target.URL()+"/", methods)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("GET")
	w := serve(t, t.TempDir(), "--config", file)
	view := func() schemas.PolicyView {
		_, body := w.request(t, http.MethodGet, "/v1/policy", "")
		return decode[schemas.PolicyView](t, body)
	}
	reloads := func(result string, n int) bool {
		_, body := w.request(t, http.MethodGet, "/metrics", "")
		return strings.Contains(body, fmt.Sprintf("weir_policy_reloads_total{result=%q} %d\n", result, n))
	}
	require.NoError(t, w.Signal(syscall.SIGHUP))
	poll.Until(t, func() bool { return reloads("ok", 1) }, "a signal alone is enough")

	write("POST")
	require.NoError(t, w.Signal(syscall.SIGHUP))
	poll.Until(t, func() bool { return view().Entries[0].Methods[0] == "POST" })
	resp, body := w.request(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL()+"/"))
	require.Equal(t, http.StatusForbidden, resp.StatusCode, body)
	require.Zero(t, target.Hits())

	before := view()
	write("FETCH")
	require.NoError(t, w.Signal(syscall.SIGHUP))
	poll.Until(t, func() bool { return strings.Contains(w.Said(), "policy.allowlist[0].methods") })
	require.Equal(t, before, view())
	w.drain(t)
}
