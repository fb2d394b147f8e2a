package check_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/cmd/app/check"
	"weir/internal/weirtest/agent"
)

// TestPrint is the readable report as a person sees it, byte for byte.
func TestPrint(t *testing.T) {
	t.Parallel()
	dead := agent.New(t, agent.Config{})
	dead.Close()
	for name, tt := range map[string]struct {
		of   *agent.Agent
		want string
	}{
		"all passed": {agent.New(t, agent.Config{}), `
AT DOUBLE: passed
  health    5 passed
  sync      9 passed
  stream    23 passed
  refusals  4 passed
  41 passed, 0 failed, 0 skipped, 0 warnings
`},
		"one failure": {agent.New(t, agent.Config{Fault: agent.EndOtherID}), `
AT DOUBLE: failed
  health    5 passed
  sync      9 passed
  stream    1 failed, 22 passed
    failed   end.request_id: the terminal event's request_id is the request's
             found: request_id is "another"
             fix:   repeat request_id as it came
  refusals  4 passed
  40 passed, 1 failed, 0 skipped, 0 warnings
`},
		"a warning": {agent.New(t, agent.Config{Fault: agent.StartNoTask}), `
AT DOUBLE: passed
  health    5 passed
  sync      9 passed
  stream    1 warning, 22 passed
    warning  start.task_type: its task_type is the request's
             found: there is no task_type
             fix:   repeat task_type as it came
  refusals  4 passed
  40 passed, 0 failed, 0 skipped, 1 warnings
`},
		"two to blame": {agent.New(t, agent.Config{Script: []agent.Act{{Fault: agent.Status503}, {Fault: agent.EmptyStream}}}), `
AT DOUBLE: failed
  health    5 passed
  sync      1 failed, 8 skipped
    failed   sync.status: POST /agents/run/sync answers 200
             found: 503 Service Unavailable; its error is "AGENT_UNAVAILABLE": "the agent does not take it"
             fix:   it says that it is busy or not ready; try again when it is neither
  stream    1 failed, 2 passed, 20 skipped
    failed   stream.first: the first event comes in time
             found: the stream closed without one
             fix:   send started as soon as the run is taken, and flush it
  refusals  not judged
  32 rules could not be judged because sync.status and stream.first failed
  7 passed, 2 failed, 32 skipped, 0 warnings
`},
		"nobody there": {dead, `
AT DOUBLE: failed
  health    1 failed, 4 skipped
    failed   reach: the service answers at all
             found: no answer: "dial tcp ADDRESS: connect: connection refused"
             fix:   start it, and name the address it listens on
  sync      not judged
  stream    not judged
  refusals  not judged
  40 rules could not be judged because reach failed
  0 passed, 1 failed, 40 skipped, 0 warnings
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			run(t, tt.of, check.Config{}).Print(&out)
			at := strings.TrimPrefix(tt.of.URL(), "http://")
			got := strings.NewReplacer(tt.of.URL(), "AT", at, "ADDRESS").Replace(out.String())
			assert.Equal(t, strings.TrimPrefix(tt.want, "\n"), got)
		})
	}
}
