package completion

import (
	"encoding/json"
	"slices"
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

// readMessage reads an event, or a message.
func readMessage(name string, data []byte) (Chunk, error) {
	e, c, err := open(name, data, schemas.DialectMessages)
	if err != nil {
		return Chunk{}, err
	}
	usage := object(e.usage)
	switch e.kind {
	case messageStart:
		usage = object(object(e.message).Get("usage"))
	case messageStop, kindMessage:
		c.Last = true
	}
	if c.rawUsage = usage.Raw; c.rawUsage != "" {
		c.Usage = messagesUsage(usage)
	}
	return c, nil
}

// kindMessage is the type of a whole answer.
const kindMessage = "message"

// messagesUsage reads a usage of Messages; nil if it is implausible or lacks a count. The protocol
// counts the input tokens of the cache separately.
func messagesUsage(usage gjson.Result) *schemas.ChatUsage {
	var u schemas.ChatUsage
	for _, count := range []struct {
		name   string
		into   *int64
		always bool
	}{
		{"input_tokens", &u.Prompt, true},
		{"output_tokens", &u.Completion, true},
		{"cache_read_input_tokens", &u.Cached, false},
		{"cache_creation_input_tokens", &u.CacheWrites, false},
		{"output_tokens_details.thinking_tokens", &u.Reasoning, false},
	} {
		v := usage.Get(count.name)
		n, ok := tokens(v)
		if !ok && (count.always || v.Type != gjson.Null) {
			return nil
		}
		*count.into = n
	}
	u.Prompt += u.Cached + u.CacheWrites
	if u.Total = u.Prompt + u.Completion; u.Total == 0 || u.Prompt > maxTokens {
		return nil
	}
	return &u
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

	options Options
	head    json.RawMessage // the message of message_start
	over    node            // the members of message_delta
	used    node            // the usage
	blocks  []*block
}

func (a *messageAnswer) Add(c Chunk) {
	if c.Type == kindMessage && c.Fault == nil {
		a.addWhole(c)
		return
	}
	if c.rawUsage != "" {
		a.report(a.usageOf(Parse([]byte(c.rawUsage))))
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
	case blockStart, blockDelta:
		a.block(c.Type, event)
	}
}

// addWhole adds the events of a whole message.
func (a *messageAnswer) addWhole(c Chunk) {
	events, err := splitMessage(c.Raw, true)
	if err != nil {
		return
	}
	for _, raw := range events {
		if c, err := readMessage("", raw); err == nil {
			a.Add(c)
		}
	}
}

// usageOf updates the usage with the counts of an event. Each count is a total so far.
func (a *messageAnswer) usageOf(told gjson.Result) *schemas.ChatUsage {
	a.used.kind = kindObject
	for name, v := range told.All() {
		a.used.member(name.Str).last(v)
	}
	return messagesUsage(Parse(a.used.write(nil)))
}

// delta sets the members of the message that its last events report.
func (a *messageAnswer) delta(event gjson.Result) {
	for name, v := range event.All() {
		switch name.Str {
		case "type", "usage":
		case "delta":
			for name, v := range object(v).All() {
				a.over.member(name.Str).last(v)
			}
		default:
			a.over.member(name.Str).last(v)
		}
	}
}

// block begins a block, or adds a piece to it.
func (a *messageAnswer) block(kind string, event gjson.Result) {
	index := indexOf(event, 0)
	at, found := slices.BinarySearchFunc(a.blocks, index, func(b *block, n int) int { return b.index - n })
	b := &block{index: index}
	switch {
	case found:
		b = a.blocks[at]
	case index >= 0 && index < maxChoices && len(a.blocks) < maxChoices:
		a.blocks = slices.Insert(a.blocks, at, b)
	}
	if kind == blockStart {
		a.text += b.begin(object(event.Get("content_block")))
	} else {
		a.text += b.add(object(event.Get("delta")))
	}
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
	n := int64(len(a.head)) + a.over.size() + a.used.size()
	for _, b := range a.blocks {
		n += b.size()
	}
	return n
}

// noHead replaces a missing message_start.
const noHead = `{"type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null}`

// Document is the message so far. Its members have the order of message_start. Without any blocks its
// content stays.
func (a *messageAnswer) Document() json.RawMessage {
	doc := a.head
	if len(doc) == 0 {
		if len(a.blocks) == 0 {
			return nil
		}
		doc = json.RawMessage(noHead)
	}
	has := func(path string) bool { return Parse(doc).Get(path).Exists() }
	// The content is last: it is large, and each put copies the document.
	for i := range a.over.list {
		n := &a.over.list[i]
		if path := gjson.Escape(n.name); n.name != "content" && n.name != "usage" && (n.says() || !has(path)) {
			doc = put(doc, ":"+path, n.write(nil)) // the colon: it is no number
		}
	}
	if a.used.kind != 0 {
		doc = put(doc, "usage", a.used.write(nil))
	}
	if len(a.blocks) > 0 || !has("content") {
		content := []byte{'['}
		for _, b := range a.blocks {
			content = b.write(appendComma(content))
		}
		doc = put(doc, "content", append(content, ']'))
	}
	return namedMessage(doc, a.options)
}
