//go:build e2e

package integration_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// told is a line that clients/follow.mjs prints.
type told struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"`
	Cut  bool   `json:"cut"`
	End  int    `json:"end"`
}

// follow runs the npm client and returns what it prints, line by line.
func follow(t *testing.T, args ...string) <-chan told {
	t.Helper()
	dir := "clients"
	program.Needs(t, filepath.Join(dir, "node_modules", "eventsource"), needsNPM)
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"follow.mjs"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	lines := make(chan told, 1000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			var l told
			if err := json.Unmarshal(scan.Bytes(), &l); err == nil {
				lines <- l
			}
		}
	}()
	return lines
}

// heard reads lines until one satisfies stop, and returns them all.
func heard(t *testing.T, lines <-chan told, stop func(told) bool) []told {
	t.Helper()
	var all []told
	limit := time.After(30 * time.Second)
	for {
		select {
		case l, ok := <-lines:
			require.True(t, ok, "the client ended: %v", all)
			if all = append(all, l); stop(l) {
				return all
			}
		case <-limit:
			require.FailNow(t, "the client fell silent", "%v", all)
		}
	}
}

// stepped is an agent whose progress events wait for a token each.
func stepped(t *testing.T, steps int) (double *agent.Agent, step chan struct{}) {
	t.Helper()
	step = make(chan struct{}, steps)
	return agent.New(t, agent.Config{Script: []agent.Act{{Steps: steps, Step: step}}}), step
}

// TestEventSource follows runs with the npm package eventsource, which keeps to
// the standard of browsers, through two cuts of the connection: it sees every
// event of the log once and in order, and is told when there is no more.
func TestEventSource(t *testing.T) {
	t.Parallel()
	const steps = 6
	for _, route := range []string{"actions", "runs"} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			double, step := stepped(t, steps)
			w := serve(t, t.TempDir(), "--config", agentsFile(t, map[string]*agent.Agent{agent.TaskType: double}))
			between := newProxy(t, strings.TrimPrefix(w.URL, "http://"))
			order := runBody("watched", agent.TaskType, `{"text":"naïve\r\n\u2028 words"}`)
			var lines <-chan told
			if route == "actions" {
				resp, text := w.request(t, http.MethodPost, schemas.RouteRunSync, order, "Prefer", "respond-async")
				require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
				lines = follow(t, between.URL+"/v1/actions/watched/events")
			} else {
				lines = follow(t, between.URL+schemas.RouteRunStream, order)
			}
			var all []told
			const rounds = 3
			for round := range rounds {
				for range steps / rounds {
					step <- struct{}{}
					all = append(all, heard(t, lines, func(l told) bool { return l.Type == string(schemas.EventProgress) })...)
				}
				if round < rounds-1 {
					between.cut()
					all = append(all, heard(t, lines, func(l told) bool { return l.Cut })...)
				}
			}
			all = append(all, heard(t, lines, func(l told) bool { return l.End != 0 })...)
			require.Equal(t, http.StatusNoContent, all[len(all)-1].End)
			checkTold(t, w, route == "runs", all)
			require.Equal(t, 1, double.Hits())
		})
	}
}

// checkTold holds what the client saw against the log.
func checkTold(t *testing.T, w *weir, runs bool, lines []told) {
	t.Helper()
	events, err := logged(t.Context(), w, "watched")
	require.NoError(t, err)
	var want, have []string
	for _, e := range events {
		name := string(e.Type)
		if runs {
			name = shownAs(e.Type)
		}
		if name != "" {
			want = append(want, seqText(e.Seq)+" "+name)
		}
	}
	cuts := 0
	for _, l := range lines {
		if l.Cut {
			cuts++
		}
		if l.Type != "" {
			have = append(have, l.ID+" "+l.Type)
			require.True(t, json.Valid([]byte(l.Data)), l.Data)
		}
	}
	require.Equal(t, want, have)
	require.Equal(t, 3, cuts, "two cuts, and the end of a stream that is over")
}
