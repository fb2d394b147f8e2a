//go:build e2e

package integration_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"
)

// provider is a scripted upstream of Responses, Messages and embeddings.
type provider struct {
	*httptest.Server
	script func(r providerRequest) providerAnswer

	mu       sync.Mutex
	requests []providerRequest
}

// providerRequest is one that the upstream received.
type providerRequest struct {
	Path   string
	Header http.Header
	Body   gjson.Result
}

// providerAnswer is what it answers: an error with a status, or the output of a model.
type providerAnswer struct {
	Status int
	Error  string // document of an error
	// Output are output items of Responses, or content blocks of Messages.
	Output []map[string]any
}

// newProvider starts one that requires a key, and that answers as the script does.
func newProvider(t *testing.T, script func(r providerRequest) providerAnswer) *provider {
	t.Helper()
	p := &provider{script: script}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(t, w, r) }))
	t.Cleanup(p.Close)
	return p
}

// received are the posted requests to a path; "" are all.
func (p *provider) received(path string) (all []providerRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if path == "" || r.Path == path {
			all = append(all, r)
		}
	}
	return all
}

func (p *provider) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	assert.NoError(t, err) //nolint:testifylint // it is not the goroutine of the test
	req := providerRequest{Path: r.URL.Path, Header: r.Header, Body: gjson.ParseBytes(data)}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet { // Weir reads the list by itself
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim/one","object":"model","created":1764000000,"owned_by":"sim"}]}`)
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, req)
	p.mu.Unlock()
	if key := cmp.Or(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("X-Api-Key")); key != providerKey {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	answer := p.script(req)
	if answer.Status != 0 {
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Error)
		return
	}
	stream := req.Body.Get("stream").Bool()
	switch req.Path {
	case "/v1/responses":
		events := responseEvents(req.Body, answer.Output)
		write(w, stream, events, events[len(events)-1]["response"])
	case "/v1/messages":
		events, message := messageEvents(req.Body, answer.Output)
		write(w, stream, events, message)
	case "/v1/messages/count_tokens":
		_, _ = io.WriteString(w, `{"input_tokens":42}`)
	case "/v1/embeddings":
		vector := `[0.5,-1]`
		if req.Body.Get("encoding_format").Str == "base64" {
			vector = `"AAAAPwAAgL8="` // the same two numbers
		}
		fmt.Fprintf(w, `{"object":"list","model":"embed-1","data":[{"object":"embedding","index":0,"embedding":%s}],"usage":{"prompt_tokens":2,"total_tokens":2}}`, vector)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// write writes the events as a stream, or the document that they are about.
func write(w http.ResponseWriter, stream bool, events []map[string]any, document any) {
	if !stream {
		_, _ = w.Write(encoded(document))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], encoded(e))
		_ = http.NewResponseController(w).Flush()
	}
}

// responseEvents is an answer of Responses. Texts and arguments arrive in pieces.
func responseEvents(body gjson.Result, output []map[string]any) (events []map[string]any) {
	response := func(status string, output []map[string]any, usage any) map[string]any {
		return map[string]any{
			"id": "resp_of_the_provider", "object": "response", "created_at": 1764000000, "status": status, "error": nil,
			"incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "model": body.Get("model").Str,
			"output": output, "parallel_tool_calls": true, "previous_response_id": body.Get("previous_response_id").Value(),
			"store": false, "temperature": 1, "tool_choice": "auto", "tools": []any{}, "top_p": 1, "usage": usage,
		}
	}
	add := func(name string, more map[string]any) {
		more["type"], more["sequence_number"] = name, len(events)
		events = append(events, more)
	}
	none := []map[string]any{}
	add("response.created", map[string]any{"response": response("in_progress", none, nil)})
	add("response.in_progress", map[string]any{"response": response("in_progress", none, nil)})
	for i, item := range output {
		id := item["id"]
		switch item["type"] {
		case "message":
			text := item["content"].([]map[string]any)[0]["text"].(string) //nolint:errcheck,forcetypeassert // see say
			add("response.output_item.added", map[string]any{"output_index": i, "item": map[string]any{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": none}})
			add("response.content_part.added", map[string]any{"item_id": id, "output_index": i, "content_index": 0, "part": map[string]any{"type": "output_text", "text": "", "annotations": none}})
			for piece := range slices.Chunk([]byte(text), 6) {
				add("response.output_text.delta", map[string]any{"item_id": id, "output_index": i, "content_index": 0, "delta": string(piece), "logprobs": none})
			}
			add("response.output_text.done", map[string]any{"item_id": id, "output_index": i, "content_index": 0, "text": text, "logprobs": none})
			add("response.content_part.done", map[string]any{"item_id": id, "output_index": i, "content_index": 0, "part": map[string]any{"type": "output_text", "text": text, "annotations": none}})
		case "function_call":
			arguments := item["arguments"].(string) //nolint:errcheck,forcetypeassert // see callFunction
			add("response.output_item.added", map[string]any{"output_index": i, "item": map[string]any{"type": "function_call", "id": id, "call_id": item["call_id"], "name": item["name"], "status": "in_progress", "arguments": ""}})
			for piece := range slices.Chunk([]byte(arguments), 16) {
				add("response.function_call_arguments.delta", map[string]any{"item_id": id, "output_index": i, "delta": string(piece)})
			}
			add("response.function_call_arguments.done", map[string]any{"item_id": id, "output_index": i, "name": item["name"], "arguments": arguments})
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	usage := map[string]any{
		"input_tokens": 100, "input_tokens_details": map[string]any{"cached_tokens": 20},
		"output_tokens": 10, "output_tokens_details": map[string]any{"reasoning_tokens": 2}, "total_tokens": 110,
	}
	add("response.completed", map[string]any{"response": response("completed", output, usage)})
	return events
}

func messageUsage(output int) map[string]any {
	return map[string]any{"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": output, "service_tier": "standard"}
}

// messageEvents is an answer of Messages, with a ping as its provider sends them, and the same
// answer as one document.
func messageEvents(body gjson.Result, blocks []map[string]any) (events []map[string]any, document map[string]any) {
	add := func(name string, more map[string]any) {
		more["type"] = name
		events = append(events, more)
	}
	message := func(content, stop any, tokens int) map[string]any {
		return map[string]any{
			"id": "msg_1", "type": "message", "role": "assistant", "model": body.Get("model").Str, "content": content,
			"stop_reason": stop, "stop_sequence": nil, "usage": messageUsage(tokens),
		}
	}
	add("message_start", map[string]any{"message": message([]any{}, nil, 1)})
	add("ping", map[string]any{})
	stop := "end_turn"
	for i, block := range blocks {
		if block["type"] == "text" {
			add("content_block_start", map[string]any{"index": i, "content_block": map[string]any{"type": "text", "text": ""}})
			for piece := range slices.Chunk([]byte(block["text"].(string)), 6) { //nolint:errcheck,forcetypeassert // see sayBlock
				add("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "text_delta", "text": string(piece)}})
			}
		} else {
			stop = "tool_use"
			add("content_block_start", map[string]any{"index": i, "content_block": map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}})
			for piece := range slices.Chunk(encoded(block["input"]), 16) {
				add("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(piece)}})
			}
		}
		add("content_block_stop", map[string]any{"index": i})
	}
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": messageUsage(12)})
	add("message_stop", map[string]any{})
	return events, message(blocks, stop, 12)
}

// encoded is the JSON of what a script has written.
func encoded(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// say is a message of Responses, and sayBlock a text of Messages.
func say(text string) map[string]any {
	return map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []map[string]any{{"type": "output_text", "text": text, "annotations": []any{}}}}
}

func sayBlock(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// callFunction is a call of a function in Responses, and useTool one of a tool in Messages.
func callFunction(id, name string, arguments any) map[string]any {
	return map[string]any{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": name, "status": "completed", "arguments": string(encoded(arguments))}
}

func useTool(id, name string, input any) map[string]any {
	return map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}
}
