//go:build e2e

package integration_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// This suite alone shows that the clients of the task, chat and rules protocols read what
// they are answered, and that what they add of their own is ignored.

// inContainer sends a request as an agent in a container does, which knows the node by
// another name.
func (w *weir) inContainer(tb testing.TB, token, method, path, body string) (int, string) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, w.URL+path, strings.NewReader(body))
	require.NoError(tb, err)
	req.Host = "host.docker.internal:8092"
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(tb, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	return resp.StatusCode, string(text)
}

// TestTaskAgents does what an agent of the task protocol does, from a container, up to the
// end of its task and after it.
func TestTaskAgents(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process")
	w.makeRepo(t, "shop")
	for name, tc := range map[string]struct{ report, body, status string }{
		"complete": {"/agent/task/complete", `{"description":"done","summary":{"files":3},"trace_id":"t"}`, "Completed"},
		"fail":     {"/api/agent/task/fail/", `{"reason":"TaskIssues","description":"unclear","details":null}`, "Failed"},
		"canceled": {"", "", "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := w.makeTask(t, "")
			ask := func(method, path, body string) (int, string) { return w.inContainer(t, task.Token, method, path, body) }
			status, text := ask(http.MethodGet, "/api/ready", "")
			require.Equal(t, []any{http.StatusOK, "Ready"}, []any{status, text})
			for _, path := range []string{"/agent/task", "/agent/task/", "/api//agent/task"} {
				status, text = ask(http.MethodGet, path, "")
				require.Equal(t, http.StatusOK, status, text)
				require.Equal(t, "Running", decode[map[string]string](t, text)["status"])
			}
			status, text = ask(http.MethodPost, "/agent/task/fail", `{"description":"`+strings.Repeat("d", 64<<10+1)+`"}`)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, text, "at /description: must be at most 65536 bytes")
			if tc.report != "" {
				status, text = ask(http.MethodPost, tc.report, tc.body)
				require.Equal(t, []any{http.StatusOK, ""}, []any{status, text})
			} else {
				resp, text := w.request(t, http.MethodPost, schemas.RouteTasks+"/"+task.ID+"/cancel", "")
				require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
				poll.Until(t, func() bool { return w.task(t, task.ID).Status == schemas.TaskStatusCanceled })
			}
			status, text = ask(http.MethodGet, "/agent/task", "")
			require.Equal(t, http.StatusOK, status, text)
			require.Equal(t, tc.status, decode[map[string]string](t, text)["status"], "it may see the end")
			for path, want := range map[string]int{"/agent/inquiry": http.StatusUnauthorized, "/agent/task/complete": http.StatusBadRequest} {
				status, text = ask(http.MethodPost, path, `{"description":"again","inquiry":"?"}`)
				require.Contains(t, []int{want, http.StatusUnauthorized, http.StatusBadRequest}, status, text)
			}
		})
	}
	status, text := w.inContainer(t, "weirt1_wrong", http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusForbidden, status, text)
	require.Contains(t, text, "or send a token")
}

// chatError is an error as the clients of the chat protocol read it: a code that is no
// string ends in an error of their own, and a 429 is not retried.
type chatError struct {
	Error struct {
		Message string  `json:"message"`
		Type    *string `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// TestChatErrors reads the errors of completions as the protocol's clients do.
func TestChatErrors(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, "budgets:\n  poor: {per: [model], models: [sim/poor], tokens: 1}\n"), "--durability", "process")
	for name, tc := range map[string]struct {
		body              string
		status            int
		code, kind, param string
	}{
		"a provider's 429":    {chatBody("sim/status-429", false, ""), 429, "rate_limit_exceeded", "rate_limit_error", ""},
		"an unknown model":    {chatBody("nobody/has-it", false, ""), 404, "model_not_found", "invalid_request_error", "model"},
		"a spent budget":      {chatBody("sim/poor", true, ""), 402, "insufficient_quota", "insufficient_quota", ""},
		"no model":            {`{"messages":[{"role":"user","content":"a"}]}`, 400, "validation_error", "invalid_request_error", "model"},
		"a message of no one": {`{"model":"sim/plain","messages":[{"role":"user","content":"a"},{"content":"b"}]}`, 400, "validation_error", "invalid_request_error", "messages[1].role"},
	} {
		resp, text := w.request(t, http.MethodPost, "/api//chat/completions", tc.body)
		require.Equal(t, tc.status, resp.StatusCode, "%s: %s", name, text)
		got := decode[chatError](t, text).Error
		require.NotEmpty(t, got.Message, name)
		require.Equal(t, []string{tc.code, tc.kind}, []string{*got.Code, *got.Type}, name)
		if tc.param == "" {
			require.Nil(t, got.Param, name)
		} else {
			require.Equal(t, tc.param, *got.Param, name)
		}
		status := decode[struct {
			Error struct {
				Metadata struct {
					Status int `json:"status"`
				} `json:"metadata"`
			} `json:"error"`
		}](t, text)
		require.Equal(t, tc.status, status.Error.Metadata.Status, name)
	}
}

// TestRulesAgents does what the demo script of the rules protocol does, and calls through a
// mock whose JSON body is a string, as the protocol documents it.
func TestRulesAgents(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process")
	etag := ""
	operate := func(operation, args string) ruleData {
		body := `{"type":"AGENT_API_REQUEST","sent_at":1,"request":{"request_id":"demo-` + operation + `","operation":"` + operation + `","args":` +
			strings.ReplaceAll(args, "$ETAG", etag) + `,"client":"demo"}}`
		resp, text := w.request(t, http.MethodPost, schemas.RouteAgentAPI, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
		data := decode[struct {
			OK   bool     `json:"ok"`
			Data ruleData `json:"data"`
		}](t, text)
		require.True(t, data.OK, text)
		if data.Data.Etag != "" {
			require.True(t, operation == "status" || operation == "rules.list" || etag != data.Data.Etag, "a write gives another etag")
			etag = data.Data.Etag
		}
		return data.Data
	}
	operate("ping", `{}`)
	operate("status", `{}`)
	operate("rules.create", `{"group":"demo","create_group_if_missing":true,"if_match":"$ETAG","note":"first","rule":{"id":"orders","name":"Orders","type":"mock","enabled":true,"priority":100,
		"match":{"url_pattern":"http://localhost:1/orders","method":"GET","resource_type":"xmlhttprequest","include_query":false},
		"action":{"body_mode":"json","body":"{\"orders\":[1.50]}"}}}`)
	require.Len(t, operate("rules.list", `{"group":"demo"}`).Rules, 1)
	resp, text := w.request(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://localhost:1/orders"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	require.Contains(t, text, `"body":{"orders":[1.50]}`)
	require.Contains(t, text, `{"name":"content-type","value":"application/json"}`)
	operate("rules.patch", `{"id":"orders","if_match":"$ETAG","patch":{"action":{"body":"not JSON"}}}`)
	_, text = w.request(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://localhost:1/orders"}`)
	require.Contains(t, text, `"body":"not JSON"`)
	operate("rules.disable", `{"id":"orders","if_match":"$ETAG"}`)
	for args, code := range map[string]string{
		`{"if_match":"*"}`:             "INVALID_REQUEST",
		`{"if_match":"etag-1-before"}`: "ETAG_MISMATCH",
	} {
		_, text = w.request(t, http.MethodPost, schemas.RouteAgentAPI,
			`{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"global.off","args":`+args+`}}`)
		require.Contains(t, text, `"code":"`+code+`"`)
	}
}

// TestDoor sends what no client of a protocol does: heads that do not end, targets without
// end, tokens by the thousand.
func TestDoor(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process")
	resp, text := w.request(t, http.MethodGet, "/v1/actions?q="+strings.Repeat("a", 9000), "")
	require.Equal(t, http.StatusRequestURITooLong, resp.StatusCode, text)
	require.Contains(t, text, `"code":"URI_TOO_LONG"`)

	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", strings.TrimPrefix(w.URL, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))

	last := 0
	for range 1000 {
		status, text := w.asAgent(t, "weirt1_wrong", http.MethodGet, schemas.RouteAgentTask, "")
		if last = status; status == http.StatusTooManyRequests {
			require.Contains(t, text, "too many wrong tokens came from this address")
			break
		}
		require.Equal(t, http.StatusUnauthorized, status)
	}
	require.Equal(t, http.StatusTooManyRequests, last)
	w.makeRepo(t, "shop")
	status, text := w.asAgent(t, w.makeTask(t, "").Token, http.MethodGet, schemas.RouteAgentTask, "")
	require.Equal(t, http.StatusOK, status, "a token in force is served: %s", text)

	slow, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(slow), "HTTP/1.1 408 "), string(slow))
	require.Contains(t, string(slow), `"code":"REQUEST_TIMEOUT"`)
}
