package jsonschema

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
)

// maxSteps bounds the judging of one document. A step is about what the library
// needs to apply one small subschema to one small value: under a microsecond,
// and up to 300 bytes where that fails.
const maxSteps = 600_000

// maxScope bounds how deep the library's own recursion goes.
const maxScope = 2048

// meter counts what judging would cost, following the library's way through the
// schema without its short cuts. It stops at the bound, and so costs less.
type meter struct {
	left        int
	unevaluated bool
	seed        maphash.Seed
}

// affordable reports whether a document can be judged within bounds.
func (g *graph) affordable(doc any) bool {
	m := &meter{left: maxSteps, unevaluated: g.unevaluated, seed: maphash.MakeSeed()}
	return m.apply(g.root, doc, 0)
}

// useful reports whether documents of at least one type can be judged within
// bounds, where they are as small as can be. Of a schema that no document can be
// held against, its author had better hear before a call is made than after.
func (g *graph) useful() bool {
	return slices.ContainsFunc([]any{nil, true, json.Number("0"), "", []any{}, map[string]any{}}, g.affordable)
}

func (m *meter) spend(n int) bool {
	m.left -= n
	return m.left >= 0
}

// apply counts the cost of one subschema on one value; false means that the
// bound is reached.
func (m *meter) apply(n *node, v any, scope int) bool {
	if n.constant {
		return m.spend(1)
	}
	// The library looks through all enclosing scopes for cycles.
	if scope > maxScope || !m.spend(n.weight+scope/16) {
		return false
	}
	if n.types != 0 && n.types&kindOf(v) == 0 {
		return true
	}
	if n.values > 0 && !m.spend(n.values) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		if !m.object(n, v, scope+1) {
			return false
		}
	case []any:
		if !m.array(n, v, scope+1) {
			return false
		}
	case string:
		if !m.spend(len(v)/512) || n.pattern != nil && !m.match(n.pattern, v) {
			return false
		}
	case json.Number:
		if !m.spend(n.arithmetic(v)) {
			return false
		}
	}
	for _, next := range n.here {
		if !m.apply(next, v, scope+1) {
			return false
		}
	}
	return true
}

// match is linear in both the text and the pattern, whatever the pattern.
func (m *meter) match(p *pattern, text string) bool {
	return m.spend(1 + (len(text)+1)*(p.size+8)/128)
}

func (m *meter) object(n *node, v map[string]any, scope int) bool {
	if m.unevaluated && !m.spend(len(v)) {
		return false
	}
	looks := len(n.properties) > 0 || len(n.patterns) > 0 || n.other != nil || n.names != nil || n.leftover != nil
	if !m.spend(len(v) / 8) {
		return false
	}
	if looks {
		for name, item := range v {
			if !m.property(n, name, item, scope) {
				return false
			}
		}
	}
	for name, next := range n.dependents {
		if _, ok := v[name]; ok && !m.apply(next, v, scope) {
			return false
		}
	}
	return true
}

func (m *meter) property(n *node, name string, v any, scope int) bool {
	next, evaluated := n.properties[name]
	if evaluated && !m.apply(next, v, scope) {
		return false
	}
	for _, p := range n.patterns {
		if !m.match(p.pattern, name) {
			return false
		}
		if !p.pattern.MatchString(name) {
			continue
		}
		evaluated = true
		if !m.apply(p.to, v, scope) {
			return false
		}
	}
	if !evaluated && n.other != nil && !m.apply(n.other, v, scope) {
		return false
	}
	if n.names != nil && !m.apply(n.names, name, scope) {
		return false
	}
	return n.leftover == nil || m.apply(n.leftover, v, scope)
}

func (m *meter) array(n *node, v []any, scope int) bool {
	if m.unevaluated && !m.spend(len(v)) || n.unique && !m.distinct(v) {
		return false
	}
	for i, next := range n.prefix {
		if i < len(v) && !m.apply(next, v[i], scope) {
			return false
		}
	}
	for _, next := range n.items {
		for _, item := range v {
			if !m.apply(next, item, scope) {
				return false
			}
		}
	}
	return true
}

// distinct counts the cost of uniqueItems. The library compares items whose
// hashes are equal, and its hash of a list or object does not tell where one
// member ends: such items can be made to collide by the thousand.
func (m *meter) distinct(v []any) bool {
	seen := make(map[uint64]int)
	for _, item := range v {
		size := measure(item)
		if !m.spend(size) {
			return false
		}
		var h maphash.Hash
		h.SetSeed(m.seed)
		mix(&h, item)
		sum := h.Sum64()
		others := seen[sum]
		if len(v) <= 20 { // the library compares each with each
			others = len(v) / 2
		}
		if !m.spend(others * size) {
			return false
		}
		seen[sum]++
	}
	return true
}

// mix writes the bytes of the library's hash, or bytes that collide whenever
// those do.
func mix(h *maphash.Hash, v any) {
	switch v := v.(type) {
	case map[string]any:
		_ = h.WriteByte(0) // no write to a hash fails
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
		num, denom := ratBytes(v)
		_, _ = h.Write(num)
		_, _ = h.Write(denom)
	}
}
