//go:build e2e

package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// agentYAML is a configuration with an agent, which is asked for a stream, by whichever route its
// runs come.
func agentYAML(a *agent.Agent) string {
	return fmt.Sprintf("agents:\n  %s: {url: %q, mode: stream, concurrency: 256}\n", agent.TaskType, a.URL())
}

// runBody is a request for a run.
func runBody(id, taskType, inputs string) string {
	return fmt.Sprintf(`{"request_id":%q,"task_type":%q,"inputs":%s}`, id, taskType, inputs)
}

// open begins a stream; header is names and values, of which an empty one is left out.
func open(ctx context.Context, client *http.Client, method, url, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return client.Do(req)
}

// post begins a stream that must be answered with 200.
func post(ctx context.Context, client *http.Client, url, body string, header ...string) (*http.Response, error) {
	resp, err := open(ctx, client, http.MethodPost, url, body, header...)
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, err
}

// readProgress reads a stream until so many progress events have come.
func readProgress(tb testing.TB, body io.Reader, n int) int {
	tb.Helper()
	seen := 0
	for e, err := range sse.Read(bufio.NewReader(body), nil) {
		require.NoError(tb, err)
		if e.Type == schemas.RunEventProgress {
			seen++
		}
		if seen == n {
			break
		}
	}
	return seen
}

// shown are the events of an action that a dialect shows, by the log: that of runs, or that of
// actions. Each is its id and its name.
func shown(ctx context.Context, w *weir, id string, runs bool) ([]string, error) {
	events, err := logged(ctx, w, id)
	inRuns := map[schemas.EventType]string{
		schemas.EventAccepted: schemas.RunEventStarted, schemas.EventProgress: schemas.RunEventProgress, schemas.EventSettled: schemas.RunEventComplete,
	}
	var all []string
	for _, e := range events {
		name := string(e.Type)
		if runs {
			name = inRuns[e.Type]
		}
		if name != "" {
			all = append(all, fmt.Sprint(e.Seq, " ", name))
		}
	}
	return all, err
}

// told is a line that clients/follow.mjs prints.
type told struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"`
	Cut  bool   `json:"cut"`
	End  int    `json:"end"`
}

// follow runs the npm client. What it returns reads its lines until one satisfies a condition.
func follow(t *testing.T, args ...string) (until func(stop func(told) bool) []told) {
	t.Helper()
	dir := "clients"
	program.Needs(t, filepath.Join(dir, "node_modules", "eventsource"), needsNPM)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, "node", append([]string{"follow.mjs"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	scan := bufio.NewScanner(out)
	return func(stop func(told) bool) (all []told) {
		for scan.Scan() {
			l := decode[told](t, scan.Text())
			if all = append(all, l); stop(l) {
				return all
			}
		}
		require.FailNow(t, "the client ended or fell silent", "%v", all)
		return nil
	}
}

// TestNPMObserver reads the evidence with the npm package nats and its defaults.
func TestNPMObserver(t *testing.T) {
	t.Parallel()
	program.Needs(t, filepath.Join("clients", "node_modules", "nats"), needsNPM)
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	dir := t.TempDir()
	w := serve(t, dir, "--nats-listen", "127.0.0.1:0")
	for range 3 {
		w.request(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, target.URL))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "observe.mjs", embedded.CredentialsFile(dir), "3")
	cmd.Dir, cmd.Stderr = "clients", t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(out), schemas.EvidenceRoot+".default."), "%s", out)
}

// TestEventSource follows runs with the npm package eventsource, which keeps to
// the standard of browsers, through two cuts of the connection: it sees every
// event of the log once and in order, and is told when there is no more.
func TestEventSource(t *testing.T) {
	t.Parallel()
	const steps, rounds = 6, 3
	for _, route := range []string{"actions", "runs"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			step := make(chan struct{}, steps)
			double := agent.New(t, agent.Config{Script: []agent.Act{{Steps: steps, Step: step}}})
			w := serve(t, t.TempDir(), "--config", configFile(t, agentYAML(double)))
			between, err := cluster.NewLink(t.Context(), strings.TrimPrefix(w.URL, "http://"))
			require.NoError(t, err)
			t.Cleanup(between.Close)
			order := runBody("watched", agent.TaskType, `{"text":"naïve\r\n\u2028 words"}`)
			args := []string{"http://" + between.Addr() + schemas.RouteRunStream, order}
			if route == "actions" {
				resp, text := w.request(t, http.MethodPost, schemas.RouteRunSync, order, "Prefer", "respond-async")
				require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
				args = []string{"http://" + between.Addr() + "/v1/actions/watched/events"}
			}
			until := follow(t, args...)
			var all []told
			for round := range rounds {
				for range steps / rounds {
					step <- struct{}{}
					all = append(all, until(func(l told) bool { return l.Type == string(schemas.EventProgress) })...)
				}
				if round < rounds-1 {
					between.Break()
					all = append(all, until(func(l told) bool { return l.Cut })...)
				}
			}
			all = append(all, until(func(l told) bool { return l.End != 0 })...)
			require.Equal(t, http.StatusNoContent, all[len(all)-1].End)
			var have []string
			cuts := 0
			for _, l := range all {
				if l.Cut {
					cuts++
				}
				if l.Type != "" {
					have = append(have, l.ID+" "+l.Type)
					require.True(t, json.Valid([]byte(l.Data)), l.Data)
				}
			}
			want, err := shown(t.Context(), w, "watched", route == "runs")
			require.NoError(t, err)
			require.Equal(t, want, have)
			require.Equal(t, rounds, cuts, "two cuts, and the end of a stream that is over")
			require.Equal(t, 1, double.Hits())
		})
	}
}
