package jsonschema

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The most that is shown. The rest is counted.
const (
	maxMessages = 100
	maxNested   = 3  // messages for one alternative
	maxListed   = 10 // alternatives in one message
	maxName     = 80 // bytes of a name, pattern or number
	maxMessage  = 1000
)

// messages are the leaves of the library's error, sorted by where they are.
func messages(v *js.ValidationError) []string {
	leaves := sorted(v)
	var out []string
	for i, e := range leaves {
		if len(out) == maxMessages {
			return append(out, fmt.Sprintf("and %d more", len(leaves)-i))
		}
		if m := line(e); len(out) == 0 || out[len(out)-1] != m {
			out = append(out, m)
		}
	}
	return out
}

// sorted returns the errors below the given ones that have a message of their own.
func sorted(list ...*js.ValidationError) []*js.ValidationError {
	var leaves []*js.ValidationError
	for _, e := range list {
		leaves = gather(e, leaves)
	}
	slices.SortStableFunc(leaves, compare)
	return leaves
}

func gather(e *js.ValidationError, leaves []*js.ValidationError) []*js.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			leaves = gather(cause, leaves)
		}
		return leaves
	case nil: // the library did not need the reason
		return leaves
	case *kind.PropertyNames: // its location shares memory with its neighbours
		e.InstanceLocation = nil
	}
	return append(leaves, e)
}

// compare orders by pointer, items by their index, then by text.
func compare(a, b *js.ValidationError) int {
	p, q := a.InstanceLocation, b.InstanceLocation
	for i := range min(len(p), len(q)) {
		if p[i] == q[i] {
			continue
		}
		x, errX := strconv.Atoi(p[i])
		y, errY := strconv.Atoi(q[i])
		if errX == nil && errY == nil && x != y {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(p[i], q[i])
	}
	if c := cmp.Compare(len(p), len(q)); c != 0 {
		return c
	}
	return cmp.Compare(say(a), say(b))
}

func line(e *js.ValidationError) string {
	m := say(e)
	if _, ok := e.ErrorKind.(*kind.PropertyNames); !ok {
		m = point(e.InstanceLocation) + ": " + m
	}
	return cut(m, maxMessage)
}

func point(tokens []string) string {
	var p jsontext.Pointer
	for _, t := range tokens {
		p = p.AppendToken(plain(t))
	}
	return cmp.Or(string(p), "(root)")
}

// say is the message without its place. The library's own messages of numbers and patterns hold the
// value of the document.
func say(e *js.ValidationError) string {
	number := func(keyword string, want *big.Rat) string { return keyword + ": want " + decimal(want) }
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.AnyOf:
		return "fits none of the alternatives: " + alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) < 2 {
			return "fits none of the alternatives: " + alternatives(e)
		}
	case *kind.PropertyNames:
		return "the property name " + strconv.Quote(plain(k.Property)) + " " + reasons(math.MaxInt, e.Causes...)
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.Pattern:
		return "does not match pattern " + plain(k.Want)
	case *kind.Minimum:
		return number("minimum", k.Want)
	case *kind.Maximum:
		return number("maximum", k.Want)
	case *kind.ExclusiveMinimum:
		return number("exclusiveMinimum", k.Want)
	case *kind.ExclusiveMaximum:
		return number("exclusiveMaximum", k.Want)
	case *kind.MultipleOf:
		return number("multipleOf", k.Want)
	case *kind.Type, *kind.Enum, *kind.Const, *kind.Not, *kind.Required, *kind.DependentRequired, *kind.MinProperties, *kind.MaxProperties,
		*kind.MinItems, *kind.MaxItems, *kind.UniqueItems, *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.MinLength, *kind.MaxLength:
	default:
		return "does not fit"
	}
	return cut(strings.ReplaceAll(e.ErrorKind.LocalizedString(message.NewPrinter(language.English)), "<nil>", "null"), maxMessage)
}

// alternatives gives the reasons why each alternative does not fit.
func alternatives(e *js.ValidationError) string {
	var parts []string
	for i, cause := range e.Causes[:min(len(e.Causes), maxListed)] {
		parts = append(parts, fmt.Sprintf("(%d) %s", i, reasons(len(e.InstanceLocation), cause)))
	}
	if more := len(e.Causes) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return cut(strings.Join(parts, " "), maxMessage)
}

// reasons joins the first messages of some errors; each names its place below the given depth.
func reasons(depth int, list ...*js.ValidationError) string {
	why := sorted(list...)
	var said []string
	for _, w := range why[:min(len(why), maxNested)] {
		m := say(w)
		if len(w.InstanceLocation) > depth {
			m = point(w.InstanceLocation[depth:]) + " " + m
		}
		said = append(said, m)
	}
	return strings.Join(said, ", ")
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return plain(r.Num().String())
	}
	return new(big.Float).SetRat(r).Text('g', 17)
}

func plain(s string) string { return cut(s, maxName) }

// cut shortens a text to so many bytes, at a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit] + "…"
}
