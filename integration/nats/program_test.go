//go:build e2e

package nats_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// node runs `weir ROLE` with the role's own credentials.
func (s *site) node(t *testing.T, r access.Role, target string) *program.Program {
	t.Helper()
	return launch(t, r, s.file(t, r, target, "mode: open"))
}

// launch runs one process until the test ends.
func launch(t *testing.T, r access.Role, file string) *program.Program {
	t.Helper()
	p, err := program.Run(weirBinary, program.How{Command: string(r), Args: []string{"--config", file}})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p
}

// firstAdmin: one node makes the admin token; the others need no file for it, and say who
// makes one as long as there is none.
func (s *site) firstAdmin(t *testing.T) {
	const none = "there is no admin token yet, and this node makes none"
	target := "http://127.0.0.1:1/"
	for _, r := range []access.Role{access.Ingress, access.Worker, access.Egress} {
		p := launch(t, r, s.file(t, r, target, "mode: tokens"))
		// It is said in one line, which may come a little later than the word that it is ready.
		poll.Until(t, func() bool { return strings.Contains(p.Said(), none) }, r)
		require.Contains(t, p.Said(), "that has auth.admin_token_file", r)
		p.Kill()
	}
	token := filepath.Join(t.TempDir(), "admin.token")
	maker := launch(t, access.Ingress, s.file(t, access.Ingress, target, fmt.Sprintf("mode: tokens, admin_token_file: %q", token)))
	require.NotContains(t, maker.Said(), none)
	require.FileExists(t, token)
}

// file writes the configuration of a role, over the one before.
func (s *site) file(t *testing.T, r access.Role, target, auth string) string {
	t.Helper()
	file := filepath.Join(s.dir, string(r)+".yaml")
	text := fmt.Sprintf(`nats: {url: %q, creds: %q, tls: {ca: %q}}
log: {partitions: %d}
auth: {%s}
telemetry: {log_level: warn}
policy: {allowlist: [{name: target, url_prefix: %q, methods: [GET, POST], network: loopback}]}
`, s.url, natsconf.CredentialsFile(s.dir, string(r)), natsconf.CAFile(s.dir), layout.Partitions, auth, target)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// nodes: an egress lists every node, and none has reloaded for it.
func (s *site) nodes(t *testing.T, egress *program.Program) {
	t.Helper()
	var page schemas.Page[schemas.NodeReport]
	for until := time.Now().Add(time.Minute); len(page.Items) < 3 && time.Now().Before(until); {
		code, text := ask(t, http.MethodGet, egress.URL+schemas.RouteNodes, "")
		require.Equal(t, http.StatusOK, code, text)
		page = schemas.Page[schemas.NodeReport]{}
		require.NoError(t, json.Unmarshal([]byte(text), &page))
	}
	require.Len(t, page.Items, 3)
	for i, role := range []string{"egress", "ingress", "worker"} {
		require.Equal(t, role, page.Items[i].Role)
		require.NotEmpty(t, page.Items[i].Version)
		require.NotZero(t, page.Items[i].Started)
	}
}

// reloads: one ingress has every node read its own file again, and says who has which policy.
func (s *site) reloads(t *testing.T, ingress *program.Program, target string) {
	t.Helper()
	all := func() schemas.Reload {
		var done schemas.Reload
		var text string
		// On a busy machine a node may say too late that it is there.
		for until := time.Now().Add(time.Minute); len(done.Nodes) < 3 && time.Now().Before(until); {
			var code int
			code, text = ask(t, http.MethodPost, ingress.URL+"/v1/policy/reload", `{"all":true}`)
			require.Equal(t, http.StatusOK, code, text)
			done = schemas.Reload{}
			require.NoError(t, json.Unmarshal([]byte(text), &done))
		}
		require.Len(t, done.Nodes, 3, text)
		for i, role := range []string{"egress", "ingress", "worker"} {
			require.Equal(t, role, done.Nodes[i].Role)
			require.Empty(t, done.Nodes[i].Error)
			require.NotEmpty(t, done.Nodes[i].Version)
		}
		require.Equal(t, done.Node, done.Nodes[1].Node)
		return done
	}
	before := all()
	require.Equal(t, before.Version, before.Nodes[0].Version)
	require.Equal(t, before.Version, before.Nodes[2].Version)

	s.file(t, access.Worker, target+"another/", "mode: open")
	after := all()
	require.Equal(t, before.Version, after.Version)
	require.Equal(t, before.Version, after.Nodes[0].Version)
	require.NotEqual(t, before.Version, after.Nodes[2].Version)
	var out []byte
	var err error
	for until := time.Now().Add(time.Minute); strings.Count(string(out), ": nothing changed") < 3 && time.Now().Before(until); {
		out, err = exec.Command(weirBinary, "policy", "reload", "--all", "--server", ingress.URL).Output()
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(out), "worker "+after.Nodes[2].Node+": nothing changed: policy "+after.Nodes[2].Version+" is in force\n")
	require.Contains(t, string(out), "the 3 nodes do not have the same policy")

	s.file(t, access.Worker, target, "mode: open")
	out, err = exec.Command(weirBinary, "policy", "reload", "--all", "--server", ingress.URL).Output()
	require.NoError(t, err, string(out))
}

func ask(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	resp, text, err := program.Ask(t.Context(), method, url, body, header...)
	require.NoError(t, err)
	return resp.StatusCode, text
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
	code, text := ask(t, http.MethodPost, ingress.URL+"/v1/execute", call("early", "/"), "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, code, text)
	poll.Until(t, func() bool { return status("early") == "accepted" })
	code, text = ask(t, http.MethodPost, ingress.URL+"/v1/actions/early/cancel", "")
	require.Less(t, code, 300, text)
	require.Contains(t, text, `"cancel_requested":true`)

	worker := s.node(t, access.Worker, target.URL+"/")
	poll.Until(t, func() bool { return status("early") == "canceled" })
	code, text = ask(t, http.MethodPost, ingress.URL+"/v1/execute", call("whole", "/"))
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, "answered")
	// A read on another node takes the nearest copy, which may be behind.
	poll.Until(t, func() bool { return status("whole") == "succeeded" })
	poll.Until(t, func() bool {
		_, text := ask(t, http.MethodGet, egress.URL+"/v1/evidence?action_id=whole", "")
		return strings.Contains(text, `"action_id":"whole"`)
	})

	done := make(chan string, 1)
	go func() {
		_, text, err := program.Ask(t.Context(), http.MethodPost, ingress.URL+"/v1/execute", call("late", "/held"))
		done <- fmt.Sprint(text, err)
	}()
	poll.Until(t, func() bool { return status("late") == "started" })
	code, text = ask(t, http.MethodPost, ingress.URL+"/v1/actions/late/cancel", "")
	require.Less(t, code, 300, text)
	require.Contains(t, <-done, `"CANCELED"`)
	poll.Until(t, func() bool { return status("late") == "canceled" })
	s.nodes(t, egress)
	s.reloads(t, ingress, target.URL+"/")
	for _, p := range []*program.Program{ingress, egress, worker} {
		require.NotContains(t, p.Said(), "broker_denied")
	}
}
