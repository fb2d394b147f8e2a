//go:build e2e

// Package integration_test looks at the built program from outside.
//
// Only this suite shows what real clients of each protocol get (git, the openai and
// eventsource packages), that a stream can be cut anywhere and resumed, what the whole
// program does when it is killed, drained or reloaded, and that one tenant stops no other.
package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// weir is a running `weir serve`, and a client of it.
type weir struct {
	*program.Program
	program.Client
}

// as is the same program with a client that has a token.
func (w *weir) as(token string) *weir { return &weir{w.Program, w.As(token)} }

// tenant is it with a client of a tenant of that name.
func (w *weir) tenant(tb testing.TB, name string) *weir {
	tb.Helper()
	return w.as(w.MakeToken(tb, schemas.TokenRequest{
		Name: name, Tenant: name, Scopes: []string{schemas.ScopeTasksWrite, schemas.ScopeActionsWrite, schemas.ScopeActionsRead}, Rate: "100000/s",
	}).Secret)
}

// serve starts `weir serve` on a data directory and waits until it is ready. It ends with
// the test, which shows the end of its log if it failed.
func serve(tb testing.TB, dir string, args ...string) *weir {
	tb.Helper()
	return serveWith(tb, nil, dir, args...)
}

// serveWith is serve with more in the environment.
func serveWith(tb testing.TB, environ []string, dir string, args ...string) *weir {
	tb.Helper()
	w, err := tryServe(program.How{Environ: environ}, dir, args...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		w.Kill()
		if tb.Failed() {
			said := w.Said()
			tb.Logf("the end of weir's stderr:\n%s", said[max(0, len(said)-8<<10):])
		}
	})
	return w
}

// serveTokens is serveWith where tokens are asked for, with the client of the first admin.
func serveTokens(tb testing.TB, environ []string, dir, config string) *weir {
	tb.Helper()
	return serveWith(tb, environ, dir, "--config", configFile(tb, "auth: {mode: tokens}\n"+config), "--durability", "process").admin(tb, dir)
}

// admin is it with the client of the admin that the first start on a data directory made.
func (w *weir) admin(tb testing.TB, dir string) *weir {
	tb.Helper()
	secret, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	require.NoError(tb, err)
	return w.as(strings.TrimSpace(string(secret)))
}

// tryServe is serve where a start may fail; the caller ends it.
func tryServe(how program.How, dir string, args ...string) (*weir, error) {
	how.Args = append([]string{"--data", dir}, args...)
	how.Environ = append(how.Environ, "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	p, err := program.Run(binary, how)
	if err != nil {
		return nil, err
	}
	return &weir{p, program.Client{Base: p.URL}}, nil
}

// configFile writes a configuration.
func configFile(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// policyFile writes a configuration whose entry "up" lets everything through to
// one upstream on this machine.
func policyFile(tb testing.TB, upstream, more string) string {
	tb.Helper()
	return configFile(tb, fmt.Sprintf(`policy:
  timeout: 60s
  allowlist:
    - {name: up, url_prefix: "%s/", methods: [GET, HEAD, POST, PUT, PATCH, DELETE], network: loopback}
`, upstream)+more)
}

// patiently asks again while the answer is that the log is away: on a busy machine the servers
// of a cluster may say so, and clients come again.
func patiently(ctx context.Context, w *weir, status int, method, path, body string, header ...string) (program.Answer, error) {
	for {
		a, err := w.Try(ctx, method, path, body, header...)
		if err != nil || a.Status == status {
			return a, err
		}
		if a.Status != http.StatusServiceUnavailable {
			return a, fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		if err := poll.Rest(ctx, 100*time.Millisecond); err != nil {
			return a, err
		}
	}
}

// logged follows an action's pages until its terminal event.
func logged(ctx context.Context, w *weir, id string) (all []schemas.EventView, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for after := "0"; ; {
		a, err := patiently(ctx, w, http.StatusOK, http.MethodGet, "/v1/actions/"+id+"/events?live=long-poll&limit=1000&after="+after, "", "Accept", "application/json")
		if err != nil {
			return nil, err
		}
		var page schemas.Page[schemas.EventView]
		if err := json.Unmarshal([]byte(a.Body), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if n := len(all); n > 0 && all[n-1].Type == schemas.EventSettled {
			return all, nil
		}
		if page.Next != "" {
			after = page.Next
		}
	}
}

// allEvents are the events of an action, whose end is waited for.
func allEvents(tb testing.TB, w *weir, id string) []schemas.EventView {
	tb.Helper()
	events, err := logged(tb.Context(), w, id)
	require.NoError(tb, err)
	return events
}

// settled waits for the end of an action.
func settled(tb testing.TB, w *weir, id string) *schemas.EventViewSettled {
	tb.Helper()
	events := allEvents(tb, w, id)
	return events[len(events)-1].Settled
}

// binary is the program under test, natsBinary the server of the module.
var binary, natsBinary string

func TestMain(m *testing.M) {
	binary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
	os.Exit(m.Run())
}
