package listing

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"weir/internal/models/listed"
	"weir/internal/redact"
	"weir/schemas"
)

// page is one answer of a provider.
type page struct {
	models []schemas.ListedModel
	// next is the id after which the next page begins; empty: there is none.
	next string
}

// parse reads a list in the form of OpenAI or of Anthropic. It leaves out members that it cannot
// read, and models whose name callers could not write or holds a secret.
func parse(doc json.RawMessage) (p page, isList bool) {
	list := gjson.ParseBytes(doc)
	data := list.Get("data")
	if !list.IsObject() || !data.IsArray() {
		return p, false
	}
	for _, m := range data.Array() {
		if l := model(m); schemas.ValidModel(l.ID) && !strings.Contains(l.ID, redact.Mark) {
			p.models = append(p.models, l)
		}
	}
	if last := text(list.Get("last_id")); list.Get("has_more").Type == gjson.True && schemas.ValidModel(last) {
		p.next = last
	}
	return p, true
}

func model(m gjson.Result) schemas.ListedModel {
	l := schemas.ListedModel{ID: text(m.Get("id")), DisplayName: display(text(m.Get("display_name"))), Created: created(m)}
	for _, name := range []string{"context_length", "max_model_len", "context_window", "max_input_tokens"} {
		if n := number(m.Get(name)); n > 0 && n <= maxContext {
			l.Context = n
			break
		}
	}
	return l
}

const (
	maxContext = 1_000_000_000 // as in the configuration
	maxDisplay = 128
)

// created is when a model was made, as Unix time; 0: unknown.
func created(m gjson.Result) int64 {
	n := number(m.Get("created"))
	if at, err := time.Parse(time.RFC3339, text(m.Get("created_at"))); n == 0 && err == nil {
		n = at.Unix()
	}
	if n < 0 || time.Unix(n, 0).UTC().Year() > 9999 {
		return 0
	}
	return n
}

// display is a name for people, or empty where it is no plain text.
func display(name string) string {
	if utf8.RuneCountInString(name) > maxDisplay || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return name
}

// text is a copy of a JSON string; empty for anything else.
func text(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return strings.Clone(v.Str)
}

// number is a JSON integer; 0 for anything else.
func number(v gjson.Result) int64 {
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// join adds the models of a further page up to the limits. full reports that some are left out.
func join(all, more []schemas.ListedModel) (joined []schemas.ListedModel, full bool) {
	seen, size := make(map[string]bool, len(all)), 0
	weigh := func(m schemas.ListedModel) int { return len(m.ID) + len(m.DisplayName) + overhead }
	for _, m := range all {
		seen[m.ID], size = true, size+weigh(m)
	}
	for _, m := range more {
		if seen[m.ID] {
			continue
		}
		if len(all) == listed.MaxModels || size+weigh(m) > listed.MaxBytes {
			return all, true
		}
		seen[m.ID], size = true, size+weigh(m)
		all = append(all, m)
	}
	return all, false
}

// overhead is what the record of a model has beside its texts, at most.
const overhead = 100
