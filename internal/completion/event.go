package completion

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

var (
	errNoEvent    = errors.New("completion: the event or answer is no part of the request's protocol; check which dialects the upstream speaks")
	errForeign    = errors.New("completion: the upstream answered in another protocol; list the dialects that it speaks")
	errNoDocument = errors.New("completion: the answer is no whole document of its protocol")
)

// envelope is a typed event or a whole document, with the members that identify it.
type envelope struct {
	raw                             json.RawMessage
	kind, object                    string
	response, message, delta, usage gjson.Result
	failure                         gjson.Result // the member error
	lists                           string       // the name of the list that identifies a document
}

// open reads the members that all dialects with typed events share, and makes the chunk of an event or
// a document. It fails if that is not an object, or not of the own dialect. If only the event's name
// has the type, open adds it as a member, because the log stores no names.
func open(name string, data []byte, own schemas.Dialect) (e envelope, c Chunk, err error) {
	raw, ok := normalize(data)
	if !ok || raw[0] != '{' {
		return e, c, errNoEvent
	}
	e.raw = raw
	for name, v := range Parse(raw).All() {
		switch name.Str {
		case "type":
			e.kind = v.Str
		case "object":
			e.object = v.Str
		case "response":
			e.response = v
		case "message":
			e.message = v
		case "delta":
			e.delta = v
		case "usage":
			e.usage = v
		case "error":
			e.failure = v
		case "choices", "output", "content", "data":
			if v.IsArray() {
				e.lists = name.Str
			}
		}
	}
	if e.kind == "" && e.object == "" && name != "" && name != unnamed {
		return open("", set(raw, "type", string(quote(name))), own)
	}
	c = Chunk{Raw: raw, Type: e.kind, Blank: e.kind == kindPing || e.kind == kindAlive}
	switch family := e.family(); {
	case e.kind == kindError, e.object == "error", e.kind == "" && says(e.failure):
		c.Fault = faultOf(raw)
	case family == "" && e.kind == "":
		return e, Chunk{}, errNoEvent
	case family != "" && family != own:
		return e, Chunk{}, errForeign
	}
	return e, c, nil
}

// unnamed is the name of an event without one.
const unnamed = "message"

const (
	kindError = "error"
	kindPing  = "ping"
	// kindAlive is the ping of Responses.
	kindAlive = "keepalive"
)

// family is the dialect of an event or a document; empty: unknown.
func (e *envelope) family() schemas.Dialect {
	switch {
	case strings.HasPrefix(e.object, "chat.completion"), e.lists == "choices":
		return schemas.DialectChat
	case e.object == "response", strings.HasPrefix(e.kind, "response."), e.kind == "" && e.lists == "output":
		return schemas.DialectResponses
	case e.kind == "message", strings.HasPrefix(e.kind, "message_"), strings.HasPrefix(e.kind, "content_block_"):
		return schemas.DialectMessages
	case e.kind == "" && e.lists == "data":
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

// tally counts the tokens and the text of an answer.
type tally struct {
	usage *schemas.ChatUsage
	text  int64 // bytes
	// before is how many bytes of text preceded the usage.
	before int64
}

// report records a usage. The last one counts, unless it is smaller: usage never decreases.
func (t *tally) report(u *schemas.ChatUsage) (counts bool) {
	if counts = u != nil && (t.usage == nil || u.Total >= t.usage.Total); counts {
		t.usage, t.before = u, t.text
	}
	return counts
}

func (t *tally) Usage() *schemas.ChatUsage { return t.usage }

func (t *tally) Spent() *schemas.ChatUsage {
	if t.usage == nil {
		return nil
	}
	u := *t.usage
	if late := Tokens(t.text - t.before); late > 0 {
		u.Completion, u.Total, u.Estimated = u.Completion+late, u.Total+late, true
	}
	return &u
}

func (t *tally) Output() int64 { return Tokens(t.text) }

func (t *tally) Finished() bool { return false }

// ProviderID is empty: the caller receives the provider's own id.
func (t *tally) ProviderID() string { return "" }

// count adds the texts of an object's members with these names.
func (t *tally) count(v gjson.Result, names ...string) {
	for name, m := range object(v).All() {
		switch {
		case !slices.Contains(names, name.Str) || hollow(m):
		case m.Type == gjson.String:
			t.text += length(inner(m))
		case m.Type == gjson.JSON:
			t.text += int64(len(m.Raw))
		}
	}
}
