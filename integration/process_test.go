//go:build e2e

package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// weir is a running `weir serve`.
type weir struct {
	URL  string
	NATS string // the embedded server's address, where it listens

	cmd    *exec.Cmd
	exited chan struct{}
	mu     sync.Mutex
	log    strings.Builder
	err    error
}

var (
	readyLine = regexp.MustCompile(`ready on (http://\S+)`)
	natsLine  = regexp.MustCompile(`nats on (nats://\S+)`)
)

// startTimeout bounds how long a process may take to get ready.
const startTimeout = 30 * time.Second

// serve starts `weir serve` on a data directory and waits until it is ready.
func serve(tb testing.TB, dir string, args ...string) *weir {
	tb.Helper()
	w, err := tryServeEnv(dir, nil, args...)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		w.kill()
		if tb.Failed() {
			tb.Logf("weir's stderr:\n%s", w.stderr())
		}
	})
	return w
}

func tryServeEnv(dir string, environ []string, args ...string) (*weir, error) {
	return tryServeIn("", dir, environ, args...)
}

// tryServeIn starts it in a working directory.
func tryServeIn(cwd, dir string, environ []string, args ...string) (*weir, error) {
	w := &weir{exited: make(chan struct{})}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--data", dir}, args...)
	w.cmd = exec.Command(binary, args...)
	w.cmd.Dir = cwd
	w.cmd.Env = append(append(os.Environ(), environ...), "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.cmd.Stderr = w
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	ready := make(chan struct{})
	go func() {
		defer close(w.exited)
		announced := false
		for line := range lines {
			if m := natsLine.FindStringSubmatch(line); m != nil {
				w.NATS = m[1]
			}
			if m := readyLine.FindStringSubmatch(line); m != nil && !announced {
				w.URL, announced = m[1], true
				close(ready)
			}
		}
		w.err = w.cmd.Wait()
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-ready:
		return w, nil
	case <-w.exited:
		return nil, fmt.Errorf("weir ended before it was ready: %w\n%s", w.err, w.stderr())
	case <-timer.C:
		w.kill()
		return nil, fmt.Errorf("weir was not ready in time\n%s", w.stderr())
	}
}

// Write takes the process's stderr.
func (w *weir) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *weir) stderr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// kill ends the process at once, as a crash would.
func (w *weir) kill() {
	_ = w.cmd.Process.Signal(syscall.SIGKILL)
	<-w.exited
}

// terminate asks the process to end and returns its exit error.
func (w *weir) terminate() error {
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-w.exited:
		return w.err
	case <-timer.C:
		w.kill()
		return errors.New("weir did not end after SIGTERM")
	}
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
