package completion

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// The types of the events of DialectMessages.
const (
	messageStart = "message_start"
	messageDelta = "message_delta"
	messageStop  = "message_stop"
	blockStart   = "content_block_start"
	blockDelta   = "content_block_delta"
	blockStop    = "content_block_stop"
)

// kindMessage is the type of a whole answer.
const kindMessage = "message"

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

	head   json.RawMessage // the message of message_start
	over   node            // the members of message_delta
	used   node            // the usage
	blocks node            // objects
}

func (a *messageAnswer) Add(c Chunk) {
	if c.Type == kindMessage && c.Fault == nil {
		a.addWhole(c)
		return
	}
	if c.rawUsage != "" { // each count is a total so far
		a.used.kind = kindObject
		for name, v := range Parse([]byte(c.rawUsage)).All() {
			a.used.member(name.Str).last(v)
		}
		a.report(readUsage(schemas.DialectMessages, Parse(a.used.write(nil))))
	}
	if c.Fault != nil || c.Blank {
		return
	}
	event := Parse(c.Raw)
	switch c.Type {
	case messageStart:
		a.head = json.RawMessage(strings.Clone(object(event.Get("message")).Raw))
	case messageDelta:
		a.delta(event)
	case blockStart:
		a.text += a.block(event).start(object(event.Get("content_block")))
	case blockDelta:
		a.text += a.block(event).delta(object(event.Get("delta")))
	}
}

// addWhole adds the events of a whole message.
func (a *messageAnswer) addWhole(c Chunk) {
	events, _ := splitMessage(c.Raw, true)
	for _, raw := range events {
		if c, err := readMessage("", raw); err == nil {
			a.Add(c)
		}
	}
}

// delta sets the members of the message that its last events report.
func (a *messageAnswer) delta(v gjson.Result) {
	for name, v := range v.All() {
		switch name.Str {
		case "type", "usage", "content":
		case "delta":
			a.delta(object(v))
		default:
			a.over.member(name.Str).last(v)
		}
	}
}

// block is the block of an event.
func (a *messageAnswer) block(event gjson.Result) *node {
	return a.blocks.element(indexOf(event, 0), maxChoices)
}

// start takes the first object of a block, and returns how many bytes of text it has.
func (n *node) start(v gjson.Result) (text int64) {
	n.begin(v)
	text = textOfMembers(v, "text", "thinking", "data")
	if input := v.Get("input"); input.Type == gjson.JSON {
		text += textOfMembers(v, "input")
	}
	return text
}

// delta adds a piece to a block, and returns how many bytes of text it has.
func (n *node) delta(delta gjson.Result) (text int64) {
	n.kind = kindObject
	kind := delta.Get("type").Str
	for name, v := range delta.All() {
		switch is := name.Str; {
		case kind == "input_json_delta" && is == "partial_json" && v.Type == gjson.String:
			text += n.member("input").input(inner(v))
		case kind == "signature_delta" && is == "signature":
			n.member(is).last(v)
		case kind == "citations_delta" && is == "citation":
			n.member("citations").elements(v.Raw)
		case v.Type != gjson.String || is == "type":
		case kind == is+"_delta" && (is == "text" || is == "thinking"), !knownDelta(kind): // an unknown type is read like the known ones
			text += n.member(is).text(inner(v))
		}
	}
	return text
}

// knownDelta reports whether a type of delta is one of those that add to one member.
func knownDelta(kind string) bool {
	switch kind {
	case "text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta":
		return true
	}
	return false
}

// Give drops pings.
func (a *messageAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) {
	switch {
	case c.Blank:
		return c.Raw, false
	case c.Type == messageStart:
		if message := Parse(c.Raw).Get("message"); message.IsObject() {
			return put(c.Raw, "message", namedMessage(json.RawMessage(message.Raw), a.options)), true
		}
	case c.Type == kindMessage:
		return namedMessage(c.Raw, a.options), true
	}
	return c.Raw, true
}

// Reasons maps the stop reason to a finish reason of chat completions.
func (a *messageAnswer) Reasons() []string {
	n := a.over.find("stop_reason")
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

func (a *messageAnswer) Size() int64 {
	return int64(len(a.head)) + a.over.size() + a.used.size() + a.blocks.size()
}

// noHead replaces a missing message_start.
const noHead = `{"type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null}`

// Document is the message so far. Its members have the order of message_start. Without any blocks its
// content stays.
func (a *messageAnswer) Document() json.RawMessage {
	var doc node
	switch {
	case len(a.head) > 0:
		doc.begin(Parse(a.head))
	case len(a.blocks.list) > 0:
		doc.begin(gjson.Parse(noHead))
	default:
		return nil
	}
	for i := range a.over.list {
		if n := &a.over.list[i]; n.says() || doc.find(n.name) == nil {
			doc.replace(*n)
		}
	}
	if a.used.kind != 0 {
		doc.replace(node{name: "usage", kind: kindObject, list: a.used.list})
	}
	if len(a.blocks.list) > 0 || doc.find("content") == nil {
		doc.replace(node{name: "content", kind: kindElements, list: a.blocks.list})
	}
	return namedMessage(doc.write(nil), a.options)
}
