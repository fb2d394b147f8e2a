package postcondition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"weir/schemas"
)

// assertion is one check, compiled.
type assertion interface {
	check(a *answer) result
}

// answer is an answer whose body is decoded at most once in either way.
type answer struct {
	schemas.Answer
	json func() (any, error) // fails for a body that came as text
	text func() string       // the body's bytes as the upstream sent them; of a JSON string, its content
}

func newAnswer(a schemas.Answer) *answer {
	return &answer{Answer: a, json: sync.OnceValues(func() (any, error) {
		doc, err := decode(a.Body)
		if err == nil && !a.JSON && a.Hash != "" {
			err = errNotJSON
		}
		return doc, err
	}), text: sync.OnceValue(func() string {
		if a.Base64 {
			var raw []byte
			_ = json.Unmarshal(a.Body, &raw) // it was made of bytes; of none that can be read, nothing is found
			return string(raw)
		}
		s, ok := text(a.Body)
		if !ok && !bytes.Equal(a.Body, []byte("null")) {
			s = string(a.Body)
		}
		return s
	})}
}

// members are those of all types of assertion; each type uses some of them.
type members struct {
	Type            json.RawMessage `json:"type"`
	Equals          json.RawMessage `json:"equals"`
	Path            json.RawMessage `json:"path"`
	Text            json.RawMessage `json:"text"`
	Selector        json.RawMessage `json:"selector"`
	CaseInsensitive json.RawMessage `json:"case_insensitive"`
}

// The types of assertion. Their kinds in a report are the same, except kindPath.
const (
	typeStatus = "http_status"
	typePath   = "json_path"
	typeDOM    = "dom_contains"

	kindPath = "json_path_equals"
)

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

// statusEquals is http_status. It accepts any integer, also one that is no status.
type statusEquals struct{ want json.Number }

func parseStatus(m members) (assertion, *Error) {
	n, ok := parseNumber(string(m.Equals))
	if !ok {
		return nil, invalid("http_status must have a number in equals")
	}
	if n.exponent < 0 {
		return nil, invalid("equals of http_status must be an integer")
	}
	want := strings.TrimSpace(string(m.Equals))
	if f, err := strconv.ParseFloat(want, 64); err == nil && 0 <= f && f < 1e9 {
		want = strconv.Itoa(int(f))
	}
	return statusEquals{want: json.Number(want)}, nil
}

func (s statusEquals) check(a *answer) result {
	got := json.Number(strconv.Itoa(a.Status))
	detail := map[string]any{"status": got}
	if sameNumber(got, s.want) {
		return held(typeStatus, detail)
	}
	message := fmt.Sprintf("expected status %s, observed %s", short(s.want.String()), got)
	return missed(typeStatus, codeStatus, message, map[string]any{"status": s.want}).observed(detail)
}

// pathEquals is json_path.
type pathEquals struct {
	path  string
	steps []any
	want  any
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

func (p pathEquals) check(a *answer) result {
	doc, err := a.json()
	if err != nil {
		return missed(kindPath, codeMissing, "the body is not JSON, so that "+p.path+" leads nowhere", p.want)
	}
	got, ok := walk(doc, p.steps)
	switch {
	case !ok:
		return missed(kindPath, codeMissing, p.path+" leads nowhere", p.want)
	case !equal(got, p.want):
		return missed(kindPath, codePredicate, "the value at "+p.path+" is not the expected one", p.want).observed(got)
	default:
		return held(kindPath, map[string]any{"path": p.path, "value": redact(got)})
	}
}

// domContains is dom_contains. Its text has its white space collapsed, and its
// case folded if fold is set.
type domContains struct {
	text     string
	fold     bool
	selector *selector // nil: the whole document
	selected string    // the selector as it was given
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
	var err error
	if c.selector, err = parseSelector(c.selected); err != nil {
		return nil, invalid("the selector of dom_contains " + err.Error())
	}
	return c, nil
}

func (d domContains) check(a *answer) result {
	detail := map[string]any{"matched": true}
	if d.selector != nil {
		detail["selector"] = d.selected
	}
	match := func(content string) bool {
		if d.fold {
			content = fold(content)
		}
		return strings.Contains(content, d.text)
	}
	switch found, elements := search(a.text(), d.selector, match); {
	case found:
		return held(typeDOM, detail)
	case elements == 0 && d.selector != nil:
		return missed(typeDOM, codeText, "no element fits the selector", d.text)
	default:
		return missed(typeDOM, codeText, "the text is not in the body", d.text).observed(redacted)
	}
}

// text reads a member that must be a string.
func text(raw json.RawMessage) (s string, ok bool) {
	return s, first(raw) == '"' && json.Unmarshal(raw, &s) == nil
}

// short bounds a text of the caller in a message.
func short(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
