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
	"github.com/tidwall/gjson"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// TestKilledInADialect kills the program before the first event of a stream, and after some: the
// first request is made again, and the second ends as its protocol ends a failed stream. The budget
// is charged once.
func TestKilledInADialect(t *testing.T) {
	t.Parallel()
	for _, d := range []schemas.Dialect{schemas.DialectChat, schemas.DialectResponses, schemas.DialectMessages} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, begun: %t", d, begun), func(t *testing.T) {
				t.Parallel()
				killInADialect(t, d, begun)
			})
		}
	}
}

func killInADialect(t *testing.T, d schemas.Dialect, begun bool) {
	t.Helper()
	said := llm.Say(d, "One two")
	say := func(w io.Writer, events ...string) {
		for _, e := range events {
			if kind := gjson.Get(e, "type").Str; kind != "" {
				fmt.Fprintf(w, "event: %s\n", kind)
			}
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
	var hits atomic.Int64
	asked := make(chan struct{}, 2)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		first := hits.Add(1) == 1
		if !first || begun {
			say(w, append(said.Begin, said.Pieces...)...)
			_ = http.NewResponseController(w).Flush()
		}
		asked <- struct{}{}
		if first {
			<-r.Context().Done()
			return
		}
		say(w, said.End...)
		if d == schemas.DialectChat {
			say(w, "[DONE]")
		}
	}))
	defer upstream.Close()
	config := configFile(t, fmt.Sprintf("models: {m: {url: %q, price: {input: 1, output: 1}}}\nbudgets: {all: {tokens: 100000}}\n", upstream.URL))
	dir := t.TempDir()
	w := serve(t, dir, "--config", config, "--durability", "process")
	ask := func() (*http.Response, error) {
		body := `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"Say it."}]}`
		if d == schemas.DialectResponses {
			body = `{"model":"m","stream":true,"max_output_tokens":100,"input":"Say it."}`
		}
		return post(t.Context(), http.DefaultClient, w.URL+d.Route(), body, "Idempotency-Key", "k")
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
	failure := map[schemas.Dialect]string{schemas.DialectChat: `"code":"INTERRUPTED"`, schemas.DialectResponses: "response.failed", schemas.DialectMessages: "error"}
	assert.Contains(t, string(all[len(seen):]), failure[d])
}
