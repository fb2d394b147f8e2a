//go:build e2e

package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/agent"
	"weir/schemas"
)

// TestRunOfADeadWorker kills the program in the middle of an agent's stream: the
// run is not given to the agent again, ends once, and says that nobody knows.
func TestRunOfADeadWorker(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"disk", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			double := agent.New(t, agent.Config{Script: []agent.Act{{Steps: 4, Hold: hold}}})
			dir, config := t.TempDir(), agentsFile(t, map[string]*agent.Agent{agent.TaskType: double})
			w := serve(t, dir, "--config", config, "--durability", durability)
			order := runBody("orphan", agent.TaskType, `{}`)
			seen := progressOf(t, w, order, 4)
			w.Kill()
			<-double.WaitRun(1).Closed()
			close(hold)

			w = serve(t, dir, "--config", config, "--durability", durability)
			events := allEvents(t, w, "orphan")
			var ends []schemas.Settled
			progress := 0
			for _, e := range events {
				switch e.Type {
				case schemas.EventSettled:
					ends = append(ends, *e.Settled)
				case schemas.EventProgress:
					progress++
				default:
				}
			}
			require.Len(t, ends, 1)
			require.Equal(t, schemas.OutcomeUnknown, ends[0].Outcome)
			require.Equal(t, seen, progress, "what the agent had told is kept")
			require.Equal(t, 1, double.Hits(), "a run is not given to an agent twice")

			resp, text := w.request(t, http.MethodPost, schemas.RouteRunSync, order)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			answer := decode[schemas.RunResponse](t, text)
			require.Equal(t, schemas.RunFault, answer.Status)
			require.NotNil(t, answer.Error)
			require.Equal(t, string(schemas.TaskFailed), answer.Error.Code)
			require.Contains(t, string(answer.Error.Details), string(schemas.OutcomeUnknownCode))
			require.Equal(t, 1, double.Hits())

			_, data, cut, err := readStream(t.Context(), cutAfter(-1), w.URL, ask{method: http.MethodPost, path: schemas.RouteRunStream, body: order})
			require.NoError(t, err)
			require.False(t, cut)
			require.Equal(t, 1, strings.Count(string(data), "event: complete\n"))
		})
	}
}

// progressOf starts a run as a stream and returns once so many progress events
// were read, with their number.
func progressOf(t *testing.T, w *weir, order string, n int) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+schemas.RouteRunStream, strings.NewReader(order))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return readProgress(t, resp.Body, n)
}
