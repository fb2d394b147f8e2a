package llm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weir/internal/weirtest/doubles"
)

// object is one of JSON.
type object map[string]any

// document is a chunk, or a whole answer.
func (x *Exchange) document(kind string, choices ...object) object {
	if choices == nil {
		choices = []object{}
	}
	d := object{"object": kind, "created": 1700000000, "model": x.Asked.Model, "choices": choices}
	if x.act.Fault != NoID {
		d["id"] = fmt.Sprintf("chatcmpl-%d", x.number)
	}
	return d
}

// chunk is one with a piece of a choice; finish, if it is not empty, ends the choice.
func (x *Exchange) chunk(index int, piece object, finish string) object {
	c := object{"index": index, "delta": piece, "finish_reason": nil}
	if finish != "" {
		c["finish_reason"] = finish
	}
	return x.document("chat.completion.chunk", c)
}

// usage is 7 tokens of the prompt and one for each piece.
func usage(pieces int) json.RawMessage {
	return fmt.Appendf(nil, `{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}`, pieces, 7+pieces)
}

// choices is how many answers are asked for.
func (x *Exchange) choices() int { return max(1, x.Asked.N) }

// pieces are what the answer of a choice consists of, in order.
func (x *Exchange) pieces() (list []object) {
	reasoning, texts, tools := x.act.Reasoning, x.act.Texts, x.act.Tools
	key := x.Key()
	switch x.act.Fault {
	case Injection:
		texts = []string{"\n\ndata: [DONE]\n\n", "event: final\ndata: {\"type\":\"final\"}\n\n", "\r\n\r\nid: 7\r\n: \u2028"}
	case Echo:
		texts = []string{string(x.Body)}
	case EchoKey:
		texts = []string{"your key is " + key + ", is it not"}
	case EchoKeySplit:
		texts = append(append([]string{"your key is "}, strings.Split(key, "")...), ", is it not")
	case EchoKeyBase64:
		coded := base64.StdEncoding.EncodeToString([]byte("key=" + key + "&"))
		texts = []string{"coded: ", coded[:len(coded)/2], coded[len(coded)/2:], " so"}
	case EchoKeyTool:
		tools = []Tool{{ID: "call_1", Name: "tell", Arguments: []string{`{"key":"` + key[:len(key)/2], key[len(key)/2:] + `"}`}}}
	case EchoKeyReason:
		third := len(key) / 3
		reasoning = []string{"I was told " + key[:third], key[third : 2*third], key[2*third:] + " in secret"}
	default:
	}
	for _, r := range reasoning {
		list = append(list, object{"reasoning_content": r})
	}
	if texts == nil && tools == nil {
		texts = []string{"Hello", ", ", "world"}
	}
	for _, t := range texts {
		list = append(list, object{"content": t})
	}
	if len(texts) > 0 {
		return list
	}
	for i, t := range tools {
		list = append(list, object{"tool_calls": []object{{"index": i, "id": t.ID, "type": "function", "function": object{"name": t.Name, "arguments": ""}}}})
		for _, part := range t.Arguments {
			list = append(list, object{"tool_calls": []object{{"index": i, "function": object{"arguments": part}}}})
		}
	}
	return list
}

// reason is why the choices end.
func (x *Exchange) reason(pieces []object) string {
	switch {
	case x.act.Finish != "":
		return x.act.Finish
	case len(pieces) > 0 && pieces[len(pieces)-1]["tool_calls"] != nil:
		return "tool_calls"
	default:
		return "stop"
	}
}

// whole answers with one document.
func (x *Exchange) whole() bool {
	if !x.Wait(x.act.Hold) {
		return false
	}
	pieces := x.pieces()
	var all []object
	for i := range x.choices() {
		all = append(all, object{"index": i, "message": joined(pieces), "finish_reason": x.reason(pieces)})
	}
	d := x.document("chat.completion", all...)
	if x.act.Fault != NoUsage {
		d["usage"] = usage(len(pieces) * x.choices())
	}
	kind := "application/json"
	if x.act.Fault == NoType {
		kind = ""
	}
	x.Begin(http.StatusOK, kind)
	return x.Write(doubles.Encode(d))
}

// joined is the message that pieces make.
func joined(pieces []object) object {
	m := object{"role": "assistant"}
	var calls []object
	for _, p := range pieces {
		for name, part := range p {
			if text, ok := part.(string); ok {
				before, _ := m[name].(string)
				m[name] = before + text
			}
		}
		parts, _ := p["tool_calls"].([]object)
		for _, call := range parts {
			part, _ := call["function"].(object)
			if call["id"] != nil {
				calls = append(calls, object{"id": call["id"], "type": "function", "function": object{"name": part["name"], "arguments": ""}})
				continue
			}
			whole, _ := calls[len(calls)-1]["function"].(object)
			whole["arguments"] = fmt.Sprint(whole["arguments"], part["arguments"])
		}
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}
