package completion

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// The types of the events of DialectMessages, and a whole answer's type.
const (
	messageStart = "message_start"
	messageDelta = "message_delta"
	messageStop  = "message_stop"
	blockStart   = "content_block_start"
	blockDelta   = "content_block_delta"
	blockStop    = "content_block_stop"
	kindMessage  = "message"
)

// readMessage reads an event, or a message.
func readMessage(name string, data []byte) (Chunk, error) {
	event, c, err := open(name, data, schemas.DialectMessages)
	if err != nil {
		return Chunk{}, err
	}
	usage := event.Get("usage")
	switch c.Type {
	case messageStart:
		usage = object(event.Get("message")).Get("usage")
	case messageStop, kindMessage:
		c.Last = true
	}
	c.rawUsage, c.Usage = object(usage).Raw, readUsage(schemas.DialectMessages, usage)
	return c, nil
}

// namedMessage is a message with an id.
func namedMessage(message json.RawMessage, o Options) json.RawMessage {
	if o.ID == "" {
		return message
	}
	return identified(message, "msg_"+o.ID)
}

// messageAnswer is a message so far.
type messageAnswer struct {
	tally

	head   node // the message of message_start, with what the last events report
	blocks node // objects
	began  bool
}

// noStart replaces a missing message_start.
const noStart = `{"type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null}`

func newMessageAnswer(o Options) Answer {
	return &messageAnswer{
		tally: tally{options: o}, head: node{kind: kindObject, buf: []byte(noStart)}, blocks: node{kind: kindElements},
	}
}

// Add takes the usage alone of an event with a fault.
func (a *messageAnswer) Add(c Chunk) {
	if c.Fault == nil && !c.Blank {
		a.add(c.Type, Parse(c.Raw))
	}
	if c.rawUsage != "" { // each count is a total so far
		used := a.head.member("usage")
		used.become(kindObject)
		for name, v := range Parse([]byte(c.rawUsage)).All() {
			used.member(name.Str).last(v)
		}
		a.report(readUsage(schemas.DialectMessages, Parse(used.write(nil))))
	}
}

func (a *messageAnswer) add(kind string, event gjson.Result) {
	switch kind {
	case messageStart:
		if v := event.Get("message"); v.IsObject() {
			a.head.buf, a.began = []byte(v.Raw), true
		}
	case kindMessage: // a whole one
		a.head.buf, a.began = []byte(event.Raw), true
		for _, block := range array(event.Get("content")).All() {
			a.text += blockText(block)
		}
	case messageDelta:
		a.change(event)
		a.change(object(event.Get("delta")))
	case blockStart, blockDelta:
		b := a.blocks.element(indexOf(event, 0), maxChoices)
		if kind == blockDelta {
			a.text += b.piece(object(event.Get("delta")))
			return
		}
		v := object(event.Get("content_block"))
		b.begin(v)
		a.text += blockText(v)
	}
}

// blockText counts the bytes of text in a block.
func blockText(v gjson.Result) int64 {
	text := textOfMembers(v, "text", "thinking", "data")
	if v.Get("input").Type == gjson.JSON {
		text += textOfMembers(v, "input")
	}
	return text
}

// change sets the members of the message that its last events report.
func (a *messageAnswer) change(v gjson.Result) {
	for name, v := range v.All() {
		switch name.Str {
		case "type", "usage", "content", "delta":
		default:
			a.head.member(name.Str).last(v)
		}
	}
}

// piece adds a delta to a block, and returns how many bytes of text it has.
func (n *node) piece(delta gjson.Result) (text int64) {
	n.become(kindObject)
	switch kind := delta.Get("type").Str; kind {
	case "input_json_delta":
		if v := delta.Get("partial_json"); v.Type == gjson.String {
			return n.member("input").input(inner(v))
		}
	case "signature_delta":
		if v := delta.Get("signature"); v.Exists() {
			n.member("signature").last(v)
		}
	case "citations_delta":
		if v := delta.Get("citation"); v.Exists() {
			n.member("citations").elements(v.Raw)
		}
	default: // an unknown type is read like those of texts
		for name, v := range delta.All() {
			known := kind == "text_delta" || kind == "thinking_delta"
			if v.Type == gjson.String && name.Str != "type" && (!known || name.Str+"_delta" == kind) {
				text += n.member(name.Str).text(inner(v))
			}
		}
	}
	return text
}

// Give drops pings.
func (a *messageAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	switch c.Type {
	case messageStart:
		if message := Parse(c.Raw).Get("message"); message.IsObject() {
			return put(c.Raw, "message", namedMessage(json.RawMessage(message.Raw), a.options)), true
		}
	case kindMessage:
		return namedMessage(c.Raw, a.options), true
	}
	return c.Raw, !c.Blank
}

// Reasons maps the stop reason to a finish reason of chat completions.
func (a *messageAnswer) Reasons() []string {
	n := a.head.member("stop_reason")
	if !n.says() {
		return nil
	}
	switch Parse(n.buf).Str {
	case "end_turn", "stop_sequence":
		return []string{"stop"}
	case "max_tokens", "model_context_window_exceeded":
		return []string{"length"}
	case "tool_use":
		return []string{"tool_calls"}
	case "refusal":
		return []string{"content_filter"}
	}
	return []string{schemas.ChatReason("")}
}

func (a *messageAnswer) Size() int64 { return a.head.size() + a.blocks.size() }

// Document is the message so far. Its members have the order of message_start. Without any blocks
// its content stays.
func (a *messageAnswer) Document() json.RawMessage {
	if !a.began && len(a.blocks.list) == 0 {
		return nil
	}
	doc := a.head.write(nil)
	if len(a.blocks.list) > 0 || !Parse(doc).Get("content").Exists() {
		doc = put(doc, "content", a.blocks.write(nil))
	}
	return namedMessage(doc, a.options)
}
