//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/llm"
)

// errorFirst is an error in the place of an answer.
func errorFirst(_ *house, x *llm.Exchange, of *voice) {
	doc := head(of, "chat.completion.chunk")
	doc["choices"], doc["error"] = []any{}, fullError(of.word("code"), of)["error"]
	if !x.Asked.Stream {
		x.Begin(http.StatusOK, "application/json")
		x.Write(jsonText(doc))
		return
	}
	x.Stream()
	x.Data(jsonText(doc))
	x.Done()
}

// errorMiddle is one behind the first of an answer.
func errorMiddle(_ *house, x *llm.Exchange, of *voice) {
	x.Stream()
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", message(of), nil))))
	doc := head(of, "chat.completion.chunk", choice(of, "delta", object{"content": of.text("content beside an error")}, of.word("finish")))
	doc["error"], doc["usage"] = fullError(502, of)["error"], usage(of)
	x.Data(jsonText(doc))
	x.Done()
}

// cutCompletion ends in the middle of an event, and lostCompletion with its connection.
func cutCompletion(_ *house, x *llm.Exchange, of *voice) {
	x.Stream()
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", message(of), nil))))
	x.Write(`data: {"id":"` + of.text("half an event"))
}

func lostCompletion(_ *house, x *llm.Exchange, of *voice) {
	x.Stream()
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", message(of), nil))))
	x.Reset()
}

func chatGarbage(_ *house, x *llm.Exchange, of *voice) {
	x.Begin(http.StatusOK, "application/json")
	x.Write(`{"` + of.text("garbage") + `":"` + of.text("half a document") + "\xff")
}

// holdsOn says a little and waits until the caller leaves.
func holdsOn(h *house, x *llm.Exchange, of *voice) {
	if x.Asked.Stream {
		x.Stream()
		x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", object{"content": of.text("before it holds on")}, nil))))
	}
	h.talking <- struct{}{}
	x.Await()
}

// pauses says a little, and the rest once it is let.
func pauses(h *house, x *llm.Exchange, of *voice) {
	x.Stream()
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", object{"content": of.text("before the pause")}, nil))))
	h.talking <- struct{}{}
	select {
	case <-h.goOn:
	case <-x.Gone():
		return
	}
	x.Data(jsonText(head(of, "chat.completion.chunk", choice(of, "delta", object{"content": of.text("behind the pause")}, "stop"))))
	x.Done()
}

// talksAtModel waits until one more completion has come to a model that waits.
func (h *house) talksAtModel() {
	h.t.Helper()
	select {
	case <-h.talking:
	case <-time.After(patience):
		assert.Fail(h.t, "the completion did not come to its model")
	}
}

// tellsAll tells everything that it was sent, the keys too, in every place that there is.
func tellsAll(_ *house, x *llm.Exchange, _ *voice) {
	var headers bytes.Buffer
	_ = x.Header.Write(&headers) // to memory: cannot fail
	secret := x.Header.Get("Authorization") + " " + x.Header.Get("X-Beside")
	parrot := func() *voice { return &voice{&garden{}, ""} }
	// Documents of ours in which the secrets stand in the place of each canary.
	told := func(doc object) string { return jsonText(replaced(doc, secret)) }
	body := object{"role": "assistant", "content": headers.String() + string(x.Body), "refusal": secret}
	if !x.Asked.Stream {
		x.Begin(http.StatusOK, "application/json; profile="+url.QueryEscape(secret))
		doc := head(parrot(), "chat.completion", choice(parrot(), "message", message(parrot()), "stop"), choice(parrot(), "message", body, "stop"))
		doc["usage"] = usage(parrot())
		x.Write(told(doc))
		return
	}
	x.Begin(http.StatusOK, "text/event-stream; name="+url.QueryEscape(secret))
	x.Write(": " + secret + "\nid: " + secret + "\n" + secret + ": " + secret + "\n\nevent: " + secret + "\ndata: " + secret + "\n\n")
	x.Data(told(head(parrot(), "chat.completion.chunk", choice(parrot(), "delta", message(parrot()), nil))))
	x.Data(told(head(parrot(), "chat.completion.chunk", choice(parrot(), "delta", body, nil))))
	x.Data(told(head(parrot(), "chat.completion.chunk", choice(parrot(), "delta", object{}, "stop"))))
	last := head(parrot(), "chat.completion.chunk")
	last["choices"], last["usage"] = []any{}, usage(parrot())
	x.Data(told(last))
	x.Done()
}

// replaced is a document with another text in the place of every canary, in names too.
func replaced(v any, text string) any {
	is := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(contentMark)) }
	switch v := v.(type) {
	case object:
		m := object{}
		for name, inner := range v {
			if is(name) {
				name = text + " " + name[len(name)-8:] // names differ
			}
			m[name] = replaced(inner, text)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = replaced(inner, text)
		}
		return list
	case string:
		if is(v) {
			return text
		}
	}
	return v
}

// tellsInPieces spells the keys over chunks, in each of the texts that readers join, in
// several forms, and all at once.
func tellsInPieces(_ *house, x *llm.Exchange, _ *voice) {
	key := strings.TrimPrefix(x.Header.Get("Authorization"), "Bearer ")
	beside := strings.TrimPrefix(x.Header.Get("X-Beside"), "Basic ")
	escaped, _ := json.Marshal(key) //nolint:errchkjson // a text
	lanes := []func(part string) object{
		func(p string) object { return object{"content": p} },
		func(p string) object { return object{"refusal": p} },
		func(p string) object { return object{"reasoning": p} },
		func(p string) object { return object{"reasoning_content": p} },
		func(p string) object { return object{"novel_text": p} },
		func(p string) object {
			return object{"reasoning_details": []any{object{"index": 0, "type": "reasoning.text", "text": p}}}
		},
		func(p string) object {
			return object{"tool_calls": []any{object{"index": 3, "function": object{"arguments": p}}}}
		},
		func(p string) object { return object{"function_call": object{"arguments": p}} },
	}
	texts := []string{
		"it is " + key + ", is it not", beside, base64.StdEncoding.EncodeToString([]byte("k=" + key)), url.QueryEscape(key + "&" + beside), string(escaped),
		base64.RawURLEncoding.EncodeToString([]byte(key)), `{"k":"` + key + `"}`, beside + key,
	}
	if !x.Asked.Stream {
		x.Begin(http.StatusOK, "application/json")
		var choices []any
		for i, text := range texts {
			choices = append(choices, object{"index": i, "message": lanes[i](text), "finish_reason": "stop"})
		}
		x.Write(jsonText(object{"object": "chat.completion", "model": "m", "choices": choices}))
		return
	}
	x.Stream()
	const size = 3
	for at := 0; at < 40*size; at += size {
		for i, text := range texts {
			if at < len(text) {
				x.Data(jsonText(object{"object": "chat.completion.chunk", "choices": []any{object{"index": i, "delta": lanes[i](text[at:min(at+size, len(text))]), "finish_reason": nil}}}))
			}
		}
	}
	for i := range texts {
		x.Data(jsonText(object{"object": "chat.completion.chunk", "choices": []any{object{"index": i, "delta": object{}, "finish_reason": "stop"}}}))
	}
	x.Done()
}

// saysAgain says the document that the conversation holds, in the way that it names.
func saysAgain(_ *house, x *llm.Exchange, _ *voice) {
	var list []struct {
		Content string `json:"content"`
	}
	var in struct {
		As  string          `json:"as"`
		Doc json.RawMessage `json:"doc"`
	}
	if json.Unmarshal(x.Asked.Messages, &list) != nil || json.Unmarshal([]byte(list[0].Content), &in) != nil {
		panic("nobody asks for that")
	}
	switch {
	case in.As == asRefusal:
		x.Begin(http.StatusUnprocessableEntity, "application/json")
		x.Write(string(in.Doc))
	case x.Asked.Stream && in.As == asProgress:
		x.Stream()
		x.Data(string(in.Doc))
		x.Finish("stop")
		x.Done()
	default:
		x.Begin(http.StatusOK, "application/json")
		x.Write(string(in.Doc))
	}
}
