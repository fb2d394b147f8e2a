//go:build nightly

package bench_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTenants: one tenant queues actions whose calls hang, and another then makes calls of its
// own. Each of these must return while all of the first tenant's calls still hang.
func TestTenants(t *testing.T) { //nolint:paralleltest // it measures
	sizes := []int{300}
	if *full {
		sizes = []int{1250, 100_000}
		fmt.Printf("\n%s, durability `process`, 256 slots\n\n", machine())
		fmt.Println("| queued by another tenant, all hang | first call | 20 in a row, p50 | longest | 20 at once, longest |")
		fmt.Println("|---|---|---|---|---|")
	}
	for _, n := range sizes {
		release := make(chan struct{})
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
			_, _ = io.WriteString(w, `{"ok":true}`)
		}))
		config, adminFile := weirConfig(t, up.URL), filepath.Join(t.TempDir(), "admin.token")
		p := startTokens(t, config, adminFile)
		heavy := target{
			name: weir, method: http.MethodPost, url: p.URL + "/v1/execute", status: http.StatusAccepted, process: p,
			header: map[string]string{"Prefer": "respond-async", "Authorization": "Bearer " + newToken(t, p, adminFile, "heavy")},
			body:   fmt.Sprintf(`{"method":"GET","url":"%s/slow","allowlist_key":"up"}`, up.URL),
		}
		light := heavy
		light.status, light.body = http.StatusOK, strings.Replace(heavy.body, "/slow", "/quick", 1)
		light.header = map[string]string{"Authorization": "Bearer " + newToken(t, p, adminFile, "light")}
		_, err := closed(t.Context(), heavy, 64, limit{calls: n})
		require.NoError(t, err)
		first, err := closed(t.Context(), light, 1, limit{calls: 1})
		require.NoError(t, err)
		row, err := closed(t.Context(), light, 1, limit{calls: 20})
		require.NoError(t, err)
		once, err := closed(t.Context(), light, 20, limit{calls: 20})
		require.NoError(t, err)
		if *full {
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			fmt.Printf("| %d | %.1f ms | %.1f ms | %.1f ms | %.1f ms |\n", n,
				ms(first.percentile(100)), ms(row.percentile(50)), ms(row.percentile(100)), ms(once.percentile(100)))
		}
		close(release)
		p.terminate(t)
		up.Close()
	}
}

// startTokens starts Weir with tokens.
func startTokens(t *testing.T, config, adminFile string) *process {
	t.Helper()
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	text = append(text, fmt.Sprintf("auth: {mode: tokens, rate: 100000/s, admin_token_file: %q}\n", adminFile)...)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	return startWeir(t, "tenants", t.TempDir(), config, "process")
}

// newToken makes a token of a tenant of the same name.
func newToken(t *testing.T, p *process, adminFile, tenant string) string {
	t.Helper()
	admin, err := os.ReadFile(adminFile)
	require.NoError(t, err)
	body := fmt.Sprintf(`{"name":%[1]q,"tenant":%[1]q,"scopes":["actions:write","actions:read"],"rate":"100000/s"}`, tenant)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/v1/tokens", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(admin)))
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var made struct {
		Secret string `json:"secret"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&made))
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	return made.Secret
}
