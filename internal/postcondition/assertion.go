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
type assertion struct {
	kind  string // in a report
	check func(a *answer) result
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

// parseAssertion reads one assertion of a valid document.
func parseAssertion(raw json.RawMessage) (a assertion, _ *Error) {
	if first(raw) != '{' {
		return a, invalid("an assertion must be an object")
	}
	var m members
	_ = json.Unmarshal(raw, &m)
	if m.Type == nil {
		return a, invalid("an assertion must have a type")
	}
	name, ok := text(m.Type)
	if !ok {
		return a, invalid("the type of an assertion must be a string")
	}
	switch name {
	case typeStatus:
		return parseStatus(m)
	case typePath:
		return parsePathEquals(m)
	case typeDOM:
		return parseContains(m)
	default:
		return a, &Error{Variant: schemas.VariantUnsupportedPostcondition, Message: "no such type of assertion: '" + short(name) + "'"}
	}
}

// parseStatus reads http_status. It accepts any integer, also one that is no status.
func parseStatus(m members) (assertion, *Error) {
	n, ok := parseNumber(string(m.Equals))
	if !ok {
		return assertion{}, invalid("http_status must have a number in equals")
	}
	if !n.IsInt() {
		return assertion{}, invalid("equals of http_status must be an integer")
	}
	text := strings.TrimSpace(string(m.Equals))
	if f, err := strconv.ParseFloat(text, 64); err == nil && 0 <= f && f < 1e9 {
		text = strconv.Itoa(int(f))
	}
	want := json.Number(text)
	return assertion{typeStatus, func(a *answer) result {
		got := json.Number(strconv.Itoa(a.Status))
		detail := map[string]any{"status": got}
		if sameNumber(got, want) {
			return held(typeStatus, detail)
		}
		message := fmt.Sprintf("expected status %s, observed %s", short(text), got)
		return missed(typeStatus, codeStatus, message, map[string]any{"status": want}).observed(detail)
	}}, nil
}

// parsePathEquals reads json_path.
func parsePathEquals(m members) (assertion, *Error) {
	path, ok := text(m.Path)
	if !ok {
		return assertion{}, invalid("json_path must have a string in path")
	}
	if m.Equals == nil {
		return assertion{}, invalid("json_path must have equals")
	}
	steps, err := parsePath(path)
	if err != nil {
		return assertion{}, invalid("the path of json_path " + err.Error())
	}
	want, err := decode(m.Equals)
	if err != nil {
		return assertion{}, invalid("equals of json_path cannot be read")
	}
	return assertion{kindPath, func(a *answer) result {
		doc, err := a.json()
		if err != nil {
			return missed(kindPath, codeMissing, "the body is not JSON, so that "+path+" leads nowhere", want)
		}
		got, ok := walk(doc, steps)
		switch {
		case !ok:
			return missed(kindPath, codeMissing, path+" leads nowhere", want)
		case !equal(got, want):
			return missed(kindPath, codePredicate, "the value at "+path+" is not the expected one", want).observed(got)
		default:
			return held(kindPath, map[string]any{"path": path, "value": redact(got)})
		}
	}}, nil
}

// parseContains reads dom_contains. White space in its text is collapsed.
func parseContains(m members) (assertion, *Error) {
	want, ok := text(m.Text)
	if !ok {
		return assertion{}, invalid("dom_contains must have a string in text")
	}
	if want = collapse(want); want == "" {
		return assertion{}, invalid("the text of dom_contains must not be empty")
	}
	match := func(content string) bool { return strings.Contains(content, want) }
	switch string(m.CaseInsensitive) {
	case "", "null", "false":
	case "true":
		want = fold(want)
		match = func(content string) bool { return strings.Contains(fold(content), want) }
	default:
		return assertion{}, invalid("case_insensitive of dom_contains must be a boolean")
	}
	var within *selector // nil: the whole document
	detail := map[string]any{"matched": true}
	if m.Selector != nil && string(m.Selector) != "null" {
		selected, ok := text(m.Selector)
		if !ok {
			return assertion{}, invalid("the selector of dom_contains must be a string")
		}
		var err error
		if within, err = parseSelector(selected); err != nil {
			return assertion{}, invalid("the selector of dom_contains " + err.Error())
		}
		detail["selector"] = selected
	}
	return assertion{typeDOM, func(a *answer) result {
		switch found, elements := search(a.text(), within, match); {
		case found:
			return held(typeDOM, detail)
		case elements == 0 && within != nil:
			return missed(typeDOM, codeText, "no element fits the selector", want)
		default:
			return missed(typeDOM, codeText, "the text is not in the body", want).observed(redacted)
		}
	}}, nil
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
