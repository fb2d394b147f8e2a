package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/processors/call/dial"
	"weir/schemas"
)

// data is what an event or an answer holds, without secrets.
type data struct {
	// doc is its JSON, or its text as a JSON string.
	doc json.RawMessage
	// members are those of an object; nil: it is none.
	members members
	// doubted: it is JSON, but not to every reader the same (RFC 7493): a name
	// stands twice in an object, or a text is no Unicode. doc is its text then, and
	// members what one reader makes of it.
	doubted bool
}

// read takes data apart. mended: it was not valid UTF-8 as it came.
func (l *decoder) read(raw []byte, mended bool) data {
	if len(raw) == 0 {
		return data{doc: json.RawMessage("null")}
	}
	clean := l.Scrub.Bytes(raw)
	var d data
	doc, isJSON := dial.JSON(raw, clean, l.Scrub)
	if isJSON { // two names may have become one
		d.doc, d.members = doc, object(doc)
		d.doubted = mended || !jsontext.Value(raw).IsValid() || !bytes.Equal(raw, clean) && !jsontext.Value(doc).IsValid()
	}
	if !isJSON || d.doubted {
		words := string(clean)
		if !utf8.ValidString(words) {
			words = l.Scrub.String(strings.ToValidUTF8(words, "\uFFFD"))
		}
		d.doc = dial.Quoted(words)
	}
	return d
}

// members are those of an object, by their exact names.
type members map[string]json.RawMessage

// object is a document's members; nil where it is no object.
func object(doc json.RawMessage) (m members) {
	if doc = present(doc); doc == nil || doc[0] != '{' || json.Unmarshal(doc, &m) != nil {
		return nil
	}
	return m
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

// text is the member with a name if it is a string.
func (m members) text(name string) string {
	s, _ := text(m[name])
	return s
}

// outputs are an end's outputs, or its data, as they came.
func (m members) outputs() json.RawMessage {
	if out := present(m["outputs"]); out != nil {
		return out
	}
	return present(m["data"])
}

// success reads whether an end reports success. An error in it outweighs a success status, except
// a degraded one.
func (m members) success() (success, said bool) {
	status := strings.ToLower(m.text("status"))
	yes := slices.Contains([]string{"ok", "success", "degraded"}, status)
	no := slices.Contains([]string{"error", "failed", "failure", "canceled", "cancelled", "timeout"}, status)
	for _, name := range []string{"ok", "success"} {
		word := string(bytes.TrimSpace(m[name]))
		yes, no = yes || word == "true", no || word == "false"
	}
	no = no || yes && status != "degraded" && m.failure() != nil
	return yes && !no, yes || no
}

// failure is the error in a document's error member, as an object or as a text; nil if there is
// none. The zero value of an error's type is what some agents send in place of none.
func (m members) failure() *schemas.RunError {
	told := &schemas.RunError{Code: string(schemas.TaskFailed), Message: NoWords}
	raw := present(m["error"])
	inner := object(raw)
	words, isText := text(raw)
	switch {
	case isText && words != "":
		told.Message = words
	case inner != nil:
		said := false
		for _, raw := range inner {
			said = said || !empty(raw)
		}
		if !said {
			return nil
		}
		if code := inner.text("code"); schemas.ValidID(code) {
			told.Code = code
		}
		if words := inner.text("message"); words != "" {
			told.Message = words
		}
		told.Details = details(inner["details"], "details")
	case raw != nil && !isText && !empty(raw):
		told.Details = details(raw, "error")
	default:
		return nil
	}
	return told
}

func empty(raw json.RawMessage) bool {
	return slices.Contains([]string{"", "null", `""`, "{}", "[]", "false", "0"}, string(present(raw)))
}

// details is an object as it came, and anything else as the one member of an
// object; nil where there is nothing, or nothing in it.
func details(raw json.RawMessage, name string) json.RawMessage {
	raw = present(raw)
	switch {
	case raw == nil, raw[0] == '{' && len(object(raw)) == 0:
		return nil
	case raw[0] == '{':
		return raw
	}
	return under(name, raw)
}

// under is a value as the one member of an object.
func under(name string, raw json.RawMessage) json.RawMessage {
	return slices.Concat(json.RawMessage(`{"`+name+`":`), raw, json.RawMessage("}"))
}

// protocolError is the error of an agent whose reported end violates the protocol.
func protocolError(message string) *schemas.RunError {
	return &schemas.RunError{
		Code: string(schemas.TaskFailed), Message: message,
		Details: json.RawMessage(`{"code":"` + string(schemas.UpstreamProtocol) + `"}`),
	}
}
