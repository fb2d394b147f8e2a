//go:build e2e

package canary_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// talker is a model that says a little of each answer and then waits for ever, and a
// collector that takes no span, for a program that dies in the middle of both.
type talker struct {
	t         *testing.T
	g         *garden
	llm       *llm.Server
	collector *collector
	talking   chan struct{}
}

func newTalker(t *testing.T, g *garden) *talker {
	t.Helper()
	k := &talker{t: t, g: g, talking: make(chan struct{}, 16), collector: collect(t, g)}
	of := &voice{g, "model of a crash "}
	k.llm = llm.New(t, llm.Config{Key: g.secret("crash secret"), Default: llm.Act{Answer: func(x *llm.Exchange) {
		if x.Asked.Stream {
			x.Stream()
			x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", message(of), nil))))
		}
		k.talking <- struct{}{}
		x.Await()
	}}})
	return k
}

// text is their part of the configuration.
func (k *talker) text() string {
	return fmt.Sprintf(`models:
  talker: {url: %q, network: loopback, headers: {Authorization: "Bearer ${secret:UP}"}, price: {input: 1, output: 2}}
budgets:
  all: {per: [token], requests: 1000, tokens: 100000000, usd: 1000}
`, k.llm.URL())
}

// begin begins a completion, and returns its id once its model is at it. A stream is as
// far as its first chunk.
func (k *talker) begin(p *person, class string, stream bool) string {
	k.t.Helper()
	doc := object{"model": "talker", "stream": stream, "messages": []any{object{"role": "user", "content": k.g.plant(class)}}, "metadata": object{k.g.plant(class+" key") + "-z": k.g.plant(class + " value")}}
	header := []string{"Authorization", "Bearer " + p.token, "Content-Type", "application/json", "Idempotency-Key", k.g.plant(class + " idempotency key")}
	if !stream {
		header = append(header, "Prefer", "respond-async")
	}
	id := k.open(p, p.h.jsonOf(doc), header)
	k.wait()
	return id
}

// wait returns once one more completion has come to its model.
func (k *talker) wait() {
	k.t.Helper()
	select {
	case <-k.talking:
	case <-time.After(patience):
		k.t.Fatal("the completion did not come to its model")
	}
}

// open returns when the head of the answer is there; the rest of it is left to the end of
// the program.
func (k *talker) open(p *person, body string, header []string) string {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, p.h.at+schemas.RouteChat, strings.NewReader(body))
	require.NoError(k.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = resp.Body.Close() })
	assert.Less(k.t, resp.StatusCode, http.StatusBadRequest)
	return resp.Header.Get(schemas.HeaderGeneration)
}
