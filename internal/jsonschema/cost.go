package jsonschema

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the evaluation of one document. In a step the library applies
// one small subschema to one small value: under a microsecond, and up to 300
// bytes if that fails.
const maxSteps = 600_000

// maxScope bounds the depth of the library's own recursion.
const maxScope = 2048

var (
	errDialect = errors.New("the schema uses a dialect other than " + Draft)
	errCycle   = errors.New("the schema refers to itself without looking at a smaller part of the document")
	errCostly  = errors.New("the schema is too costly to check a document with; it may apply itself too often")
)

// node is what one subschema adds to the library's representation.
type node struct {
	here   []*js.Schema // applied to the same value
	weight int          // the cost of its own keywords on any value
	values int          // the size of enum and const
	state  byte         // of the search for cycles
}

// newSchema refuses a compiled schema whose cost has no bound.
func newSchema(root *js.Schema) (*Schema, error) {
	s := &Schema{root: root, nodes: make(map[*js.Schema]*node)}
	for queue := []*js.Schema{root}; len(queue) > 0; {
		sub := queue[0]
		queue = queue[1:]
		if sub == nil || s.nodes[sub] != nil {
			continue
		}
		if sub.DraftVersion != 2020 || !strings.HasPrefix(sub.Location, address) {
			return nil, errDialect
		}
		s.nodes[sub] = newNode(sub)
		s.unevaluated = s.unevaluated || sub.UnevaluatedItems != nil || sub.UnevaluatedProperties != nil
		queue = append(append(queue, s.nodes[sub].here...), parts(sub)...)
	}
	for sub := range s.nodes {
		if s.cyclic(sub) {
			return nil, errCycle
		}
	}
	if !s.useful() {
		return nil, errCostly
	}
	return s, nil
}

func newNode(s *js.Schema) *node {
	n := &node{here: inPlace(s)}
	if s.Not != nil {
		n.here = append(n.here, s.Not)
	}
	if s.Enum != nil {
		n.values += measure(s.Enum.Values)
	}
	if s.Const != nil {
		n.values += measure(*s.Const)
	}
	n.weight = 1 + (len(s.Required)+len(s.DependentRequired)+len(s.DependentSchemas))/4
	for _, names := range s.DependentRequired {
		n.weight += len(names) / 4
	}
	return n
}

// inPlace are the subschemas that describe the same value as a schema, without a condition on its members.
func inPlace(s *js.Schema) []*js.Schema {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*js.Schema{s.Ref, s.If, s.Then, s.Else})
	if s.DynamicRef != nil { // the document is one resource: it has one possible target
		list = append(list, s.DynamicRef.Ref)
	}
	return slices.DeleteFunc(list, func(s *js.Schema) bool { return s == nil })
}

// parts are the subschemas that apply to parts of a value, or on a condition; some are nil.
func parts(s *js.Schema) []*js.Schema {
	list := append([]*js.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Items2020, s.Contains, s.UnevaluatedItems}, s.PrefixItems...)
	list = slices.AppendSeq(list, maps.Values(s.Properties))
	list = slices.AppendSeq(list, maps.Values(s.PatternProperties))
	list = slices.AppendSeq(list, maps.Values(s.DependentSchemas))
	other, _ := s.AdditionalProperties.(*js.Schema)
	return append(list, other)
}

// The states of the search for cycles.
const (
	unseen byte = iota
	open
	done
)

// cyclic reports whether a subschema applies itself, through others, to the same
// value. Its evaluation would never end.
func (s *Schema) cyclic(sub *js.Schema) bool {
	n := s.nodes[sub]
	if n.state != unseen {
		return n.state == open
	}
	n.state = open
	if slices.ContainsFunc(n.here, s.cyclic) || slices.ContainsFunc(slices.Collect(maps.Values(sub.DependentSchemas)), s.cyclic) {
		return true
	}
	n.state = done
	return false
}

// affordable reports whether a document can be evaluated within bounds.
func (s *Schema) affordable(doc any) bool {
	m := &meter{Schema: s, left: maxSteps, seed: maphash.MakeSeed()}
	m.apply(s.root, doc, 0)
	return m.left >= 0
}

// useful reports whether the smallest document of at least one type can be
// evaluated within bounds. Otherwise, the schema's author gets the error before a call.
func (s *Schema) useful() bool {
	return slices.ContainsFunc([]any{nil, true, json.Number("0"), "", []any{}, map[string]any{}}, s.affordable)
}

// meter counts the cost of an evaluation. It follows the library's way through
// the schema without its short cuts, and stops once left is negative.
type meter struct {
	*Schema
	left int
	seed maphash.Seed
}

// apply counts the cost of one subschema, if not nil, on one value.
func (m *meter) apply(s *js.Schema, v any, scope int) {
	if s == nil || m.left < 0 {
		return
	}
	if s.Bool != nil {
		m.left--
		return
	}
	if scope > maxScope {
		m.left = -1
		return
	}
	n := m.nodes[s]
	m.left -= n.weight + scope/16 // the library searches all enclosing scopes for cycles
	if s.Types != nil && !s.Types.IsEmpty() && *s.Types&typeOf(v) == 0 {
		return
	}
	m.left -= n.values
	switch v := v.(type) {
	case map[string]any:
		m.object(s, v, scope+1)
	case []any:
		m.array(s, v, scope+1)
	case string:
		m.left -= len(v) / 512
		m.match(s.Pattern, v)
	case json.Number:
		m.left -= arithmetic(s, v)
	}
	for _, next := range n.here {
		m.apply(next, v, scope+1)
	}
}

// typeOf returns the library's set of the types that a value has. The difference
// between integers and other numbers matters to the result, not to the cost.
func typeOf(v any) (types js.Types) {
	switch v.(type) {
	case nil:
		types.Add("null")
	case bool:
		types.Add("boolean")
	case json.Number:
		types.Add("number")
		types.Add("integer")
	case string:
		types.Add("string")
	case []any:
		types.Add("array")
	default:
		types.Add("object")
	}
	return types
}

// arithmetic is the cost of comparing a number with the schema's: exact numbers
// are as long as their exponents are large.
func arithmetic(s *js.Schema, v json.Number) int {
	e := exponent(v)
	e = max(e, -e)
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return e / 128
	}
	return 1 + len(v)/8 + e/16
}

// match counts the cost of a pattern, if not nil, on a text: it is linear in both.
// It reports whether the evaluation is still within bounds.
func (m *meter) match(re js.Regexp, text string) bool {
	if p, ok := re.(*pattern); ok {
		m.left -= 1 + (len(text)+1)*(p.size+8)/128
	}
	return m.left >= 0
}

func (m *meter) object(s *js.Schema, v map[string]any, scope int) {
	m.left -= len(v) / 8
	if m.unevaluated {
		m.left -= len(v)
	}
	other, _ := s.AdditionalProperties.(*js.Schema)
	for name, item := range v {
		next, evaluated := s.Properties[name]
		m.apply(next, item, scope)
		for re, to := range s.PatternProperties {
			if m.match(re, name) && re.MatchString(name) {
				evaluated = true
				m.apply(to, item, scope)
			}
		}
		if !evaluated {
			m.apply(other, item, scope)
		}
		if s.PropertyNames != nil {
			m.apply(s.PropertyNames, name, scope)
		}
		m.apply(s.UnevaluatedProperties, item, scope)
	}
	for name, next := range s.DependentSchemas {
		if _, ok := v[name]; ok {
			m.apply(next, v, scope)
		}
	}
}

func (m *meter) array(s *js.Schema, v []any, scope int) {
	if m.unevaluated {
		m.left -= len(v)
	}
	if s.UniqueItems {
		m.distinct(v)
	}
	for i, next := range s.PrefixItems[:min(len(v), len(s.PrefixItems))] {
		m.apply(next, v[i], scope)
	}
	for _, next := range []*js.Schema{s.Items2020, s.Contains, s.UnevaluatedItems} {
		for i := 0; next != nil && i < len(v); i++ {
			m.apply(next, v[i], scope)
		}
	}
}

// distinct counts the cost of uniqueItems. The library compares items whose
// hashes are equal. Its hash of a list or object does not include the ends of
// members: thousands of such items can be made to collide.
func (m *meter) distinct(v []any) {
	seen := make(map[uint64]int)
	for _, item := range v {
		size := measure(item)
		if m.left -= size; m.left < 0 {
			return
		}
		var h maphash.Hash
		h.SetSeed(m.seed)
		mix(&h, item)
		sum := h.Sum64()
		others := seen[sum]
		if len(v) <= 20 { // the library compares each with each
			others = len(v) / 2
		}
		m.left -= others * size
		seen[sum]++
	}
}

// mix writes the bytes of the library's hash, or bytes that are equal whenever
// those are. No write to a hash fails.
func mix(h *maphash.Hash, v any) {
	switch v := v.(type) {
	case map[string]any:
		_ = h.WriteByte(0)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			mix(h, name)
			mix(h, v[name])
		}
	case []any:
		_ = h.WriteByte(1)
		for _, item := range v {
			mix(h, item)
		}
	case nil:
		_ = h.WriteByte(2)
	case bool:
		b := byte(0)
		if v {
			b = 1
		}
		_, _ = h.Write([]byte{3, b})
	case string:
		_ = h.WriteByte(4)
		_, _ = h.WriteString(v)
	case json.Number:
		_ = h.WriteByte(5)
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			_, _ = h.Write(r.Num().Bytes())
			_, _ = h.Write(r.Denom().Bytes())
		}
	}
}

// measure is the size of a value in small values: a text counts by its length, a
// number by its digits.
func measure(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			n += 1 + len(name)/512 + measure(item)
		}
	case []any:
		for _, item := range v {
			n += measure(item)
		}
	case string:
		n += len(v) / 512
	case json.Number:
		n += len(v) / 8
	}
	return n
}
