//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
)

// weir is a running `weir serve`.
type weir struct{ *program.Program }

// serve starts `weir serve` on a data directory and waits until it is ready. It ends with
// the test, which shows what it logged if it failed.
func serve(tb testing.TB, dir string, args ...string) *weir {
	tb.Helper()
	w, err := tryServe(program.How{}, dir, args...)
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

// tryServe is serve with an environment or a working directory; the caller ends it.
func tryServe(how program.How, dir string, args ...string) (*weir, error) {
	how.Args = append([]string{"--data", dir}, args...)
	how.Environ = append(how.Environ, "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	p, err := program.Run(binary, how)
	return &weir{p}, err
}

// drain asks the process to end, and expects that it does without an error.
func (w *weir) drain(tb testing.TB) {
	tb.Helper()
	assert.NoError(tb, w.Terminate(tb.Context()))
}

// request sends one request and returns the answer with its body read.
func (w *weir) request(tb testing.TB, method, path, body string, header ...string) (*http.Response, string) {
	tb.Helper()
	resp, text, err := w.try(tb.Context(), method, path, body, header...)
	require.NoError(tb, err)
	return resp, text
}

func (w *weir) try(ctx context.Context, method, path, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

// decode reads a JSON document or fails the test.
func decode[T any](tb testing.TB, text string) T {
	tb.Helper()
	var v T
	require.NoError(tb, json.Unmarshal([]byte(text), &v), text)
	return v
}

// policyFile writes a configuration whose entry "up" lets everything through to
// one upstream on this machine.
func policyFile(tb testing.TB, upstream string, more ...string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "weir.yaml")
	text := fmt.Sprintf(`policy:
  timeout: 60s
  allowlist:
    - name: up
      url_prefix: %s/
      methods: [GET, HEAD, POST, PUT, PATCH, DELETE]
      network: loopback
`, upstream) + strings.Join(more, "")
	require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
	return path
}
