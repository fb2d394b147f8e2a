package plans

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

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

// text is a value as Python's str() has it: a string's content, True, False and
// None, integers digit by digit, floats in their shortest form, and lists and
// objects as literals. Controllers of this protocol expect no other spelling.
func text(raw json.RawMessage) string {
	if s, ok := str(raw); ok {
		return s
	}
	var b strings.Builder
	literal(&b, raw)
	return b.String()
}

// literal writes a value as Python's repr() has it.
func literal(b *strings.Builder, raw json.RawMessage) {
	switch raw[0] {
	case 'n':
		b.WriteString("None")
	case 't':
		b.WriteString("True")
	case 'f':
		b.WriteString("False")
	case '"':
		s, _ := str(raw)
		quote(b, s)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // valid: it is part of what was read
		b.WriteByte('[')
		for i, item := range list {
			separate(b, i)
			literal(b, item)
		}
		b.WriteByte(']')
	case '{':
		b.WriteByte('{')
		for i, m := range members(raw) {
			separate(b, i)
			quote(b, m.name)
			b.WriteString(": ")
			literal(b, m.value)
		}
		b.WriteByte('}')
	default:
		b.WriteString(numeral(string(raw)))
	}
}

func separate(b *strings.Builder, i int) {
	if i > 0 {
		b.WriteString(", ")
	}
}

// numeral is a JSON number: an integer as it is written, anything else as the
// shortest text of the float it is read as.
func numeral(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			return "0"
		}
		return s
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range is an infinity
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	scientific := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(scientific, "e")
	if e, _ := strconv.Atoi(exponent); e < -4 || e >= 16 {
		return scientific
	}
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	return plain
}

// quote writes a string literal: in single quotes, unless it holds some and no
// double ones.
func quote(b *strings.Builder, s string) {
	mark := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	b.WriteRune(mark)
	for _, r := range s {
		switch {
		case r == mark || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(mark)
}
