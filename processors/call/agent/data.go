package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"weir/processors/call/dial"
	"weir/schemas"
)

// data is what an event or an answer holds, without secrets.
type data struct {
	// doc is its JSON, or its text as a JSON string.
	doc json.RawMessage
	// members is an object with its members, and text a text; anything else is neither. They share no
	// memory with doc.
	members gjson.Result
	text    string
	// doubted: it is JSON, but not to every reader the same (RFC 7493): a name
	// stands twice in an object. doc is its text then, and members what one reader makes of it.
	doubted bool
	// halved: a text in it has half of a surrogate pair. doc is its text then, and members have U+FFFD.
	halved bool
}

// read takes data apart. mended: it was not valid UTF-8 as it came.
func (l *decoder) read(raw []byte, mended bool) data {
	if len(raw) == 0 {
		return data{doc: json.RawMessage("null")}
	}
	var d data
	text, valid := l.Scrub.Bytes(raw), jsontext.Value(raw).IsValid()
	clean := text
	if !valid && !mended && utf8.Valid(raw) {
		if v := jsontext.Value(bytes.Clone(raw)); v.Format(jsontext.AllowInvalidUTF8(true)) == nil {
			raw, valid, d.halved = v, true, true
			clean = l.Scrub.Bytes(raw)
		}
	}
	doc, isJSON := dial.JSON(raw, clean, l.Scrub)
	if isJSON {
		v := gjson.ParseBytes(doc)
		if d.doc, d.text = doc, v.Str; v.IsObject() { // of a text, gjson would read what looks like one in it
			d.members = v
		}
		d.doubted = mended || !valid || !bytes.Equal(raw, clean) && !jsontext.Value(doc).IsValid() // two names may have become one
	}
	if !isJSON || d.doubted || d.halved {
		words := string(text)
		if !utf8.ValidString(words) {
			words = l.Scrub.String(strings.ToValidUTF8(words, "\uFFFD"))
		}
		if d.doc = dial.Quoted(words); !isJSON || d.doubted {
			d.text = words
		}
	}
	return d
}

// given is a value that is there and not null, as it came; nil: it is not.
func given(v gjson.Result) json.RawMessage {
	if v.Type == gjson.Null {
		return nil
	}
	return json.RawMessage(v.Raw)
}

// outputs are an end's outputs, or its data.
func outputs(m gjson.Result) gjson.Result {
	if out := m.Get("outputs"); out.Type != gjson.Null {
		return out
	}
	return m.Get("data")
}

// success reads whether an end reports success. An error in it outweighs a success status, except
// a degraded one.
func success(m gjson.Result) (success, said bool) {
	status := strings.ToLower(m.Get("status").Str)
	yes := slices.Contains([]string{"ok", "success", "degraded"}, status)
	no := slices.Contains([]string{"error", "failed", "failure", "canceled", "cancelled", "timeout"}, status)
	for _, name := range []string{"ok", "success"} {
		word := m.Get(name).Type
		yes, no = yes || word == gjson.True, no || word == gjson.False
	}
	no = no || yes && status != "degraded" && failure(m) != nil
	return yes && !no, yes || no
}

// failure is the error in a document's error member, as an object or as a text; nil if there is
// none. The zero value of an error's type is what some agents send in place of none.
func failure(m gjson.Result) *schemas.RunError {
	told := &schemas.RunError{Code: string(schemas.TaskFailed), Message: NoWords}
	switch e := m.Get("error"); {
	case empty(e):
		return nil
	case e.Type == gjson.String:
		told.Message = e.Str
	case e.IsObject():
		said := false
		for _, member := range e.All() {
			said = said || !empty(member)
		}
		if !said {
			return nil
		}
		if code := e.Get("code").Str; schemas.ValidID(code) {
			told.Code = code
		}
		if words := e.Get("message").Str; words != "" {
			told.Message = words
		}
		told.Details = details(e.Get("details"), "details")
	default:
		told.Details = details(e, "error")
	}
	return told
}

// empty reports whether a value is absent, or the zero value of its type.
func empty(v gjson.Result) bool {
	return slices.Contains([]string{"", "null", `""`, "{}", "[]", "false", "0"}, v.Raw)
}

// details is an object as it came, and anything else as the one member of an
// object; nil where there is nothing, or nothing in it.
func details(v gjson.Result, name string) json.RawMessage {
	switch {
	case v.Type == gjson.Null, v.IsObject() && len(v.Map()) == 0:
		return nil
	case v.IsObject():
		return json.RawMessage(v.Raw)
	}
	return under(name, v)
}

// under is a value as the one member of an object.
func under(name string, v gjson.Result) json.RawMessage {
	return json.RawMessage(`{"` + name + `":` + v.Raw + "}")
}

// protocolError is the error of an agent whose reported end violates the protocol.
func protocolError(message string) *schemas.RunError {
	return &schemas.RunError{
		Code: string(schemas.TaskFailed), Message: message,
		Details: json.RawMessage(`{"code":"` + string(schemas.UpstreamProtocol) + `"}`),
	}
}

// part is what an event is in a run.
type part int

const (
	isProgress part = iota
	isStart
	isEnd
	// mayEnd is an event with a name of its own whose data would be the run's end
	// under another. It is one if the agent closes without a better.
	mayEnd
)

// partOf reads the keyword of an event; known is false for one without meaning.
func partOf(word string) (p part, known bool) {
	if schemas.EndsRun(word) {
		return isEnd, true
	}
	switch strings.ToLower(strings.TrimSpace(word)) {
	case schemas.RunEventStarted, "start":
		return isStart, true
	case schemas.RunEventProgress, "delta", "token", "chunk", "step", "status", "log", "heartbeat", "ping":
		return isProgress, true
	default:
		return isProgress, false
	}
}

// nameIn finds the keyword of an event that its SSE name does not give: the data's event, otherwise
// its type. The first known one decides what the event is; so a progress event whose data has the
// type "completed" ends nothing. An event with a name of its own, such as a tool call, ends nothing
// either, unless the data could be the run's.
func (t CallOptions) nameIn(sse string, m gjson.Result) (string, part) {
	name := sse
	if strings.EqualFold(strings.TrimSpace(name), "message") { // the name of events without one
		name = ""
	}
	own := strings.TrimSpace(name) != ""
	for _, member := range []string{"event", "type"} {
		word := m.Get(member).Str
		if word == "" {
			continue
		}
		p, known := partOf(word)
		switch {
		case known && p == isEnd && own && t.ours(m):
			return name, mayEnd
		case known && p == isEnd && own:
			return name, isProgress
		case known:
			return word, p
		}
		if name == "" {
			name = word
		}
	}
	if name == "" {
		name = "message"
	}
	return name, isProgress
}

// ours reports whether data with an end keyword belongs to the run itself and not to a step in it:
// it names the request, or it names none and has outputs and a success flag.
func (t CallOptions) ours(m gjson.Result) bool {
	if id := m.Get("request_id").Str; id != "" {
		return id == t.RequestID
	}
	_, said := success(m)
	return said && outputs(m).IsObject()
}

// plain reports whether a started event says nothing but what the first event of
// every run of Weir says.
func (t CallOptions) plain(d data) bool {
	if !d.members.IsObject() {
		return string(d.doc) == "null" || starts(gjson.ParseBytes(d.doc))
	}
	for name, member := range d.members.All() {
		said := member.Type == gjson.Null
		switch name.Str {
		case "event", "type", "status":
			said = said || starts(member)
		case "request_id":
			said = said || member.Str == t.RequestID
		case "task_type":
			said = said || member.Str == t.TaskType
		}
		if !said {
			return false
		}
	}
	return true
}

// starts holds for the words for a start, and for none at all.
func starts(v gjson.Result) bool {
	p, known := partOf(v.Str)
	return v.Type == gjson.String && (v.Str == "" || known && p == isStart)
}
