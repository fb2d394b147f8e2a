//go:build e2e

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// killed is a stream of a protocol: what begins it, a piece of its text, and what ends it.
type killed struct {
	route, body      string
	begin, text, end string
	failure          string // what the end of a stream that broke off has
}

func killedStreams() map[string]killed {
	return map[string]killed{
		"completions": {
			route: schemas.RouteChat, body: `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"Say it."}]}`,
			text: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"One two\"}}]}\n\n",
			end: "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
				"data: [DONE]\n\n",
			failure: `"code":"INTERRUPTED"`,
		},
		"responses": {
			route: schemas.RouteResponses, body: `{"model":"m","stream":true,"max_output_tokens":100,"input":"Say it."}`,
			begin: "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_x\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
			text: "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"m1\",\"role\":\"assistant\",\"content\":[]}}\n\n" +
				"event: response.content_part.added\ndata: {\"type\":\"response.content_part.added\",\"sequence_number\":2,\"item_id\":\"m1\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text\":\"\"}}\n\n" +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":3,\"item_id\":\"m1\",\"output_index\":0,\"content_index\":0,\"delta\":\"One two\"}\n\n",
			end: "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":4,\"response\":{\"id\":\"resp_x\",\"object\":\"response\",\"status\":\"completed\"," +
				"\"output\":[{\"type\":\"message\",\"id\":\"m1\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"One two\"}]}],\"usage\":{\"input_tokens\":5,\"output_tokens\":2,\"total_tokens\":7}}}\n\n",
			failure: "response.failed",
		},
		"messages": {
			route: schemas.RouteMessages, body: `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"Say it."}]}`,
			begin: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_x\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n",
			text: "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"One two\"}}\n\n",
			end: "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
				"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n" +
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			failure: "error",
		},
	}
}

// TestKilledInADialect kills the program before the first event of a stream, and after some: the
// first request is made again, and the second ends as its protocol ends a failed stream. The budget
// is charged once.
func TestKilledInADialect(t *testing.T) {
	t.Parallel()
	for name, k := range killedStreams() {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, begun: %t", name, begun), func(t *testing.T) {
				t.Parallel()
				k.run(t, begun)
			})
		}
	}
}

func (k killed) run(t *testing.T, begun bool) {
	t.Helper()
	var hits atomic.Int64
	asked := make(chan struct{}, 2)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		first := hits.Add(1) == 1
		if !first || begun {
			_, _ = io.WriteString(w, k.begin+k.text)
			_ = http.NewResponseController(w).Flush()
		}
		asked <- struct{}{}
		if first {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, k.end)
	}))
	defer upstream.Close()
	config := configFile(t, fmt.Sprintf("models: {m: {url: %q, price: {input: 1, output: 1}}}\nbudgets: {all: {tokens: 100000}}\n", upstream.URL))
	dir := t.TempDir()
	w := serve(t, dir, "--config", config, "--durability", "process")
	ask := func() (*http.Response, error) {
		return post(t.Context(), http.DefaultClient, w.URL+k.route, k.body, "Idempotency-Key", "k")
	}
	first := make(chan *http.Response, 1)
	go func() {
		resp, _ := ask()
		first <- resp
	}()
	<-asked
	seen := ""
	if begun {
		resp := <-first
		require.NotNil(t, resp)
		for buf := make([]byte, 4096); !strings.Contains(seen, "One two"); {
			n, err := resp.Body.Read(buf)
			require.NoError(t, err)
			seen += string(buf[:n])
		}
		defer resp.Body.Close()
	}
	w.Kill()
	if !begun {
		if resp := <-first; resp != nil {
			_ = resp.Body.Close()
		}
	}

	w = serve(t, dir, "--config", config, "--durability", "process")
	again, err := ask()
	require.NoError(t, err)
	defer again.Body.Close()
	all, err := io.ReadAll(again.Body)
	require.NoError(t, err)
	end := settled(t, w, again.Header.Get(schemas.HeaderGeneration))
	res := decode[schemas.ChatResult](t, string(end.Result))
	_, budgets := w.request(t, http.MethodGet, "/v1/budgets", "")
	assert.Contains(t, budgets, fmt.Sprintf(`"used":%d`, res.Usage.Total), "it is charged once")
	assert.Contains(t, string(res.Completion), "One two")
	if !begun {
		assert.EqualValues(t, 2, hits.Load())
		assert.Equal(t, schemas.OutcomeSucceeded, end.Outcome)
		assert.True(t, res.Usage.Estimated, "the killed worker's call is estimated")
		return
	}
	assert.EqualValues(t, 1, hits.Load(), "an answer that was begun is not begun again")
	assert.Equal(t, []any{schemas.OutcomeFailed, schemas.Interrupted}, []any{end.Outcome, end.Code})
	assert.True(t, res.Partial)
	require.True(t, strings.HasPrefix(string(all), seen), "%q is not how %q began", all, seen)
	assert.Contains(t, string(all[len(seen):]), k.failure)
}
