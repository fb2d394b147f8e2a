package plans

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// member is one member of an object, its value as it came.
type member struct {
	name  string
	value json.RawMessage
}

// members reads a valid object in the order of its text. Of a name that stands
// twice, the first gives the place and the last the value.
func members(raw json.RawMessage) (list []member) {
	at := make(map[string]int)
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		m := member{key.String(), json.RawMessage(value.Raw)}
		if i, twice := at[m.name]; twice {
			list[i] = m
			return true
		}
		at[m.name] = len(list)
		list = append(list, m)
		return true
	})
	return list
}

// falsy reports whether a value counts as nothing: missing, null, false, zero,
// or empty.
func falsy(raw json.RawMessage) bool {
	if absent(raw) {
		return true
	}
	switch raw[0] {
	case 'f':
		return true
	case '"':
		return len(raw) == 2
	case '[', '{':
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
	case 't':
		return false
	default:
		digits, _, _ := strings.Cut(strings.ToLower(string(raw)), "e")
		return strings.Trim(digits, "-0.") == ""
	}
}

// text is the content of a string, and the JSON of any other value.
func text(raw json.RawMessage) string {
	if s, ok := str(raw); ok {
		return s
	}
	var b bytes.Buffer
	_ = json.Compact(&b, raw) // valid: it is part of what was read
	return b.String()
}
