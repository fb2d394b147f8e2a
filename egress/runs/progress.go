package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

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
		own = []member{{"omitted_bytes", `"omitted_bytes"`, strconv.AppendInt(nil, int64(p.Omitted), 10)}}
	case object(p.Data):
		if !json.Valid(p.Data) {
			return nil, errors.New("the event is not JSON")
		}
		gjson.ParseBytes(p.Data).ForEach(func(key, value gjson.Result) bool {
			own = append(own, member{key.String(), key.Raw, []byte(value.Raw)})
			return true
		})
	case len(p.Data) > 0 && string(p.Data) != "null":
		own = []member{{"data", `"data"`, p.Data}}
	}
	return r.merge(p.Name, own)
}

// member is one member of an object: its key as it is meant and, in quotes, as
// it was written.
type member struct {
	key, name string
	value     []byte
}

// merge writes the members of an event: ours where the agent has none, then its
// own. A member of those that says nothing is left out.
func (r Stream) merge(word string, own []member) (json.RawMessage, error) {
	if word == "" || schemas.EndsRun(word) {
		word = schemas.RunEventProgress
	}
	taken := map[string]bool{}
	for _, m := range own {
		taken[m.key] = true
	}
	said := map[string]bool{}
	names := map[string]string{} // an agent may repeat one at will
	var rest []byte
	for _, m := range own {
		switch m.key {
		case "type", "request_id", "task_type", "event":
			if string(m.value) == "null" {
				continue
			}
			if r.foreign(m) {
				if names[m.key] == "" {
					names[m.key] = free(taken, m.key)
				}
				m.name = names[m.key]
			} else {
				said[m.key] = true
			}
		}
		rest = append(append(append(append(rest, ','), m.name...), ':'), m.value...)
	}
	b := []byte{'{'}
	for _, ours := range [][2]string{{"type", word}, {"request_id", callers(r.Ref)}, {"task_type", r.TaskType}} {
		if said[ours[0]] {
			continue
		}
		value, err := ledger.Encode(ours[1])
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"`+ours[0]+`":`...), value...)
	}
	b = append(append(b, rest...), '}')
	var line bytes.Buffer
	err := json.Compact(&line, slices.Delete(b, 1, 2)) // the first comma
	return line.Bytes(), err
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

// free is the name, in quotes, that every member called key gets instead: no other member has it.
func free(taken map[string]bool, key string) string {
	name := renamed + key
	for taken[name] {
		name = renamed + name
	}
	return `"` + name + `"`
}
