package nats_test

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

	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
	"weir/internal/weirtest/program"
)

// node runs `weir ROLE` with the role's own credentials.
func (s *site) node(t *testing.T, r access.Role, target string) *program.Program {
	t.Helper()
	file := filepath.Join(t.TempDir(), string(r)+".yaml")
	text := fmt.Sprintf(`nats: {url: %q, creds: %q, tls: {ca: %q}}
log: {partitions: %d, lanes: %d}
auth: {mode: open}
telemetry: {log_level: warn}
policy: {allowlist: [{name: target, url_prefix: %q, methods: [GET, POST], network: loopback}]}
`, s.url, natsconf.CredentialsFile(s.dir, string(r)), natsconf.CAFile(s.dir), layout.Partitions, layout.Lanes, target)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	p, err := program.Run(weirBinary, program.How{Command: string(r), Args: []string{"--config", file}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// programs: an action's way through three processes, each with its own credentials, and
// the two ways in which one is canceled.
func (s *site) programs(t *testing.T) {
	held := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "answered")
	}))
	defer target.Close()
	defer close(held)
	ingress, egress := s.node(t, access.Ingress, target.URL+"/"), s.node(t, access.Egress, target.URL+"/")
	call := func(id, path string) string {
		return fmt.Sprintf(`{"request_id":%q,"allowlist_key":"target","method":"GET","url":"%s%s"}`, id, target.URL, path)
	}
	status := func(id string) string {
		var st struct {
			Status string `json:"status"`
		}
		_, text := ask(t, http.MethodGet, egress.URL+"/v1/actions/"+id, "")
		_ = json.Unmarshal([]byte(text), &st)
		return st.Status
	}

	// Nobody works yet: what is canceled now is ended by the worker that comes.
	go func() {
		req, _ := http.NewRequest(http.MethodPost, ingress.URL+"/v1/execute?wait=1", strings.NewReader(call("early", "/")))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", "respond-async")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return status("early") == "accepted" }, 10*time.Second, 20*time.Millisecond)
	code, text := ask(t, http.MethodPost, ingress.URL+"/v1/actions/early/cancel", "")
	require.Less(t, code, 300, text)
	require.Contains(t, text, `"cancel_requested":true`)

	worker := s.node(t, access.Worker, target.URL+"/")
	require.Eventually(t, func() bool { return status("early") == "canceled" }, 20*time.Second, 50*time.Millisecond)
	code, text = ask(t, http.MethodPost, ingress.URL+"/v1/execute", call("whole", "/"))
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, "answered")
	require.Equal(t, "succeeded", status("whole"))
	_, text = ask(t, http.MethodGet, egress.URL+"/v1/evidence?action_id=whole", "")
	require.Contains(t, text, `"action_id":"whole"`)

	done := make(chan string, 1)
	go func() {
		resp, err := http.Post(ingress.URL+"/v1/execute", "application/json", strings.NewReader(call("late", "/held")))
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		done <- string(body)
	}()
	require.Eventually(t, func() bool { return status("late") == "started" }, 20*time.Second, 50*time.Millisecond)
	code, text = ask(t, http.MethodPost, ingress.URL+"/v1/actions/late/cancel", "")
	require.Less(t, code, 300, text)
	require.Contains(t, <-done, `"CANCELED"`)
	require.Equal(t, "canceled", status("late"))
	for _, p := range []*program.Program{ingress, egress, worker} {
		require.NotContains(t, p.Said(), "broker denied")
	}
}
