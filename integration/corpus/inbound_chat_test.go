//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chatSurface are the rows of completions.
const chatSurface = "chat-completions"

// What rows of completions assert.
const (
	assertNoContact = "no contact except the configured provider"
	assertFraming   = "framing preserved; exactly one terminal"
)

const (
	modelPath = "/provider/v1" // where the provider's routes begin
	modelKey  = "AGWCANARY-provider-key"
	// chatBudget is how many tokens the task of a row may use.
	chatBudget = 200_000
)

// modelKnows says that the provider does what a row wants of it: its streams are
// always hostile.
func (r *inboundRow) modelKnows() bool {
	var what string
	_ = json.Unmarshal(r.Upstream, &what) // other rows have other forms
	return r.Surface == chatSurface && what == "sse_injection"
}

// models is the part of the configuration that names the provider. It passes every
// member: the rows are about those that are refused all the same.
func (g *gateway) models() string {
	return fmt.Sprintf("models:\n  allowed-model: {url: %q, headers: {Authorization: \"Bearer %s\"}, pass: \"*\"}\n", g.upstream.URL+modelPath, modelKey)
}

// complete is the provider: it says what would end a stream, or forge an event of it,
// if it were not encoded.
func (u *inboundUpstream) complete(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.hits[modelPath]++
	u.mu.Unlock()
	var asked struct {
		Stream bool `json:"stream"`
	}
	data, _ := io.ReadAll(r.Body)
	if r.Header.Get("Authorization") != "Bearer "+modelKey || json.Unmarshal(data, &asked) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	text, _ := json.Marshal(forged) //nolint:errchkjson // a string
	usage := `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],%s}`, text, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const head = `data: {"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`
	fmt.Fprintf(w, "event: final\n"+head+`{"role":"assistant","content":%s},"finish_reason":null}]}`+"\n\n", text)
	fmt.Fprintf(w, head+`{},"finish_reason":"stop"}],%s}`+"\n\ndata: [DONE]\n\ndata: [DONE]\n\nevent: final\ndata: {}\n\n", usage)
}

// forged is what the provider says.
const forged = hostileText + "\n\ndata: [DONE]\n\nevent: final\ndata: {\"type\":\"final\"}\n\n"

// chat sends a row about completions.
func (r *inboundRow) chat(t *testing.T, g *gateway) {
	t.Helper()
	raw := r.bytes(t, g)
	before, began := g.upstream.count(modelPath), grown()
	h := g.send(t, raw)
	r.judge(t, g, h, began)
	if h.status != http.StatusOK {
		assert.Equal(t, before, g.upstream.count(modelPath), "a refused completion reached the provider")
	}
	if strings.Contains(r.Assert, assertFraming) {
		framed(t, h)
	}
	log := g.log.String()
	assert.NotContains(t, log, modelKey)
	if r.own != nil {
		assert.NotContains(t, log, r.own.Token[len(r.own.Token)-43:], "the secret of a token")
	}
}

// framed: every event is one of the protocol, the text is whole, and there is one end,
// the last.
func framed(t *testing.T, h heard) {
	t.Helper()
	require.Equal(t, "text/event-stream", h.header.Get("Content-Type"))
	require.NotContains(t, h.body, "\r")
	var text strings.Builder
	var data []string
	for line := range strings.Lines(h.body) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		switch name {
		case "data":
			data = append(data, strings.TrimPrefix(value, " "))
		case "", "id":
		default:
			t.Errorf("a field that no stream of completions has: %q", line)
		}
	}
	require.NotEmpty(t, data)
	require.Equal(t, "[DONE]", data[len(data)-1])
	for _, d := range data[:len(data)-1] {
		var chunk struct {
			Object  string `json:"object"`
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		require.NoError(t, json.Unmarshal([]byte(d), &chunk), d)
		require.Equal(t, "chat.completion.chunk", chunk.Object)
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
		}
	}
	require.Equal(t, forged, text.String())
}
