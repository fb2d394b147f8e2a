package reconcile

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// part is a piece of a URL: text, or the value of an expression.
type part struct {
	text  string
	value cel.Program // nil: the text
}

// parse compiles a URL's template. A placeholder may only follow the host and port, which the operator
// alone chooses.
func parse(env *cel.Env, template string) ([]part, error) {
	const member = "url"
	scheme, rest, ok := strings.Cut(template, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, &Error{Member: member, Reason: "it is not an absolute URL; begin it with https:// or http://"}
	}
	if end := strings.IndexAny(rest, "/?"); end <= 0 || strings.Contains(rest[:end], "{") {
		return nil, &Error{Member: member, Reason: "the scheme, host and port must be written out, followed by a path; placeholders may only follow them"}
	}
	var parts []part
	for at := 0; at < len(template); {
		begin := strings.IndexAny(template[at:], "{}#")
		if begin < 0 {
			parts = append(parts, part{text: template[at:]})
			break
		}
		begin += at
		position := len([]rune(template[:begin])) + 1
		switch template[begin] {
		case '#':
			return nil, &Error{Member: member, Position: position, Reason: "a fragment is never sent; remove it"}
		case '}':
			return nil, &Error{Member: member, Position: position, Reason: "this brace closes no placeholder; write it as %7D"}
		}
		length := strings.IndexAny(template[begin+1:], "{}")
		if length < 0 || template[begin+1+length] == '{' {
			return nil, &Error{Member: member, Position: position, Reason: "the placeholder is not closed; write {expression}, without braces in it"}
		}
		program, kind, err := compile(env, member, template[begin+1:begin+1+length], position)
		if err != nil {
			return nil, err
		}
		if !placeable(kind) {
			return nil, &Error{Member: member, Position: position, Reason: "the value is of type " + kind.String() + "; a URL takes a string, a number or a bool"}
		}
		if at < begin {
			parts = append(parts, part{text: template[at:begin]})
		}
		parts = append(parts, part{value: program})
		at = begin + length + 2
	}
	return parts, nil
}

func placeable(kind *cel.Type) bool {
	return slices.ContainsFunc([]*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType, cel.DynType}, kind.IsExactType)
}

// errValue does not name the value: it is the caller's.
var errValue = errors.New("a placeholder of the probe's URL has no value that can be placed in a URL")

// maxValue bounds the value of a placeholder.
const maxValue = 1024

// URL is the probe's URL for a request. Values are percent-escaped so that each stays within its
// segment or parameter. A value that is empty, or consists of dots, would change which resource is
// named: then there is no URL.
func (p *Probe) URL(r Request) (string, error) {
	vars := r.variables()
	var b strings.Builder
	for _, part := range p.url {
		if part.value == nil {
			b.WriteString(part.text)
			continue
		}
		v, _, err := part.value.Eval(vars)
		if err != nil {
			return "", errValue
		}
		text, ok := textOf(v)
		if !ok || len(text) > maxValue || strings.Trim(text, ".") == "" {
			return "", errValue
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	}
	return b.String(), nil
}

// Example is a URL that the template may give.
func (p *Probe) Example() string {
	var b strings.Builder
	for _, part := range p.url {
		if part.value != nil {
			b.WriteByte('x')
		}
		b.WriteString(part.text)
	}
	return b.String()
}

func textOf(v ref.Val) (string, bool) {
	switch v := v.(type) {
	case types.String:
		return string(v), true
	case types.Int:
		return strconv.FormatInt(int64(v), 10), true
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), true
	case types.Double:
		return strconv.FormatFloat(float64(v), 'f', -1, 64), true
	case types.Bool:
		return strconv.FormatBool(bool(v)), true
	default:
		return "", false
	}
}
