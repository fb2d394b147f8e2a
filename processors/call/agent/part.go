package agent

import (
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

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
