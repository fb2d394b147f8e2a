package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// created is the time of every answer.
const created = 1700000000

// document is a chunk, or a whole answer.
type document struct {
	ID      string       `json:"id,omitempty"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []choice     `json:"choices"`
	Usage   *usage       `json:"usage,omitempty"`
	Error   *errorMember `json:"error,omitempty"`
}

type choice struct {
	Index   int      `json:"index"`
	Delta   *message `json:"delta,omitempty"`
	Message *message `json:"message,omitempty"`
	Finish  *string  `json:"finish_reason"`
}

type message struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Tools     []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int     `json:"index,omitempty"`
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

type errorMember struct {
	Code    any    `json:"code"`
	Message string `json:"message"`
}

// usageOf is 7 tokens of the prompt and one for each piece.
func usageOf(pieces int64) *usage { return &usage{Prompt: 7, Completion: pieces, Total: 7 + pieces} }

// encode is the JSON of v without HTML escapes.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("llm: not JSON: " + err.Error())
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func (x *Exchange) document(object string) document {
	d := document{Object: object, Created: created, Model: x.Asked.Model}
	if x.act.Fault != NoID {
		d.ID = fmt.Sprintf("chatcmpl-%d", x.number)
	}
	return d
}

// choices is how many answers are asked for.
func (x *Exchange) choices() int { return max(1, x.Asked.N) }

func chunk(x *Exchange, index int, m message, finish string) document {
	d := x.document("chat.completion.chunk")
	c := choice{Index: index, Delta: &m}
	if finish != "" {
		c.Finish = &finish
	}
	d.Choices = []choice{c}
	return d
}
