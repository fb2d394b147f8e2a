package llm

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// pieces are what the answer of a choice consists of, in order.
func (x *Exchange) pieces() []message {
	var list []message
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
		list = append(list, message{Reasoning: r})
	}
	if texts == nil && tools == nil {
		texts = []string{"Hello", ", ", "world"}
	}
	for _, t := range texts {
		list = append(list, message{Content: &t})
	}
	if len(texts) > 0 {
		return list
	}
	for i, t := range tools {
		list = append(list, message{Tools: []toolCall{{Index: &i, ID: t.ID, Type: "function", Function: function{Name: t.Name}}}})
		for _, part := range t.Arguments {
			list = append(list, message{Tools: []toolCall{{Index: &i, Function: function{Arguments: part}}}})
		}
	}
	return list
}

// reason is why the choices end.
func (x *Exchange) reason(pieces []message) string {
	switch {
	case x.act.Finish != "":
		return x.act.Finish
	case len(pieces) > 0 && pieces[len(pieces)-1].Tools != nil:
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
	finish := x.reason(pieces)
	d := x.document("chat.completion")
	for i := range x.choices() {
		m := joined(pieces)
		d.Choices = append(d.Choices, choice{Index: i, Message: &m, Finish: &finish})
	}
	if x.act.Fault != NoUsage {
		d.Usage = usageOf(int64(len(pieces) * x.choices()))
	}
	kind := "application/json"
	if x.act.Fault == NoType {
		kind = ""
	}
	x.Begin(http.StatusOK, kind)
	return x.Write(encode(d))
}

// joined is the message that pieces make.
func joined(pieces []message) message {
	m := message{Role: "assistant"}
	for _, p := range pieces {
		m.Reasoning += p.Reasoning
		if p.Content != nil {
			text := *p.Content
			if m.Content != nil {
				text = *m.Content + text
			}
			m.Content = &text
		}
		for _, t := range p.Tools {
			if t.ID != "" {
				t.Index = nil
				m.Tools = append(slices.Clone(m.Tools), t)
				continue
			}
			m.Tools[len(m.Tools)-1].Function.Arguments += t.Function.Arguments
		}
	}
	return m
}
