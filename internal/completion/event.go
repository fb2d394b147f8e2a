package completion

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

var errForeign = errors.New("completion: the event or answer is no part of the request's protocol; check which dialects the upstream speaks")

// Chunk is one event of a streamed answer.
type Chunk struct {
	// Raw is the chunk as it came, without white space between its values, with U+FFFD for
	// bytes that are no text, and with the last of several members of one name.
	Raw json.RawMessage
	// Usage is what was used, where the chunk tells it.
	Usage *schemas.ChatUsage
	// Fault is an error that came in the place of an answer.
	Fault *Fault
	// Blank: it has nothing for a reader but usage: no choice, or choices without text, role,
	// tool call or end. In dialects with typed events only a ping is blank.
	Blank bool
	// Last: the answer is complete with this chunk, and later events of the stream do not matter.
	Last bool
	// Type is the type of the event; empty in DialectChat.
	Type string

	rawUsage string // the usage as it came, in Raw
}

// open reads an event or a document of a dialect with typed events, and makes the chunk of it. It
// fails if that is not an object, or of another dialect. If only the event's name has the type,
// open adds it as a member, because the log stores no names.
func open(name string, data []byte, own schemas.Dialect) (event gjson.Result, c Chunk, err error) {
	raw, ok := normalize(data)
	if !ok || raw[0] != '{' {
		return event, c, errForeign
	}
	event = Parse(raw)
	kind, object := event.Get("type").Str, event.Get("object").Str
	if kind == "" && object == "" && name != "" && name != unnamed {
		return open("", set(raw, "type", string(quote(name))), own)
	}
	c = Chunk{Raw: raw, Type: kind, Blank: kind == kindPing || kind == kindAlive}
	switch family := familyOf(kind, object, event); {
	case kind == kindError, object == "error", kind == "" && says(event.Get("error")):
		c.Fault = faultOf(raw)
	case family == "" && kind == "", family != "" && family != own:
		err = errForeign
	}
	return event, c, err
}

const (
	// unnamed is the name of an event without one.
	unnamed   = "message"
	kindError = "error"
	kindPing  = "ping"
	// kindAlive is the ping of Responses.
	kindAlive = "keepalive"
)

// familyOf is the dialect of an event or a document with these members; empty: unknown.
func familyOf(kind, object string, v gjson.Result) schemas.Dialect {
	lists := func(name string) bool { return v.Get(name).IsArray() }
	switch {
	case strings.HasPrefix(kind, "response."), object == "response":
		return schemas.DialectResponses
	case kind == kindMessage, strings.HasPrefix(kind, "message_"), strings.HasPrefix(kind, "content_block_"):
		return schemas.DialectMessages
	case strings.HasPrefix(object, "chat.completion"), lists("choices"):
		return schemas.DialectChat
	case kind == "" && lists("output"):
		return schemas.DialectResponses
	case kind == "" && lists("data"):
		return schemas.DialectEmbeddings
	}
	return ""
}

// faultOf returns the error of an event or document that reports one.
func faultOf(raw []byte) *Fault {
	if f := ReadFault(raw); f != nil {
		return f
	}
	return &Fault{Message: "the provider reports an error and gives no reason"}
}

func readEmbeddings(_ string, data []byte) (Chunk, error) {
	doc, c, err := open("", data, schemas.DialectEmbeddings)
	c.Last, c.Usage = true, readUsage(schemas.DialectEmbeddings, doc.Get("usage"))
	return c, err
}

// readCount reads the token count of a request. It costs nothing, so it has no usage.
func readCount(_ string, data []byte) (Chunk, error) {
	doc, c, err := open("", data, schemas.DialectCount)
	_, counted := tokens(doc.Get("input_tokens"))
	switch family := familyOf(c.Type, doc.Get("object").Str, doc); {
	case counted && family == "" && c.Type != kindError:
		return Chunk{Raw: json.RawMessage(doc.Raw), Last: true}, nil
	case err == nil && c.Fault == nil:
		err = errForeign
	}
	return c, err
}

// documentAnswer is an answer that is one document, without a finish reason.
type documentAnswer struct {
	tally

	whole json.RawMessage
}

func (a *documentAnswer) Add(c Chunk) {
	if c.Fault == nil {
		a.whole = c.Raw
	}
	a.report(c.Usage)
}

func (a *documentAnswer) Give(c Chunk) (raw json.RawMessage, keep bool) { return c.Raw, true }

func (a *documentAnswer) Reasons() []string { return nil }

func (a *documentAnswer) Size() int64 { return int64(len(a.whole)) }

func (a *documentAnswer) Document() json.RawMessage { return a.whole }
