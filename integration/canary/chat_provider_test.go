//go:build e2e

package canary_test

import (
	"fmt"
	"net/http"
	"strings"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// word is a canary of a place where a word of a closed set, or a name, belongs: it is one
// by its alphabet and by its length.
func (g *garden) word(class string) string {
	return g.add(canary{class: class, text: strings.ToLower(contentMark) + random(8)})
}

// provider is what the models say, with canaries of the model in every place.
func (h *house) provider() llm.Config {
	cfg := llm.Config{
		Key: h.g.secret("of a model"),
		Default: llm.Act{
			Texts: []string{h.g.plant("model text"), " ", h.g.plant("model more text")}, Reasoning: []string{h.g.plant("model reasoning")},
			Message: h.g.plant("model message"), Header: h.said("any"),
		},
		Models: map[string]llm.Act{},
	}
	for name, says := range map[string]func(h *house, x *llm.Exchange, of *voice){
		"full": fullCompletion, "tells": tellsAll, "split": tellsInPieces, "first": errorFirst, "middle": errorMiddle, "cut": cutCompletion, "lost": lostCompletion,
		"garbage": chatGarbage, "held": holdsOn, "paused": pauses, "repeats": saysAgain,
	} {
		of := &voice{h.g, "model " + name + " "}
		cfg.Models[name] = llm.Act{Header: h.said(name), Answer: func(x *llm.Exchange) { says(h, x, of) }}
	}
	for _, status := range refusals() {
		name := fmt.Sprintf("refuses-%d", status)
		of := &voice{h.g, "model " + name + " "}
		cfg.Models[name] = llm.Act{Header: h.said(name), Answer: func(x *llm.Exchange) {
			x.Begin(status, "application/json; profile="+of.text("media type"))
			x.Write(jsonText(fullError(status, of)))
		}}
	}
	return cfg
}

// said are the headers of a model's answers.
func (h *house) said(model string) map[string]string {
	of := voice{h.g, "model " + model + " header "}
	all := map[string]string{}
	for _, name := range []string{"X-Request-Id", "Openai-Organization", "Openai-Processing-Ms", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Reset-Tokens", "Set-Cookie", "Location", "X-Generation-Id", "Weir-Action-Id"} {
		all[name] = of.text(name)
	}
	all[of.text("name")] = "value"
	all["Retry-After"] = of.text("Retry-After")
	return all
}

// voice plants canaries of one class of places.
type voice struct {
	g     *garden
	class string
}

func (v *voice) text(place string) string { return v.g.plant(v.class + place) }
func (v *voice) word(place string) string { return v.g.word(v.class + place) }

// chatWires sets what models say that are no more than wire.
func (h *house) chatWires() {
	for path, b := range map[string]upstream.Behaviour{
		"wire": upstream.Raw(fullAnswer(h.g, "model wire", http.StatusOK)), "bad": upstream.Raw(fullAnswer(h.g, "model wire bad", http.StatusInternalServerError)),
		"away":   upstream.Redirect(http.StatusTemporaryRedirect, "http://elsewhere.example/"+h.g.plant("model location")),
		"talk":   upstream.Raw("SPEAKS " + h.g.plant("model talk") + "\r\n\r\n"),
		"short":  upstream.Raw("HTTP/1.1 200 " + h.g.plant("model short reason") + "\r\nContent-Length: 9999\r\n\r\n{\"id\":\"" + h.g.plant("model short body")),
		"coding": upstream.Encoding(h.g.plant("model coding"), h.g.plant("model coded")),
	} {
		h.plain.Handle("/model/"+path+schemas.RouteChat, b)
	}
}

// fullError is an error with a canary in every place that any provider has.
func fullError(code any, of *voice) object {
	return object{
		"error": object{
			"message": of.text("error message"), "type": of.word("error type"), "param": of.text("error param"), "code": code, of.text("error key"): of.text("error value"),
			"metadata": object{"raw": of.text("raw error"), "provider_name": of.text("provider's name"), "code": of.word("metadata's code"), of.text("metadata key"): of.text("metadata value")},
		},
		"user_id": of.text("user of an error"), of.text("key beside an error"): of.text("value beside an error"),
	}
}

// head is what a chunk and a whole answer begin with.
func head(of *voice, kind string, choices ...any) object {
	return object{
		"id": of.word("id"), "object": kind, "created": 1700000000, "model": "models/" + of.word("own name"), "system_fingerprint": of.word("fingerprint"), "service_tier": of.word("tier"),
		"provider": of.text("provider"), of.text("key"): object{of.text("deep key"): []any{of.text("deep")}}, "choices": choices,
	}
}

// message has every member that a message or a delta is known to have.
func message(of *voice) object {
	return object{
		"role": of.word("role"), "content": of.text("content"), "refusal": of.text("refusal"), "reasoning": of.text("reasoning"), "reasoning_content": of.text("reasoning content"),
		"reasoning_details": []any{object{"type": of.word("detail type"), "text": of.text("detail"), "signature": of.text("signature"), of.text("detail key"): 1}},
		"tool_calls": []any{object{
			"index": 0, "id": of.word("call id"), "type": of.word("call type"), of.text("call key"): of.text("call value"),
			"function": object{"name": of.word("function name"), "arguments": jsonText(object{of.text("argument name"): of.text("argument")})},
		}},
		"function_call":        object{"name": of.word("old function"), "arguments": of.text("old argument")},
		"annotations":          []any{object{"type": "url_citation", "url_citation": object{"url": "http://cited.example/" + of.text("citation"), "title": of.text("title")}}},
		"audio":                object{"id": of.word("audio id"), "data": of.text("audio"), "transcript": of.text("transcript")},
		"images":               []any{object{"image_url": object{"url": of.text("image")}}},
		of.text("message key"): of.text("message value"), of.text("object key"): object{of.text("inner key"): of.text("inner")},
	}
}

func logprobs(of *voice) object {
	return object{"content": []any{object{"token": of.text("token"), "logprob": -0.5, "bytes": []any{65}, "top_logprobs": []any{object{"token": of.text("other token"), "logprob": -1}}}}, "refusal": nil}
}

// usage counts, and says more than counts.
func usage(of *voice) object {
	return object{
		"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16, "cost": 0.25, of.text("usage key"): of.text("usage value"), "is_byok": of.text("usage word"),
		"prompt_tokens_details": object{"cached_tokens": 3, of.text("prompt detail"): 1}, "completion_tokens_details": object{"reasoning_tokens": 2, of.text("completion detail"): of.text("detail value")},
	}
}

// choice is one with a part of an answer; how is delta or message.
func choice(of *voice, how string, part object, finish any) object {
	return object{
		"index": 0, how: part, "logprobs": logprobs(of), "finish_reason": finish, "native_finish_reason": of.word("native reason"), of.text("choice key"): of.text("choice value"),
		"content_filter_results": object{of.text("filter"): object{"severity": of.word("severity")}},
	}
}

// fullCompletion has a canary wherever the protocol and HTTP let one stand.
func fullCompletion(_ *house, x *llm.Exchange, of *voice) {
	if !x.Asked.Stream {
		x.Begin(http.StatusOK, "application/json; profile="+of.text("media type"))
		doc := head(of, "chat.completion", choice(of, "message", message(of), of.word("finish")))
		doc["usage"] = usage(of)
		x.Write(jsonText(doc))
		return
	}
	x.Begin(http.StatusOK, "text/event-stream; name="+of.text("stream type"))
	x.Write(": " + of.text("comment") + "\nretry: " + of.text("retry") + "\n\nid: " + of.text("event id") + "\n" + of.text("field") + ": " + of.text("field value") + "\n\n")
	x.Write("event: " + of.text("event name") + "\ndata: " + of.text("data of an event with a name") + "\n\n")
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", message(of), nil))))
	x.Write("event: message\nid: " + of.text("id of a chunk") + "\ndata: " + jsonText(head(of, of.word("kind of a chunk"), choice(of, "delta", object{"content": of.text("more content")}, nil))) + "\r\n\r\n")
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", object{}, of.word("finish")))))
	last := head(of, "chat.completion.chunk")
	last["choices"], last["usage"] = []any{}, usage(of)
	x.Data(jsonText(last))
	x.Done()
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", object{"content": of.text("content behind the end")}, nil))))
}
