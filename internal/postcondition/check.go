package postcondition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"weir/schemas"
)

// answer is an answer whose body is read at most once in either way.
type answer struct {
	schemas.Answer
	read bool
	doc  any
	err  error

	page *string
}

// json is the body as a document. A body that came as text is none.
func (a *answer) json() (any, error) {
	if !a.read {
		a.read = true
		if a.doc, a.err = decode(a.Body); a.err == nil && !a.JSON && a.Hash != "" {
			a.err = errNotJSON
		}
	}
	return a.doc, a.err
}

// text is the body as the upstream sent it, or, of a JSON string, its content.
func (a *answer) text() string {
	if a.page == nil {
		s, ok := text(a.Body)
		if !ok && !bytes.Equal(a.Body, []byte("null")) {
			s = string(a.Body)
		}
		a.page = &s
	}
	return *a.page
}

// statusEquals is http_status. Any integer can be wanted, also one that is no status.
type statusEquals struct{ want json.Number }

func (s statusEquals) check(a *answer) result {
	got := json.Number(strconv.Itoa(a.Status))
	if sameNumber(got.String(), s.want.String()) {
		return held(typeStatus, status(got))
	}
	message := fmt.Sprintf("expected status %s, observed %s", short(s.want.String()), got)
	return missed(typeStatus, codeStatus, message, status(s.want)).observed(status(got))
}

func status(n json.Number) map[string]any { return map[string]any{"status": n} }

// pathEquals is json_path.
type pathEquals struct {
	path  string
	steps []step
	want  any
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
// case folded where case does not count.
type domContains struct {
	text     string
	fold     bool
	selector *selector // nil: the whole document
	selected string    // the selector as it was given
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
