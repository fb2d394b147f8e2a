package runs_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/schemas"
)

// answers is a run whose agent, or what stands before it, answers with a status.
func answers(t *testing.T, status int, body string) ended {
	t.Helper()
	return told(t, &schemas.Attempted{Number: 1, Sent: true, Status: status, Answer: &schemas.Answer{
		Status: status, Body: json.RawMessage(body), RetryAfter: 7 * time.Second,
	}})
}

// told is a run whose call has ended in a way.
func told(t *testing.T, res *schemas.Attempted) ended {
	t.Helper()
	r := newRoom(t, options{}, schemas.Agent{TaskType: double.TaskType, URL: "http://127.0.0.1:1", Mode: schemas.AgentStream, Concurrency: 1})
	st := r.claim("r-1", schemas.Run{}, time.Minute)
	attempt := &schemas.Attempt{Number: 1, Class: schemas.ClassOnce, Worker: "w0", Decision: schemas.Decision{Allowed: true, Entry: "agent:DOUBLE"}}
	require.NoError(t, r.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventAttempt, Attempt: attempt}))
	require.NoError(t, r.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventAttempted, Attempted: res}))
	e := r.perform(st, still{})
	require.NoError(t, e.err)
	require.NotNil(t, e.result.Error)
	return e
}

// TestWhatStandsBeforeAnAgent may have passed the run on: nobody is told that it
// was not begun.
func TestWhatStandsBeforeAnAgent(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, http.StatusGatewayTimeout} {
		e := answers(t, status, `{}`)
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, schemas.TaskFailed, e.Code)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.Contains(t, e.result.Error.Message, "may have begun")
		assert.Contains(t, e.result.Error.Message, "before the run is sent again")

		e = answers(t, status, `{"error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.JSONEq(t, `{"status":`+strconv.Itoa(status)+`,"retry_after_ms":7000,"agent_error":{"code":"AGENT_UNAVAILABLE","message":"m"}}`, string(e.result.Error.Details))
	}
}

// TestAnAgentThatIsBusy: what it said of it is kept, up to a length.
func TestAnAgentThatIsBusy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 600)
	for body, want := range map[string]string{
		`{}`: `{"status":503,"retry_after_ms":7000}`,
		`{"error":{"code":"OVERLOADED","message":"ask again later","details":{"queue":9}}}`: `{"status":503,"retry_after_ms":7000,"agent_error":{"code":"OVERLOADED","message":"ask again later"}}`,
		`{"error":{"code":"X","message":"` + long + `"}}`:                                   `{"status":503,"retry_after_ms":7000,"agent_error":{"code":"X","message":"` + long[:1024] + `"}}`,
	} {
		e := answers(t, http.StatusServiceUnavailable, body)
		assert.Equal(t, schemas.AgentUnavailable, e.Code)
		assert.Equal(t, "AGENT_UNAVAILABLE", e.result.Error.Code)
		assert.JSONEq(t, want, string(e.result.Error.Details))
	}
	assert.JSONEq(t, `{"status":429,"retry_after_ms":7000}`, string(answers(t, http.StatusTooManyRequests, `{}`).result.Error.Details))
}

// TestARunThatBrokeOff: what was done by then stands.
func TestARunThatBrokeOff(t *testing.T) {
	t.Parallel()
	for _, code := range []schemas.Code{schemas.UpstreamTruncated, schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTooLarge, schemas.UpstreamTimeout} {
		e := told(t, &schemas.Attempted{Number: 1, Sent: true, Status: 200, Code: code})
		assert.Equal(t, schemas.OutcomeFailed, e.Outcome)
		assert.Equal(t, "TASK_FAILED", e.result.Error.Code)
		assert.Contains(t, e.result.Error.Message, "what the agent had done by then stands")
		assert.Contains(t, e.result.Error.Message, "before the run is sent again")
	}
}

// TestDetailsThatSayNothing are none.
func TestDetailsThatSayNothing(t *testing.T) {
	t.Parallel()
	e := newRoom(t, options{}).run("r-1")
	assert.Equal(t, schemas.AgentUnavailable, e.Code)
	assert.Nil(t, e.result.Error.Details)
}
