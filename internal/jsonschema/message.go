package jsonschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The most that is shown. The rest is counted.
const (
	maxMessages = 100
	maxNested   = 3  // messages for one alternative
	maxListed   = 10 // names or values in one message
	maxName     = 80 // bytes of a name or value
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

// say is the message without its place.
func say(e *js.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ") + ", is " + k.Got
	case *kind.Enum:
		return "must be one of " + listed(k.Want, shown)
	case *kind.Const:
		return "must be " + shown(k.Want)
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.Not:
		return "must not fit the schema under not"
	case *kind.AnyOf:
		return "fits none of the alternatives: " + alternatives(e)
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			return fmt.Sprintf("must fit one alternative only, fits those at %d and %d", k.Subschemas[0], k.Subschemas[1])
		}
		return "fits none of the alternatives: " + alternatives(e)
	case *kind.PropertyNames:
		return "the property name " + strconv.Quote(plain(k.Property)) + " " + reasons(math.MaxInt, e.Causes...)
	case *kind.Required:
		return "must have " + names(k.Missing)
	case *kind.DependentRequired:
		return "must have " + names(k.Missing) + " where it has " + names([]string{k.Prop})
	case *kind.AdditionalProperties:
		return "must not have " + names(k.Properties)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return "must not hold an item twice"
	case *kind.Contains:
		return "must hold an item that fits the schema under contains"
	case *kind.MinContains:
		return fmt.Sprintf("must hold at least %d items that fit the schema under contains, holds %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must hold at most %d items that fit the schema under contains, holds %d", k.Want, len(k.Got))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.Pattern:
		return "must match the pattern " + plain(k.Want)
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	default:
		return "does not fit"
	}
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

func names(list []string) string {
	return listed(slices.Sorted(slices.Values(list)), func(name string) string { return strconv.Quote(plain(name)) })
}

func listed[T any](values []T, show func(T) string) string {
	var out []string
	for _, v := range values[:min(len(values), maxListed)] {
		out = append(out, show(v))
	}
	if more := len(values) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// shown is a value of the schema.
func shown(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "a given object"
	case []any:
		return "a given array"
	case string:
		return strconv.Quote(plain(v))
	case json.Number:
		return plain(v.String())
	default:
		return fmt.Sprint(cmp.Or(v, any("null")))
	}
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
