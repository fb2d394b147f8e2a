//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestOneTenantsAttack has one tenant do to the program what stopped every other tenant once: it fills the log with denied and
// with accepted requests, asks for many large answers at a time, and has a shared target ask it to wait. Meanwhile
// another tenant calls one after the other, and each of its calls succeeds. Only this test shows it of the built program.
func TestOneTenantsAttack(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 4<<20/16)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/large":
			_, _ = io.WriteString(w, large)
		case "/wait":
			w.Header().Set("Retry-After", "299")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(target.Close)
	config := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "auth: {mode: tokens}\nlog: {max_bytes: 128MiB}\nlimits: {answers: 16MiB}\ndeadline: {http: 1h}\n"+
		"policy: {allowlist: [{name: target, url_prefix: \"%s/\", methods: [GET, POST], network: loopback}]}\n", target.URL), 0o600))
	dir := t.TempDir()
	w := serve(t, dir, "--config", config, "--durability", "process")
	secret, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	require.NoError(t, err)
	admin := strings.TrimSpace(string(secret))
	ask := func(token, path, body string, header ...string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(text)
	}
	token := func(tenant string) string {
		status, text := ask(admin, "/v1/tokens", fmt.Sprintf(`{"name":%q,"tenant":%[1]q,"scopes":["actions:write","actions:read"],"rate":"100000/s"}`, tenant))
		require.Equal(t, http.StatusCreated, status, text)
		var made schemas.NewToken
		require.NoError(t, json.Unmarshal([]byte(text), &made))
		return made.Secret
	}
	attacker, other := token("attacker"), token("other")
	bodies := 0
	call := func(method, url string, size int) string {
		if size == 0 {
			return fmt.Sprintf(`{"method":%q,"url":%q}`, method, url)
		}
		bodies++ // equal ones are stored once
		return fmt.Sprintf(`{"method":%q,"url":%q,"body":"%d%s"}`, method, url, bodies, strings.Repeat("x", size))
	}

	attacked, over := context.WithCancel(t.Context())
	var calls int
	var slowest time.Duration
	var failed string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for attacked.Err() == nil && failed == "" {
			began := time.Now()
			if status, text := ask(other, "/v1/execute", call("GET", target.URL+"/ok", 0)); status != http.StatusOK {
				failed = strconv.Itoa(status) + " " + text
			}
			calls, slowest = calls+1, max(slowest, time.Since(began))
		}
	}()
	for i := range 100 {
		status, text := ask(attacker, "/v1/execute", call("POST", "https://denied.example/"+strconv.Itoa(i), 900<<10))
		require.Equal(t, http.StatusForbidden, status, text)
	}
	status, text := ask(attacker, "/v1/execute", call("GET", target.URL+"/wait", 0), "Prefer", "wait=1")
	require.Equal(t, http.StatusAccepted, status, text)
	var at sync.WaitGroup
	for range 24 {
		at.Go(func() { _, _ = ask(attacker, "/v1/execute", call("GET", target.URL+"/large", 0), "Prefer", "wait=1") })
	}
	refused := false
	for i := 0; i < 300 && !refused; i++ {
		status, text = ask(attacker, "/v1/execute", call("POST", target.URL+"/ok", 900<<10), "Prefer", "respond-async")
		refused = status == http.StatusTooManyRequests
	}
	require.True(t, refused, text)
	require.Contains(t, text, "limits.tenant_share")
	at.Wait()
	over()
	<-done
	require.Empty(t, failed)
	t.Logf("%d calls of the other tenant, the slowest in %s", calls, slowest)
}
