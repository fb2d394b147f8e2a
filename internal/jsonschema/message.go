package jsonschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// What is shown at most. The rest is counted.
const (
	maxMessages = 100
	maxNested   = 3  // messages for one alternative
	maxListed   = 10 // names or values in one message
	maxName     = 80 // bytes of a name or value
	maxMessage  = 1000
)

// messages are the leaves of the library's error, sorted by where they are.
func messages(v *js.ValidationError) []string {
	leaves := gather(v, nil)
	slices.SortStableFunc(leaves, compare)
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

func first(list []string) string {
	if len(list) == 0 {
		return "no reason is known"
	}
	return list[0]
}

// gather collects the errors that say something themselves.
func gather(e *js.ValidationError, leaves []*js.ValidationError) []*js.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			leaves = gather(cause, leaves)
		}
		return leaves
	case nil: // an error that nobody wanted to know
		return leaves
	default:
		return append(leaves, e)
	}
}

// compare orders by pointer, items by their index, then by text.
func compare(a, b *js.ValidationError) int {
	p, q := location(a), location(b)
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

// location is where the error is. The library's answer for propertyNames is not
// to be trusted: it shares memory with the locations of its neighbours.
func location(e *js.ValidationError) []string {
	if _, ok := e.ErrorKind.(*kind.PropertyNames); ok {
		return nil
	}
	return e.InstanceLocation
}

func line(e *js.ValidationError) string {
	m := say(e)
	if _, ok := e.ErrorKind.(*kind.PropertyNames); !ok {
		m = point(e.InstanceLocation) + ": " + m
	}
	return cut(m, maxMessage)
}

func point(tokens []string) string {
	if len(tokens) == 0 {
		return "(root)"
	}
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(plain(t)))
	}
	return b.String()
}

// say is the message without its place.
func say(e *js.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ") + ", is " + k.Got
	case *kind.Enum:
		return "must be one of " + listed(k.Want)
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
		return "the property name " + strconv.Quote(plain(k.Property)) + " " + nested(e)
	default:
		return sayOf(k)
	}
}

// sayOf is say for what stands alone: objects, arrays, strings, numbers.
func sayOf(k js.ErrorKind) string {
	switch k := k.(type) {
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

// alternatives says why each alternative does not fit.
func alternatives(e *js.ValidationError) string {
	var parts []string
	for i, cause := range e.Causes {
		if i == maxListed {
			parts = append(parts, fmt.Sprintf("and %d more", len(e.Causes)-i))
			break
		}
		why := gather(cause, nil)
		slices.SortStableFunc(why, compare)
		var said []string
		for _, w := range why[:min(len(why), maxNested)] {
			m := say(w)
			if len(w.InstanceLocation) > len(e.InstanceLocation) {
				m = point(w.InstanceLocation[len(e.InstanceLocation):]) + " " + m
			}
			said = append(said, m)
		}
		parts = append(parts, fmt.Sprintf("(%d) %s", i, strings.Join(said, ", ")))
	}
	return cut(strings.Join(parts, " "), maxMessage)
}

func nested(e *js.ValidationError) string {
	why := make([]*js.ValidationError, 0, len(e.Causes))
	for _, cause := range e.Causes {
		why = gather(cause, why)
	}
	slices.SortStableFunc(why, compare)
	var said []string
	for _, w := range why[:min(len(why), maxNested)] {
		said = append(said, say(w))
	}
	return strings.Join(said, ", ")
}

func names(list []string) string {
	sorted := slices.Sorted(slices.Values(list))
	quoted := make([]string, 0, len(sorted))
	for i, n := range sorted {
		if i == maxListed {
			quoted = append(quoted, fmt.Sprintf("%d more", len(sorted)-i))
			break
		}
		quoted = append(quoted, strconv.Quote(plain(n)))
	}
	return strings.Join(quoted, ", ")
}

// listed shows values of the schema.
func listed(values []any) string {
	var out []string
	for i, v := range values {
		if i == maxListed {
			out = append(out, fmt.Sprintf("%d more", len(values)-i))
			break
		}
		out = append(out, shown(v))
	}
	return strings.Join(out, ", ")
}

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
