//go:build e2e

package integration_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// TestChatOfADeadWorker kills the program before the first chunk, and behind it: the
// first is asked for again, and the second ends, with what had come.
func TestChatOfADeadWorker(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"disk", "process"} {
		t.Run("before the first chunk/"+durability, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			provider := llm.New(t, llm.Config{Script: []llm.Act{{Begin: hold}, {}}})
			dir, config := t.TempDir(), chatConfig(t, provider, "")
			w := serveChat(t, dir, config, "--durability", durability)
			resp, text := w.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/plain", false, ""), "Prefer", "respond-async", "Idempotency-Key", "k")
			require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
			r := provider.WaitRequest(1)
			w.Kill()
			<-r.Closed()
			close(hold)

			w = serveChat(t, dir, config, "--durability", durability)
			resp, text = w.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/plain", false, ""), "Idempotency-Key", "k")
			require.Equal(t, http.StatusOK, resp.StatusCode, text)
			require.Contains(t, text, "Hello, world")
			require.Equal(t, 2, provider.Hits())
		})
		t.Run("behind it/"+durability, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			defer close(hold)
			provider := llm.New(t, llm.Config{Script: []llm.Act{{Texts: []string{"One", " two"}, Hold: hold}}})
			dir, config := t.TempDir(), chatConfig(t, provider, "")
			w := serveChat(t, dir, config, "--durability", durability)
			body := chatBody("sim/plain", true, "")
			first := openChat(t.Context(), t, w.URL, body, "Idempotency-Key", "k")
			got := readChat(t, first.Body, func(s chatStream) bool { return s.text == "One two" })
			require.Equal(t, "One two", got.text)
			id := first.Header.Get(schemas.HeaderGeneration)
			w.Kill()

			w = serveChat(t, dir, config, "--durability", durability)
			again := openChat(t.Context(), t, w.URL, body, "Idempotency-Key", "k")
			require.Equal(t, id, again.Header.Get(schemas.HeaderGeneration))
			got = readChat(t, again.Body, nil)
			require.Equal(t, []any{"One two", 1}, []any{got.text, got.done})
			require.NotNil(t, got.fault)
			require.Equal(t, schemas.Interrupted, got.fault.Metadata.Code)
			end, _ := settledChat(t, w, id)
			require.Equal(t, schemas.OutcomeFailed, end.Outcome)
			res := decode[schemas.ChatResult](t, string(end.Result))
			require.True(t, res.Partial)
			require.Contains(t, string(res.Completion), "One two")
			require.True(t, res.Usage.Estimated)
			require.Equal(t, 1, provider.Hits(), "an answer that was begun is not begun again")
		})
	}
}

// TestChatOfADeadNode kills one of two nodes on a replicated log: the other ends the
// stream that it had begun, and asks again for the answer that had not. Before, it makes
// sure that the node is dead, which takes twice as long as a living one may be silent.
func TestChatOfADeadNode(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	defer close(hold)
	provider := llm.New(t, llm.Config{Script: []llm.Act{{Texts: []string{"One", " two"}, Hold: hold}, {Begin: hold}, {}}})
	models := fmt.Sprintf("models:\n  \"sim/*\": {url: %q, headers: {Authorization: \"Bearer ${secret:PROVIDER}\"}}\n", provider.URL())
	config := onCluster(t, newCluster(t), models)
	dead := serveChat(t, t.TempDir(), config)
	body := chatBody("sim/plain", true, "")
	first := openChat(t.Context(), t, dead.URL, body, "Idempotency-Key", "begun")
	begun := first.Header.Get(schemas.HeaderGeneration)
	readChat(t, first.Body, func(s chatStream) bool { return s.text == "One two" })
	resp, text := dead.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/plain", false, ""), "Prefer", "respond-async", "Idempotency-Key", "not")
	require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
	provider.WaitRequest(2)
	w := serveChat(t, t.TempDir(), config)
	dead.Kill()
	killed := time.Now()

	again := openChat(t.Context(), t, w.URL, body, "Idempotency-Key", "begun")
	require.Equal(t, begun, again.Header.Get(schemas.HeaderGeneration))
	got := readChat(t, again.Body, nil)
	require.Equal(t, []any{"One two", 1}, []any{got.text, got.done})
	require.NotNil(t, got.fault)
	require.Equal(t, schemas.Interrupted, got.fault.Metadata.Code)
	t.Logf("the stream had ended after %v", time.Since(killed))
	end, _ := settledChat(t, w, resp.Header.Get(schemas.HeaderGeneration))
	require.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
	require.Contains(t, string(end.Result), "Hello, world")
	require.Equal(t, 3, provider.Hits())
	t.Logf("the other after %v", time.Since(killed))
}

// TestChatOfATask: a task's token is all that its agent needs, within the task's
// budget, and until the task has ended.
func TestChatOfATask(t *testing.T) {
	t.Parallel()
	provider := llm.New(t, llm.Config{})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, ""))
	resp, text := w.request(t, http.MethodPost, schemas.RouteRepos, `{"name":"shop"}`)
	require.Equal(t, http.StatusCreated, resp.StatusCode, text)
	resp, text = w.request(t, http.MethodPost, schemas.RouteTasks, `{"repo":"shop","description":"x","model":"sim/plain","budget":{"requests":2}}`)
	require.Equal(t, http.StatusCreated, resp.StatusCode, text)
	made := decode[schemas.NewTask](t, text)
	bearer := []string{"Authorization", "Bearer " + made.Token}
	for _, route := range []string{"/api//chat/completions", "/chat/completions"} {
		resp, text = w.request(t, http.MethodPost, route, chatBody("sim/plain", false, ""), bearer...)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
	}
	view := decode[schemas.TaskView](t, second(w.request(t, http.MethodGet, schemas.RouteTasks+"/"+made.ID, "")))
	require.Equal(t, schemas.TaskStatusRunning, view.Status)

	resp, text = w.request(t, http.MethodPost, "/v1/chat/completions", chatBody("sim/other", false, ""), bearer...)
	require.Equal(t, http.StatusForbidden, resp.StatusCode, text)
	resp, text = w.request(t, http.MethodPost, "/v1/chat/completions", chatBody("sim/plain", false, ""), bearer...)
	require.Equal(t, http.StatusPaymentRequired, resp.StatusCode, text)
	fault := decode[struct {
		Error chatFault `json:"error"`
	}](t, text).Error
	require.Equal(t, []any{schemas.BudgetExhausted, schemas.BudgetOfTask, schemas.BudgetRequests}, []any{fault.Metadata.Code, fault.Metadata.Source, fault.Metadata.What})

	resp, text = w.request(t, http.MethodPost, schemas.RouteAgentComplete, `{"description":"done"}`, bearer...)
	require.Equal(t, http.StatusOK, resp.StatusCode, text)
	resp, text = w.request(t, http.MethodPost, schemas.RouteChat, chatBody("sim/plain", false, ""), bearer...)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode, text)
	require.Equal(t, 2, provider.Hits())
}

func second(_ *http.Response, text string) string { return text }
