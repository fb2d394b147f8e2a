package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/schemas"
)

// renamed goes before the name of a member that would pass for one of ours: for the
// end of the stream, or for the name of another run.
const renamed = "agent_"

// progress renders an agent's event as a run event: its own members, byte for byte, after the
// common ones. The agent may set type itself, but not to one that ends a stream; request_id and
// task_type are always the run's own.
func (r Stream) progress(stored json.RawMessage) (json.RawMessage, error) {
	p := schemas.RunProgress{}
	if err := json.Unmarshal(stored, &p); err != nil {
		p = schemas.RunProgress{Data: stored} // written by another program; shown anyway
	}
	var own []member
	switch {
	case p.Omitted > 0:
		own = []member{{key: "omitted_bytes", name: `"omitted_bytes"`, value: fmt.Appendf(nil, "%d", p.Omitted)}}
	case object(p.Data):
		if !json.Valid(p.Data) {
			return nil, errors.New("the event is not JSON")
		}
		own = members(p.Data)
	case len(p.Data) > 0 && string(p.Data) != "null":
		own = []member{{key: "data", name: `"data"`, value: p.Data}}
	}
	return r.merge(p.Name, own)
}

// member is one member of an object: its key as it is meant and, in quotes, as
// it was written.
type member struct {
	key, name string
	value     json.RawMessage
}

// members takes an object apart.
func members(object json.RawMessage) (all []member) {
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		all = append(all, member{key: key.String(), name: key.Raw, value: json.RawMessage(value.Raw)})
		return true
	})
	return all
}

// merge writes the members of an event: ours where the agent has none, then its
// own. A member of those that says nothing is left out.
func (r Stream) merge(word string, own []member) (json.RawMessage, error) {
	if word == "" || schemas.EndsRun(word) {
		word = schemas.RunEventProgress
	}
	ours := []struct{ key, value string }{{"type", word}, {"request_id", callers(r.Ref)}, {"task_type", r.TaskType}}
	kept := make([]member, 0, len(own))
	said := map[string]bool{}
	names := map[string]string{}
	for _, m := range own {
		switch m.key {
		case "type", "request_id", "task_type", "event":
			if string(m.value) == "null" {
				continue
			}
			if r.foreign(m) {
				m.name = free(own, names, m.key)
			} else {
				said[m.key] = true
			}
		}
		kept = append(kept, m)
	}
	b := make([]byte, 0, 256)
	for _, o := range ours {
		if said[o.key] {
			continue
		}
		value, err := ledger.Encode(o.value)
		if err != nil {
			return nil, err
		}
		b = appendMember(b, `"`+o.key+`"`, value)
	}
	for _, m := range kept {
		b = appendMember(b, m.name, m.value)
	}
	b = append(b, '}')
	var line bytes.Buffer
	err := json.Compact(&line, b)
	return line.Bytes(), err
}

func appendMember(b []byte, name string, value []byte) []byte {
	c := byte(',')
	if len(b) == 0 {
		c = '{'
	}
	b = append(b, c)
	b = append(b, name...)
	b = append(b, ':')
	return append(b, value...)
}

// foreign reports whether a member has a reader take the event for the last, or for
// one of another run.
func (r Stream) foreign(m member) bool {
	var word string
	text := json.Unmarshal(m.value, &word) == nil
	switch m.key {
	case "request_id":
		return !text || word != callers(r.Ref)
	case "task_type":
		return !text || word != r.TaskType
	default:
		return text && schemas.EndsRun(word)
	}
}

// free is the name, in quotes, that every member called key gets instead: no other
// member has it. It is looked for once a key, for an agent may repeat one at will.
func free(all []member, names map[string]string, key string) string {
	if names[key] == "" {
		name := renamed + key
		for slices.ContainsFunc(all, func(m member) bool { return m.key == name }) {
			name = renamed + name
		}
		names[key] = `"` + name + `"`
	}
	return names[key]
}
