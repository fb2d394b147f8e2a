package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli/check"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/relay"
)

// agentAPI is a Weir that answers every request with a status, and keeps them.
type agentAPI struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // method, path, Authorization and body
}

func newAgentAPI(t *testing.T) *agentAPI {
	t.Helper()
	a := &agentAPI{}
	a.Server = newServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.requests = append(a.requests, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Authorization"), string(body)}, "|"))
		a.mu.Unlock()
		w.WriteHeader(http.StatusUnauthorized) // whatever the status: the envelope counts
		_, _ = io.WriteString(w, `{"ok":false,"request_id":"r","operation":"status","error":{"code":"UNAUTHORIZED","message":"<no>"}}`)
	})
	return a
}

func (a *agentAPI) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.requests...)
}

// relaying runs `weir rules relay`; end interrupts it and returns the exit code.
type relaying struct {
	out, err capture.Buffer
	end      func() int
}

func relayed(t *testing.T, environ []string, args ...string) *relaying {
	t.Helper()
	r := &relaying{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- program(ctx, append([]string{"rules", "relay"}, args...), environ, Streams{In: strings.NewReader(""), Out: &r.out, Err: &r.err})
	}()
	r.end = sync.OnceValue(func() int { cancel(); return <-done })
	t.Cleanup(func() { r.end() })
	return r
}

func TestRelayCommand(t *testing.T) {
	t.Parallel()
	api := newAgentAPI(t)
	at := relay.New(t)
	r := relayed(t, []string{"WEIR_URL=" + api.URL, "WEIR_TOKEN=own-canary", "WEIR_RELAY_TOKEN=shared"}, "--url", at.URL(), "--session", "s1")
	agent := at.Accept()
	assert.Equal(t, []relay.Attempt{{Role: "relay", Session: "s1", Token: "shared"}}, at.Ledger())
	for _, token := range []string{`,"auth_token":"its-own"`, ``, `,"auth_token":null`} {
		got := agent.Ask(`{"request":{"request_id":"r","operation":"status"` + token + `}}`)
		assert.Contains(t, string(got), `"response":{"ok":false,"request_id":"r","operation":"status","error":{"code":"UNAUTHORIZED","message":"<no>"}}`)
	}
	agent.Send("garbage")
	agent.Ask(`{"request":{"request_id":"p","operation":"bridge.ping"}}`)
	assert.Equal(t, ExitOK, r.end())
	assert.Equal(t, []string{
		`POST|/v1/agent-api|Bearer its-own|{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"status","auth_token":"its-own"}}`,
		`POST|/v1/agent-api||{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"status"}}`,
		`POST|/v1/agent-api||{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"status","auth_token":null}}`,
	}, api.seen(), "the client's own token stays where it is")
	assert.Contains(t, r.err.String(), "serving session s1")
	assert.Contains(t, r.err.String(), "1 messages could not be read")
	assert.Equal(t, 3, strings.Count(r.out.String(), "UNAUTHORIZED"))
	for _, text := range []string{r.out.String(), r.err.String()} {
		for _, canary := range []string{"own-canary", "its-own", "shared", "garbage"} {
			assert.NotContains(t, text, canary)
		}
	}
}

func TestRelayLendsItsTokenWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	api := newAgentAPI(t)
	at := relay.New(t)
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	require.NoError(t, os.WriteFile(own, []byte("own\n"), 0o600))
	r := relayed(t, nil, "--url", at.URL(), "--server", api.URL, "--token-file", own, "--lend-token", "--json")
	agent := at.Accept()
	session := at.Ledger()[0].Session
	require.NotEmpty(t, session)
	for _, token := range []string{`,"auth_token":"its-own"`, ``, `,"auth_token":null`, `,"auth_token":""`} {
		agent.Ask(`{"request":{"request_id":"r","operation":"status"` + token + `}}`)
	}
	assert.Equal(t, ExitOK, r.end())
	var tokens []string
	for _, line := range api.seen() {
		tokens = append(tokens, strings.Split(line, "|")[2])
	}
	assert.Equal(t, []string{"Bearer its-own", "Bearer own", "Bearer own", ""}, tokens)
	assert.Empty(t, at.Ledger()[0].Token)
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	require.Len(t, lines, 5, "%s", r.out.String())
	assert.JSONEq(t, fmt.Sprintf(`{"event":"connected","session":%q}`, session), lines[0])
	served := fixture.Decode[map[string]any](t, lines[1])
	assert.Equal(t, []any{"served", "status", "UNAUTHORIZED"}, []any{served["event"], served["operation"], served["result"]})
	assert.Empty(t, r.err.String())
}

func TestCheckOfAgents(t *testing.T) {
	t.Parallel()
	good := agent.New(t, agent.Config{TaskTypes: []string{"A"}})
	bad := agent.New(t, agent.Config{TaskTypes: []string{"B"}, Fault: agent.EndNoOutputs})

	code, out, errs := command(t, "check", good.URL()+"=A,"+bad.URL()+"=B", "--inputs", `{"a":"<b>"}`)
	assert.Equal(t, ExitFailed, code)
	assert.True(t, strings.HasPrefix(out, good.URL()+" A: passed\n  health    5 passed\n"), out)
	assert.Contains(t, out, "\n\n"+bad.URL()+" B: failed\n")
	assert.True(t, strings.HasSuffix(out, "\n\n1 of 2 targets passed\n"), out)
	assert.Empty(t, errs)
	assert.JSONEq(t, `{"a":"<b>"}`, string(good.Ledger()[0].Run.Inputs))

	code, out, _ = command(t, "check", bad.URL()+"=B", good.URL()+"=A", "--json")
	assert.Equal(t, ExitFailed, code)
	var reports []check.Report
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		r := fixture.Decode[check.Report](t, line)
		reports = append(reports, r)
	}
	require.Len(t, reports, 2)
	assert.False(t, reports[0].Passed)
	assert.True(t, reports[1].Passed)
	assert.Equal(t, "A", reports[1].TaskType)
	assert.Len(t, reports[1].Rules, len(reports[0].Rules))

	code, out, _ = command(t, "check", good.URL()+"=A")
	assert.Equal(t, ExitOK, code)
	assert.NotContains(t, out, "targets")
}

// TestCheckTokens: the environment's token goes to the Weir that it is for, and
// a file's to every target.
func TestCheckTokens(t *testing.T) {
	t.Parallel()
	a := agent.New(t, agent.Config{Token: "secret"})
	target := a.URL() + "=" + agent.TaskType
	file := fixture.Write(t, "token", "secret\n")
	for name, tt := range map[string]struct {
		environ, args []string
		want          int
	}{
		"none":                   {nil, nil, ExitFailed},
		"of another":             {[]string{"WEIR_TOKEN=secret"}, nil, ExitFailed},
		"of the Weir that it is": {[]string{"WEIR_TOKEN=secret", "WEIR_URL=" + a.URL() + "/"}, nil, ExitOK},
		"of a file":              {nil, []string{"--token-file", file}, ExitOK},
	} {
		code, out, errs := weir(t, "", tt.environ, append([]string{"check", target}, tt.args...)...)
		assert.Equal(t, tt.want, code, name)
		assert.NotContains(t, out+errs, "secret", name)
	}
}
