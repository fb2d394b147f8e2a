package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/processors/call/dial"
)

// data is what an event or an answer holds, without secrets.
type data struct {
	// doc is its JSON, or its text as a JSON string.
	doc json.RawMessage
	// members are those of an object, by their exact names; nil: it is none.
	members map[string]json.RawMessage
	// doubted: it is JSON, but not to every reader the same (RFC 7493): a name
	// stands twice in an object, or a text is no Unicode. doc is its text then, and
	// members what one reader makes of it.
	doubted bool
}

// read takes data apart. mended: it was not valid UTF-8 as it came.
func (l *decoder) read(raw []byte, mended bool) data {
	clean := l.Scrub.Bytes(raw)
	doc, isJSON := dial.JSON(raw, clean, l.Scrub)
	switch {
	case len(raw) == 0:
		return data{doc: json.RawMessage("null")}
	case !isJSON:
		return data{doc: l.quoted(clean)}
	}
	d := data{doc: doc, members: object(doc)}
	d.doubted = mended || !jsontext.Value(raw).IsValid()
	if !bytes.Equal(raw, clean) { // two names may have become one
		d.doubted = d.doubted || !jsontext.Value(doc).IsValid()
	}
	if d.doubted {
		d.doc = l.quoted(clean)
	}
	return d
}

// quoted is a scrubbed text as a JSON string.
func (l *decoder) quoted(clean []byte) json.RawMessage {
	text := string(clean)
	if !utf8.ValidString(text) {
		text = l.Scrub.String(strings.ToValidUTF8(text, "\uFFFD"))
	}
	return dial.Quoted(text)
}

// object is a document's members by their exact names; nil where it is no object.
func object(doc json.RawMessage) map[string]json.RawMessage {
	if len(doc) == 0 || doc[0] != '{' {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil
	}
	return members
}

// present is a member that is there and not null, without white space around it.
func present(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// text is a member that is a string.
func text(raw json.RawMessage) (s string, ok bool) {
	raw = bytes.TrimSpace(raw)
	ok = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}
