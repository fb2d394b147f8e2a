package agent_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/agent"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const body = `{"request_id":"r1","task_type":"DOUBLE","inputs":{"n":1.50,"<":"&"}}`

// most is how much is read of an answer; who sends more sees the caller leave.
const most = 256 << 10

// send asks for a run and reads the answer.
func send(ctx context.Context, a *agent.Agent, method, route, body, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL()+route, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return resp.StatusCode, string(text), err
}

func ask(t *testing.T, a *agent.Agent, route, body, token string) (int, string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	status, text, err := send(t.Context(), a, method, route, body, token)
	require.NoError(t, err)
	return status, text
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	a := agent.New(t, agent.Config{Token: "secret"})
	for _, route := range []string{"/health", "/health/ready"} {
		status, text := ask(t, a, route, "", "")
		assert.Equal(t, 200, status)
		assert.Contains(t, text, `"status":"`)
	}
	status, text := ask(t, a, schemas.RouteRunSync, body, "secret")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"outputs":{"echo":{"n":1.50,"<":"&"}},"request_id":"r1","status":"ok"}`, text)
	assert.Contains(t, text, `{"n":1.50,"<":"&"}`, "as it came, byte by byte")

	status, text = ask(t, a, schemas.RouteRunStream, body, "secret")
	assert.Equal(t, 200, status)
	assert.Equal(t, `event: started
data: {"request_id":"r1","task_type":"DOUBLE","type":"started"}

event: progress
data: {"percent":50,"step":1}

event: progress
data: {"percent":100,"step":2}

event: complete
data: {"outputs":{"echo":{"n":1.50,"<":"&"}},"request_id":"r1","status":"ok","success":true,"task_type":"DOUBLE","type":"final"}

`, text)

	for _, tt := range []struct {
		body, token string
		status      int
		says        string
	}{
		{body, "", 401, "UNAUTHORIZED"},
		{`{"task_type":"DOUBLE"}`, "secret", 422, "VALIDATION_ERROR"},
		{`[`, "secret", 422, "VALIDATION_ERROR"},
		{`{"request_id":"r1","task_type":"OTHER"}`, "secret", 400, "UNSUPPORTED_TASK_TYPE"},
	} {
		status, text = ask(t, a, schemas.RouteRunStream, tt.body, tt.token)
		assert.Equal(t, tt.status, status)
		assert.Contains(t, text, tt.says)
		assert.Contains(t, text, `"ok":false`)
	}
	a.WaitIdle()
	assert.Equal(t, 2, a.Hits())
	assert.Equal(t, 4, a.Refused())
	run := a.Ledger()[1]
	assert.Equal(t, schemas.RouteRunStream, run.Route)
	assert.Equal(t, "r1", run.Run.RequestID)
	assert.True(t, run.Done())
	assert.False(t, run.Cut())
	assert.Equal(t, 4, run.Sent())
}

// TestFaults plays every fault on both routes. What would never end does so when
// the caller leaves, and the ledger tells.
func TestFaults(t *testing.T) {
	t.Parallel()
	whole := agent.New(t, agent.Config{})
	_, sync := ask(t, whole, schemas.RouteRunSync, body, "")
	_, stream := ask(t, whole, schemas.RouteRunStream, body, "")
	silent := map[agent.Fault]bool{agent.NeverAnswers: true, agent.Stalls: true, agent.StreamSilent: true, agent.HoldsOpen: true}
	require.Greater(t, len(agent.Faults()), 70)
	for _, f := range agent.Faults() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			a := agent.New(t, agent.Config{Fault: f})
			differs := false
			for n, route := range []string{schemas.RouteRunSync, schemas.RouteRunStream} {
				ctx, cancel := context.WithCancel(t.Context())
				status, text, over := 0, "", make(chan struct{})
				go func() {
					defer close(over)
					status, text, _ = send(ctx, a, http.MethodPost, route, body, "") // how it ends is the fault's
				}()
				run := a.WaitRun(n + 1)
				if silent[f] {
					cancel()
				}
				<-over
				cancel()
				<-run.Closed()
				assert.NotEqual(t, run.Done(), run.Cut())
				differs = differs || status != 200 || text != []string{sync, stream}[n] || run.Cut()
			}
			for _, other := range []string{"health", "ready", "unknown", "malformed"} {
				if strings.HasPrefix(string(f), other) {
					assert.False(t, differs, "the runs are as they should be")
					return
				}
			}
			if f == agent.SyncStatus || f == agent.SyncType || f == agent.StreamStatus || f == agent.StreamType {
				return // what differs is no part of the text
			}
			assert.True(t, differs, "nothing is wrong")
		})
	}
}
