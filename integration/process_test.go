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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
	"weir/schemas"
)

// weir is a running `weir serve`.
type weir struct{ *program.Program }

// serve starts `weir serve` on a data directory and waits until it is ready. It ends with
// the test, which shows what it logged if it failed.
func serve(tb testing.TB, dir string, args ...string) *weir {
	tb.Helper()
	w, err := tryServe(program.How{}, dir, args...)
	require.NoError(tb, err)
	endWith(tb, w)
	return w
}

// endWith ends the process with the test, which shows the end of its log if it failed.
func endWith(tb testing.TB, w *weir) {
	tb.Helper()
	tb.Cleanup(func() {
		w.Kill()
		if tb.Failed() {
			said := w.Said()
			tb.Logf("the end of weir's stderr:\n%s", said[max(0, len(said)-8<<10):])
		}
	})
}

// tryServe is serve with an environment or a working directory; the caller ends it.
func tryServe(how program.How, dir string, args ...string) (*weir, error) {
	how.Args = append([]string{"--data", dir}, args...)
	how.Environ = append(how.Environ, "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	p, err := program.Run(binary, how)
	return &weir{p}, err
}

// request sends one request and returns the answer with its body read.
func (w *weir) request(tb testing.TB, method, path, body string, header ...string) (*http.Response, string) {
	tb.Helper()
	resp, text, err := w.try(tb.Context(), method, path, body, header...)
	require.NoError(tb, err)
	return resp, text
}

func (w *weir) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, string, error) {
	return program.Ask(ctx, method, w.URL+path, body, header...)
}

// decode reads a JSON document or fails the test.
func decode[T any](tb testing.TB, text string) T {
	tb.Helper()
	var v T
	require.NoError(tb, json.Unmarshal([]byte(text), &v), text)
	return v
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
func patiently(ctx context.Context, ask func() (status int, err error)) error {
	for {
		status, err := ask()
		if err != nil || status != http.StatusServiceUnavailable {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logged follows an action's pages until its terminal event.
func logged(ctx context.Context, w *weir, id string) (all []schemas.EventView, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for after := "0"; ; {
		var text string
		err := patiently(ctx, func() (int, error) {
			resp, body, err := w.try(ctx, http.MethodGet, "/v1/actions/"+id+"/events?live=long-poll&limit=1000&after="+after, "", "Accept", "application/json")
			if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
				err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
			}
			if err != nil {
				return 0, err
			}
			text = body
			return resp.StatusCode, nil
		})
		if err != nil {
			return nil, err
		}
		var page schemas.Page[schemas.EventView]
		if err := json.Unmarshal([]byte(text), &page); err != nil {
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
