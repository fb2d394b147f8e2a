//go:build e2e

package canary_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// chatRoute is the route of completions in one of its spellings.
func (h *house) chatRoute() string {
	bases := schemas.ChatBases()
	return bases[int(h.chats.Add(1))%len(bases)] + schemas.RouteChat
}

// brief is a conversation of a few words.
func (h *house) brief(class, model string, stream bool) object {
	return object{"model": model, "stream": stream, "messages": []any{object{"role": "user", "content": h.g.plant(class)}}}
}

// conversation has a canary in all that a request can have.
func (h *house) conversation(class, model string, stream bool) object {
	of := func(place string) string { return h.g.plant(class + " " + place) }
	name := func(place string) string { return of(place) + "-z" } // its end must not look like that of a name that is refused
	doc := object{
		"model": model, "messages": []any{
			object{"role": "system", "content": of("system"), "name": of("name")},
			object{"role": "user", "content": []any{
				object{"type": "text", "text": of("text part")},
				object{"type": "image_url", "image_url": object{"url": "http://images.example/" + of("image path") + "?" + of("image query")}},
				object{"type": "input_audio", "input_audio": object{"data": of("audio"), "format": of("audio format")}},
				object{"type": "file", "file": object{"filename": of("filename"), "file_data": of("file")}},
			}},
			object{"role": "assistant", "content": nil, "refusal": of("refusal"), "reasoning": of("reasoning"), "tool_calls": []any{
				object{"id": of("call id"), "type": "function", "function": object{"name": of("called"), "arguments": jsonText(object{of("argument name"): of("argument")})}},
			}, name("message key"): of("message value")},
			object{"role": "tool", "tool_call_id": of("tool call id"), "content": of("tool's answer")},
		},
		"tools": []any{object{"type": "function", "function": object{
			"name": of("tool"), "description": of("tool description"), "parameters": object{"type": "object", "properties": object{of("parameter"): object{"enum": []any{of("enum")}}}},
		}}},
		"tool_choice": object{"type": "function", "function": object{"name": of("chosen tool")}}, "functions": []any{object{"name": of("function"), "description": of("function description")}},
		"response_format": object{"type": "json_schema", "json_schema": object{"name": of("format"), "schema": object{"title": of("format title")}}},
		"stop":            []any{of("stop")}, "user": of("user"), "safety_identifier": of("safety"), "prompt_cache_key": of("cache key"), "service_tier": of("tier"),
		"metadata": object{name("metadata key"): of("metadata")}, "logit_bias": object{of("bias"): 1}, "prediction": object{"type": "content", "content": of("prediction")},
		"reasoning_effort": of("effort"), "web_search_options": object{"user_location": object{"city": of("city")}}, "provider": object{"order": []any{of("provider order")}},
		name("unknown member"): object{name("unknown inner"): []any{of("unknown value"), 1.50}}, "temperature": 0.20, "max_tokens": 20000, "n": 1, "models": []any{h.g.word(class + " further model")},
	}
	if stream {
		doc["stream"], doc["stream_options"] = true, object{"include_usage": true}
	}
	return doc
}

// inAllOf are places of a conversation that the model must have got.
func inAllOf() []string {
	return []string{
		"system", "name", "text part", "image path", "image query", "audio", "filename", "file", "refusal", "reasoning", "call id", "called", "argument name", "argument", "message key", "message value",
		"tool call id", "tool's answer", "tool", "tool description", "parameter", "enum", "chosen tool", "function", "format", "format title", "stop", "user", "safety", "cache key", "metadata key", "metadata",
		"bias", "prediction", "effort", "city", "provider order", "unknown member", "unknown inner", "unknown value",
	}
}

// chatHeaders are what clients send beside a completion, each with a canary.
func (h *house) chatHeaders(class string) []string {
	of := func(name string) string { return h.g.plant(class + " header " + name) }
	list := []string{"Idempotency-Key", of("Idempotency-Key")}
	for _, name := range []string{
		"User-Agent", "Referer", "X-Title", "Openai-Organization", "Openai-Project", "Openai-Beta", "X-Stainless-Os", "X-Api-Key", "Api-Key", "Cookie",
		"Tracestate", "Baggage", "Accept", "X-Forwarded-For", "X-Generation-Id", "Weir-Action-Id",
	} {
		list = append(list, name, of(name))
	}
	return append(list, h.g.plant(class+" header's name"), "v", "X-Request-ID", of("X-Request-ID")+" b", "Traceparent", of("Traceparent"))
}

// completions have every model say what it does, as a whole and as a stream.
func (h *house) completions() {
	h.chatWires()
	var group sync.WaitGroup
	for i, list := range [][]asked{append(chatEnds(), faults()...), streamEnds()} {
		for _, a := range list {
			group.Go(func() {
				for _, stream := range []bool{false, true}[i:] {
					class := fmt.Sprintf("chat %s %v", a.model, stream)
					doc := h.conversation(class, a.model, stream)
					if i == 1 { // what is cut off has no bound of its own
						delete(doc, "max_tokens")
					}
					_, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(doc), h.chatHeaders(class)...)
					assert.Contains(h.t, text, a.end, "%s", class)
					if a.model == "any/tells" || a.model == "any/split" {
						assert.Contains(h.t, text, "REDACTED", "%s: it did not tell", class)
					}
				}
			})
		}
	}
	group.Wait()
}

// faults are what else is wrong with answers, whatever they end with.
func faults() (list []asked) {
	for _, f := range llm.Faults() {
		switch f {
		case llm.Endless, llm.Hang, llm.HangOpen, llm.HangMid: // they have models of their own
		default:
			list = append(list, asked{model: "any/" + string(f)})
		}
	}
	return list
}

// chatPlaces send completions with a canary in one place of the published schema and
// nowhere else.
func (h *house) chatPlaces(places []place) {
	for _, p := range places {
		for _, stream := range []bool{false, true} {
			text := h.g.plant(fmt.Sprintf("ChatRequest %s %v", p, stream))
			base := object{"model": "any/fine", "stream": stream, "messages": []any{object{"role": "user", "content": "c"}}}
			status, answer := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(p.put(base, text)))
			assert.NotEqual(h.t, http.StatusUnauthorized, status, answer)
			if p.bounded {
				assert.Equal(h.t, http.StatusBadRequest, status, "%s: %s", p, answer)
			}
		}
	}
}

// modelPlaces have a model say every document of the protocol with a canary in one place
// of it: as a whole answer, as a chunk, and as a refusal.
func (h *house) modelPlaces() {
	choices := []any{object{"index": 0, "message": object{"role": "assistant", "content": "c"}, "delta": object{"content": "c"}, "finish_reason": "stop"}}
	for _, d := range []struct {
		schema, form string
		base         object
		as           []string
	}{
		{"chat.completion", "ChatCompletion", object{"id": "i", "object": "chat.completion", "choices": choices}, []string{asResponse, asProgress}},
		{"chat.refusal", "ChatRefusal", object{"error": object{"message": "m", "type": "t", "param": "p", "code": "c", "metadata": object{}}}, []string{asResponse, asProgress, asRefusal}},
	} {
		for _, p := range placesOf(h.t, d.schema)[d.form] {
			for _, as := range d.as {
				for _, stream := range []bool{false, true} {
					class := fmt.Sprintf("model says %s %s as %s %v", d.form, p, as, stream)
					said := h.jsonOf(object{"as": as, "doc": p.put(d.base, h.g.plant(class))})
					doc := object{"model": "any/repeats", "stream": stream, "messages": []any{object{"role": "user", "content": said}}}
					status, answer := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(doc))
					assert.NotEqual(h.t, http.StatusBadRequest, status, answer)
				}
			}
		}
	}
}

// modelNames are names that a caller makes up, of models that a pattern stands for: they
// are in evidence, in spans and in the accounts of budgets, and nowhere else.
func (h *house) modelNames() {
	for _, name := range []string{h.g.word("model's name"), h.g.plant("model's name with capitals"), "deep/" + h.g.word("model's last part")} {
		for _, stream := range []bool{false, true} {
			status, text := h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("asked of a named model", "named/"+name, stream)))
			assert.Equal(h.t, http.StatusOK, status, text)
			h.owner.ask(http.MethodPost, h.chatRoute(), h.jsonOf(h.brief("asked of no model", name, stream)))
		}
		for _, base := range schemas.ChatBases() {
			h.owner.ask(http.MethodGet, base+schemas.RouteModels+"/named/"+name, "")
			h.owner.ask(http.MethodGet, base+schemas.RouteModels+"/"+name, "")
			h.nobody.ask(http.MethodGet, base+schemas.RouteModels+"/"+name, "")
		}
	}
	for _, base := range schemas.ChatBases() {
		for _, p := range []*person{h.owner, h.stranger, h.nobody} {
			p.ask(http.MethodGet, base+schemas.RouteModels+"?"+h.g.plant("query of models")+"=1", "", "X-Models", h.g.plant("header of models"))
		}
	}
}

// spoken is what came to the models.
func (h *house) spoken() string {
	var b strings.Builder
	for _, r := range h.llm.Ledger() {
		fmt.Fprintf(&b, "%s %s\n", r.Method, r.Path)
		_ = r.Header.Write(&b) // to memory: cannot fail
		b.Write(r.Body)
		b.WriteByte('\n')
	}
	return b.String()
}

// with is a document with more members.
func with(doc, more object) object {
	doc = maps.Clone(doc)
	maps.Copy(doc, more)
	return doc
}
