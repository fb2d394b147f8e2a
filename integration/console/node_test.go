//go:build e2e

package console_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// patience bounds every wait; nothing waits for long unless something is wrong.
const patience = time.Minute

// node is a Weir with tokens, over the real program, and an upstream that it may call.
type node struct {
	program.Client // that of the first admin

	t    *testing.T
	dir  string
	args []string
	prog *program.Program
	up   *upstream.Server
}

func start(t *testing.T) *node {
	t.Helper()
	return startWith(t, "")
}

// startWith is start with more in the configuration.
func startWith(t *testing.T, more string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), up: upstream.New(t)}
	config, err := program.Config(t.TempDir(), n.up.URL(), "auth: {mode: tokens, rate: 100000/s}\nlog: {durability: process}\nworkers: {drain: 1s}\ndeadline: {http: 24h}\ntasks: {lease: 1h}\n"+more)
	require.NoError(t, err)
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	// A call that a test holds is held for as long as its pages take.
	require.NoError(t, os.WriteFile(config, []byte(strings.Replace(string(text), "timeout: 10s", "timeout: 10m", 1)), 0o600))
	// A restart must use the same address, which the browser has open.
	at, err := cluster.FreePorts(t.Context(), 1)
	require.NoError(t, err)
	n.args = []string{"--config", config, "--listen", at[0]}
	n.run()
	secret, err := os.ReadFile(filepath.Join(n.dir, "admin.token"))
	require.NoError(t, err)
	n.Client = program.Client{HTTP: &http.Client{Timeout: patience}, Base: n.prog.URL, Token: strings.TrimSpace(string(secret))}
	t.Cleanup(func() { n.prog.Kill() })
	return n
}

// entry adds an entry to the policy in force.
func (n *node) entry(text string) {
	n.t.Helper()
	config := n.args[1]
	old, err := os.ReadFile(config)
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(config, append(old, "    - "+text+"\n"...), 0o600))
	n.Must(n.t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
}

func (n *node) run() {
	n.t.Helper()
	var err error
	n.prog, err = program.Start(binary, n.dir, n.args...)
	require.NoError(n.t, err)
}

// token makes one with some scopes.
func (n *node) token(name string, scopes ...string) string {
	n.t.Helper()
	return n.MakeToken(n.t, schemas.TokenRequest{Name: name, Scopes: scopes}).Secret
}

// call has one call made, or refused.
func (n *node) call(id, method, url string, header ...string) {
	n.t.Helper()
	body, err := json.Marshal(map[string]any{"type": "Http", "request_id": id, "args": map[string]any{"method": method, "url": url}})
	require.NoError(n.t, err)
	a := n.Ask(n.t, http.MethodPost, "/v1/execute", string(body), header...)
	require.Equal(n.t, id, a.ID(), a.Body)
}

// status waits until an action has a status.
func (n *node) status(id, want string) {
	n.t.Helper()
	poll.Until(n.t, func() bool {
		return strings.Contains(n.Ask(n.t, http.MethodGet, "/v1/actions/"+id, "").Body, `"status":"`+want+`"`)
	}, id, want)
}

// signIn opens a window at the actions and signs in.
func (n *node) signIn(name, token string, options do) *page {
	n.t.Helper()
	p := open(n.t, name, n.prog.URL+"/console/#/actions", options)
	p.fill("Token", token)
	p.click("button", "Sign in")
	p.seeRole("heading", "Actions")
	return p
}
