package check

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// most is how much of a text from outside is repeated, in bytes.
const most = 160

// quote is the beginning of untrusted text, on one line and without anything
// that a terminal would obey. A text with quotation marks is put between others, so
// that no mark is escaped.
func quote(text string) string {
	if strings.Contains(text, `"`) && plain(text) && !strings.ContainsAny(text, "`\\") {
		return "`" + cut(text) + "`"
	}
	quoted := strconv.QuoteToASCII(text[:min(len(text), most+1)])
	return `"` + cut(quoted[1:len(quoted)-1]) + `"`
}

// written is a JSON value as it is written: of a string the text in quotation
// marks, and those once.
func written(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && kind(raw) == "a string" {
		return quote(text)
	}
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil || !plain(line.String()) {
		return quote(string(raw))
	}
	return cut(line.String())
}

func cut(text string) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// plain reports whether a text is printable ASCII.
func plain(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
