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

	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
	"weir/internal/broker/natsconf"
	"weir/internal/weirtest/fixture"
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

// roles are those of nodes, in order.
var roles = []string{"egress", "ingress", "worker"}

// nodes: an egress lists every node, and none has reloaded for it.
func nodes(t *testing.T, egress *program.Program) {
	t.Helper()
	var all []schemas.NodeReport
	poll.Until(t, func() bool {
		all = program.Items[schemas.NodeReport](t, egress.Client(), schemas.RouteNodes)
		return len(all) >= len(roles)
	}, "each node reports")
	require.Len(t, all, len(roles))
	for i, role := range roles {
		require.Equal(t, role, all[i].Role)
		require.NotEmpty(t, all[i].Version)
		require.NotZero(t, all[i].Started)
	}
}

// reloads: one ingress has every node read its own file again, and says who has which policy.
func (s *site) reloads(t *testing.T, ingress *program.Program, target string) {
	t.Helper()
	all := func() (done schemas.Reload) {
		poll.Until(t, func() bool { // on a busy machine a node may say too late that it is there
			done = fixture.Decode[schemas.Reload](t, ingress.Client().Must(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", `{"all":true}`))
			return len(done.Nodes) >= len(roles)
		}, "each node answers")
		require.Len(t, done.Nodes, len(roles))
		for i, role := range roles {
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
	poll.Until(t, func() bool {
		out, err = exec.CommandContext(t.Context(), weirBinary, "policy", "reload", "--all", "--server", ingress.URL).Output()
		return strings.Count(string(out), ": nothing changed") == len(roles)
	}, "each node answers")
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(out), "worker "+after.Nodes[2].Node+": nothing changed: policy "+after.Nodes[2].Version+" is in force\n")
	require.Contains(t, string(out), "the 3 nodes do not have the same policy")

	s.file(t, access.Worker, target, "mode: open")
	out, err = exec.CommandContext(t.Context(), weirBinary, "policy", "reload", "--all", "--server", ingress.URL).Output()
	require.NoError(t, err, string(out))
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
		var view schemas.ActionView
		_ = json.Unmarshal([]byte(egress.Client().Ask(t, http.MethodGet, "/v1/actions/"+id, "").Body), &view)
		return string(view.Status)
	}
	ends := func(id, want string) { // a read on another node takes the nearest copy, which may be behind
		poll.Until(t, func() bool { return status(id) == want }, id, want)
	}
	cancel := func(id string) string {
		a := ingress.Client().Ask(t, http.MethodPost, "/v1/actions/"+id+"/cancel", "")
		require.Less(t, a.Status, 300, a.Body)
		return a.Body
	}

	// Nobody works yet: what is canceled now is ended by the worker that comes.
	ingress.Client().Must(t, http.StatusAccepted, http.MethodPost, "/v1/execute", call("early", "/"), "Prefer", "respond-async")
	ends("early", "accepted")
	require.Contains(t, cancel("early"), `"cancel_requested":true`)
	worker := s.node(t, access.Worker, target.URL+"/")
	ends("early", "canceled")
	require.Contains(t, ingress.Client().Must(t, http.StatusOK, http.MethodPost, "/v1/execute", call("whole", "/")), "answered")
	ends("whole", "succeeded")
	poll.Until(t, func() bool {
		return strings.Contains(egress.Client().Ask(t, http.MethodGet, "/v1/evidence?action_id=whole", "").Body, `"action_id":"whole"`)
	})

	done := make(chan string, 1)
	go func() {
		a, err := ingress.Client().Try(t.Context(), http.MethodPost, "/v1/execute", call("late", "/held"))
		done <- fmt.Sprint(a.Body, err)
	}()
	ends("late", "started")
	cancel("late")
	require.Contains(t, <-done, `"CANCELED"`)
	ends("late", "canceled")
	nodes(t, egress)
	s.reloads(t, ingress, target.URL+"/")
	for _, p := range []*program.Program{ingress, egress, worker} {
		require.NotContains(t, p.Said(), "broker_denied")
	}
}
