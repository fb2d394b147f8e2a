package jsonschema

import (
	"errors"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// graph is a compiled schema reduced to what decides the cost of judging by it:
// which subschema is applied to which value.
type graph struct {
	root *node
	// unevaluated says that the library copies the members of every container
	// it looks at, for unevaluatedProperties and unevaluatedItems.
	unevaluated bool
}

// node is one subschema.
type node struct {
	constant bool  // true or false
	types    kinds // 0: any
	weight   int   // what its own keywords cost on any value
	values   int   // the size of enum and const
	numeric  bool
	unique   bool
	pattern  *pattern

	here       []*node // applied to the same value
	dependents map[string]*node
	properties map[string]*node
	patterns   []named
	other      *node // additionalProperties
	names      *node
	prefix     []*node
	items      []*node // items, contains, unevaluatedItems
	leftover   *node   // unevaluatedProperties

	state byte // of the search for cycles
}

type named struct {
	pattern *pattern
	to      *node
}

// builder turns the library's schema into nodes, each once.
type builder struct {
	nodes map[*js.Schema]*node
	queue []*js.Schema
	graph *graph
}

var (
	errDialect = errors.New("the schema uses a dialect other than " + Draft)
	errCycle   = errors.New("the schema refers to itself without looking at a smaller part of the document")
)

func newGraph(s *js.Schema) (*graph, error) {
	b := &builder{nodes: make(map[*js.Schema]*node), graph: &graph{}}
	b.graph.root = b.node(s)
	for len(b.queue) > 0 {
		s := b.queue[0]
		b.queue = b.queue[1:]
		if s.DraftVersion != 2020 || !strings.HasPrefix(s.Location, root) {
			return nil, errDialect
		}
		b.fill(b.nodes[s], s)
	}
	for _, n := range b.nodes {
		if n.cyclic() {
			return nil, errCycle
		}
	}
	return b.graph, nil
}

func (b *builder) node(s *js.Schema) *node {
	if s == nil {
		return nil
	}
	if n, ok := b.nodes[s]; ok {
		return n
	}
	n := &node{}
	b.nodes[s] = n
	b.queue = append(b.queue, s)
	return n
}

func (b *builder) all(list ...*js.Schema) []*node {
	var nodes []*node
	for _, s := range list {
		if n := b.node(s); n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (b *builder) fill(n *node, s *js.Schema) {
	if s.Bool != nil {
		n.constant = true
		return
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			n.types |= kindNamed(name)
		}
	}
	if s.Enum != nil {
		n.values += measure(s.Enum.Values)
	}
	if s.Const != nil {
		n.values += measure(*s.Const)
	}
	b.object(n, s)
	n.numeric = s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil
	n.unique = s.UniqueItems
	n.pattern, _ = s.Pattern.(*pattern)
	n.prefix = b.all(s.PrefixItems...)
	n.items = b.all(s.Items2020, s.Contains, s.UnevaluatedItems)
	n.here = b.all(s.Ref, s.Not, s.If, s.Then, s.Else)
	for _, list := range [][]*js.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		n.here = append(n.here, b.all(list...)...)
	}
	if s.DynamicRef != nil {
		// The document is one resource, so that there is one place it can mean.
		n.here = append(n.here, b.all(s.DynamicRef.Ref)...)
	}
	b.graph.unevaluated = b.graph.unevaluated || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
}

// object takes over what applies to objects.
func (b *builder) object(n *node, s *js.Schema) {
	n.weight = 1 + (len(s.Required)+len(s.DependentRequired)+len(s.DependentSchemas))/4
	for _, names := range s.DependentRequired {
		n.weight += len(names) / 4
	}
	n.properties = b.mapped(s.Properties)
	n.dependents = b.mapped(s.DependentSchemas)
	for re, to := range s.PatternProperties {
		p, _ := re.(*pattern)
		n.patterns = append(n.patterns, named{p, b.node(to)})
	}
	if to, ok := s.AdditionalProperties.(*js.Schema); ok {
		n.other = b.node(to)
	}
	n.names = b.node(s.PropertyNames)
	n.leftover = b.node(s.UnevaluatedProperties)
}

func (b *builder) mapped(m map[string]*js.Schema) map[string]*node {
	if len(m) == 0 {
		return nil
	}
	nodes := make(map[string]*node, len(m))
	for name, s := range m {
		nodes[name] = b.node(s)
	}
	return nodes
}

// The states of the search for cycles.
const (
	unseen byte = iota
	open
	done
)

// cyclic reports whether the node is applied, by way of others, to the value it
// is being applied to: that never ends.
func (n *node) cyclic() bool {
	switch n.state {
	case open:
		return true
	case done:
		return false
	}
	n.state = open
	for _, next := range n.here {
		if next.cyclic() {
			return true
		}
	}
	for _, next := range n.dependents {
		if next.cyclic() {
			return true
		}
	}
	n.state = done
	return false
}
