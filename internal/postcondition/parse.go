package postcondition

import (
	"encoding/json"
	"strconv"
	"strings"

	"weir/schemas"
)

// members are those of every type of assertion; which count depends on the type.
type members struct {
	Type            json.RawMessage `json:"type"`
	Equals          json.RawMessage `json:"equals"`
	Path            json.RawMessage `json:"path"`
	Text            json.RawMessage `json:"text"`
	Selector        json.RawMessage `json:"selector"`
	CaseInsensitive json.RawMessage `json:"case_insensitive"`
}

func parseAssertion(raw json.RawMessage) (assertion, *Error) {
	if first(raw) != '{' {
		return nil, invalid("an assertion must be an object")
	}
	var m members
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, invalid("is not valid JSON")
	}
	if m.Type == nil {
		return nil, invalid("an assertion must have a type")
	}
	name, ok := text(m.Type)
	if !ok {
		return nil, invalid("the type of an assertion must be a string")
	}
	switch name {
	case typeStatus:
		return parseStatus(m)
	case typePath:
		return parsePathEquals(m)
	case typeDOM:
		return parseContains(m)
	default:
		return nil, &Error{Variant: schemas.VariantUnsupportedPostcondition, Message: "no such type of assertion: '" + short(name) + "'"}
	}
}

// text reads a member that must be a string.
func text(raw json.RawMessage) (s string, ok bool) {
	return s, first(raw) == '"' && json.Unmarshal(raw, &s) == nil
}

func parseStatus(m members) (assertion, *Error) {
	n, ok := parseNumber(string(m.Equals))
	if !ok {
		return nil, invalid("http_status must have a number in equals")
	}
	if n.exponent < 0 {
		return nil, invalid("equals of http_status must be an integer")
	}
	want := strings.TrimSpace(string(m.Equals))
	if status, ok := n.small(); ok {
		want = strconv.Itoa(status)
	}
	return statusEquals{want: json.Number(want)}, nil
}

func parsePathEquals(m members) (assertion, *Error) {
	path, ok := text(m.Path)
	if !ok {
		return nil, invalid("json_path must have a string in path")
	}
	if m.Equals == nil {
		return nil, invalid("json_path must have equals")
	}
	steps, err := parsePath(path)
	if err != nil {
		return nil, invalid("the path of json_path " + err.Error())
	}
	want, err := decode(m.Equals)
	if err != nil {
		return nil, invalid("equals of json_path cannot be read")
	}
	return pathEquals{path: path, steps: steps, want: want}, nil
}

func parseContains(m members) (assertion, *Error) {
	want, ok := text(m.Text)
	if !ok {
		return nil, invalid("dom_contains must have a string in text")
	}
	c := domContains{text: collapse(want)}
	if c.text == "" {
		return nil, invalid("the text of dom_contains must not be empty")
	}
	switch string(m.CaseInsensitive) {
	case "", "null", "false":
	case "true":
		c.fold, c.text = true, fold(c.text)
	default:
		return nil, invalid("case_insensitive of dom_contains must be a boolean")
	}
	if m.Selector == nil || string(m.Selector) == "null" {
		return c, nil
	}
	if c.selected, ok = text(m.Selector); !ok {
		return nil, invalid("the selector of dom_contains must be a string")
	}
	s, err := parseSelector(c.selected)
	if err != nil {
		return nil, invalid("the selector of dom_contains " + err.Error())
	}
	c.selector = s
	return c, nil
}

// short keeps a foreign name out of the way of a message.
func short(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
