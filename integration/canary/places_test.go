//go:build e2e

package canary_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	published "weir/schemas/json"
)

// place is where a text can stand in the body of a request. Places are read out
// of the published schemas, so that a member that is added is a place too.
type place struct {
	path []string // the members and items on the way; "*" is a member of any name
	// name says that the text is the name of a member and not a value.
	name bool
	// bounded places have an alphabet or a list of their own: no canary fits,
	// and one must be refused.
	bounded bool
}

func (p place) String() string {
	s := strings.Join(p.path, ".")
	if p.name {
		s += " (name)"
	}
	return s
}

// schemaNode is what the walk reads of a JSON Schema.
type schemaNode struct {
	Ref        string                 `json:"$ref"`
	Defs       map[string]*schemaNode `json:"$defs"`
	AnyOf      []*schemaNode          `json:"anyOf"`
	Properties map[string]*schemaNode `json:"properties"`
	Additional json.RawMessage        `json:"additionalProperties"`
	Items      *schemaNode            `json:"items"`
	Type       any                    `json:"type"`
	Enum       []any                  `json:"enum"`
	Pattern    string                 `json:"pattern"`
}

// UnmarshalJSON reads true, which stands for anything, as the empty schema.
func (n *schemaNode) UnmarshalJSON(data []byte) error {
	if string(data) == "true" {
		return nil
	}
	type plain schemaNode
	return json.Unmarshal(data, (*plain)(n))
}

// placesOf are the places of one body, by the name of its schema. A body that
// has several forms has the places of each.
func placesOf(tb testing.TB, name string) map[string][]place {
	tb.Helper()
	raw, err := published.Files.ReadFile(name + ".json")
	require.NoError(tb, err)
	var root schemaNode
	require.NoError(tb, json.Unmarshal(raw, &root))
	all := map[string][]place{}
	refs := []string{root.Ref}
	if len(root.AnyOf) > 0 {
		refs = refs[:0]
		for _, form := range root.AnyOf {
			refs = append(refs, form.Ref)
		}
	}
	for _, ref := range refs {
		form := strings.TrimPrefix(ref, "#/$defs/")
		w := walker{defs: root.Defs}
		w.walk(nil, root.Defs[form])
		require.NotEmpty(tb, w.found, "%s has no place for a text", form)
		all[form] = w.found
	}
	return all
}

type walker struct {
	defs  map[string]*schemaNode
	found []place
}

func (w *walker) walk(path []string, n *schemaNode) {
	if n.Ref != "" {
		n = w.defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
	}
	below := func(name string) []string { return append(slices.Clone(path), name) }
	if len(n.Properties) > 0 {
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			w.walk(below(name), n.Properties[name])
		}
		w.found = append(w.found, place{path: below("*"), name: true, bounded: string(n.Additional) == "false"})
		return
	}
	switch {
	case n.is("object"):
		// Members of any name: each name is a place, and each value.
		value := &schemaNode{}
		if len(n.Additional) > 0 && n.Additional[0] == '{' {
			_ = json.Unmarshal(n.Additional, value) // it was part of a document that was read
		}
		w.found = append(w.found, place{path: below("*"), name: true})
		w.walk(below("x-member"), value)
	case n.is("array"):
		w.walk(below("0"), n.Items)
	case n.Type == nil && len(n.Enum) == 0:
		// Any JSON: a text, and one in the depth of an object, and a name there.
		w.found = append(w.found, place{path: slices.Clone(path)},
			place{path: append(slices.Clone(path), "deep", "0", "deeper")},
			place{path: append(slices.Clone(path), "deep", "0", "*"), name: true})
	default:
		// A place for a number or a flag gets a text as well, and must refuse it.
		w.found = append(w.found, place{path: slices.Clone(path), bounded: !n.is("string") || len(n.Enum) > 0 || n.Pattern != ""})
	}
}

func (n *schemaNode) is(kind string) bool {
	switch t := n.Type.(type) {
	case string:
		return t == kind
	case []any:
		return slices.Contains(t, any(kind))
	default:
		return false
	}
}

// put sets the place in a copy of a document. What stands in its way is made
// into what the way needs.
func (p place) put(doc map[string]any, text string) map[string]any {
	doc, _ = clone(doc).(map[string]any)
	value := any(text)
	last := p.path[len(p.path)-1]
	if p.name {
		last, value = text, "value"
	}
	doc, _ = set(doc, append(slices.Clone(p.path[:len(p.path)-1]), last), value).(map[string]any)
	return doc
}

func set(at any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if path[0] == "0" {
		list, _ := at.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = set(list[0], path[1:], value)
		return list
	}
	m, ok := at.(map[string]any)
	if !ok {
		m = map[string]any{}
	}
	m[path[0]] = set(m[path[0]], path[1:], value)
	return m
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, inner := range v {
			m[k] = clone(inner)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = clone(inner)
		}
		return list
	default:
		return v
	}
}

// parameter is a text that a request has outside of its body.
type parameter struct{ method, path, in, name string }

// parameters are those that the published API names.
func parameters(tb testing.TB, document []byte) []parameter {
	tb.Helper()
	type param struct {
		Ref  string `json:"$ref"`
		In   string `json:"in"`
		Name string `json:"name"`
	}
	var api struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Parameters map[string]param `json:"parameters"`
		} `json:"components"`
	}
	require.NoError(tb, json.Unmarshal(document, &api))
	resolve := func(raw json.RawMessage, into *[]param) {
		var list []param
		require.NoError(tb, json.Unmarshal(raw, &list))
		for _, p := range list {
			if p.Ref != "" {
				p = api.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
			}
			*into = append(*into, p)
		}
	}
	var all []parameter
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		item := api.Paths[path]
		var shared []param
		if raw, ok := item["parameters"]; ok {
			resolve(raw, &shared)
		}
		for _, method := range slices.Sorted(maps.Keys(item)) {
			if method == "parameters" {
				continue
			}
			var op struct {
				Parameters json.RawMessage `json:"parameters"`
			}
			require.NoError(tb, json.Unmarshal(item[method], &op))
			own := slices.Clone(shared)
			if len(op.Parameters) > 0 {
				resolve(op.Parameters, &own)
			}
			for _, p := range own {
				require.NotEmpty(tb, p.Name, "%s %s", method, path)
				all = append(all, parameter{strings.ToUpper(method), path, p.In, p.Name})
			}
		}
	}
	return all
}

// TestPlacesAreEnumerated holds the walk to what is known to be there.
func TestPlacesAreEnumerated(t *testing.T) {
	t.Parallel()
	names := func(form string, places []place) []string {
		var all []string
		for _, p := range places {
			all = append(all, form+" "+p.String())
		}
		return all
	}
	var all []string
	for _, schema := range bodies(t) {
		for form, places := range placesOf(t, schema) {
			all = append(all, names(form, places)...)
		}
	}
	for _, want := range []string{
		"ExecuteRequest args.url", "ExecuteRequest args.headers.* (name)", "ExecuteRequest args.headers.x-member",
		"ExecuteRequest args.body", "ExecuteRequest args.body.deep.0.* (name)", "ExecuteRequest args.timeout_ms",
		"ExecuteRequest idempotency_key", "ExecuteRequest postcondition.deep.0.deeper", "ExecuteRequest * (name)", "ExecuteBare request_id",
		"PlanRequest artifact:proposed.plan.decisions.0.target_state.* (name)", "PlanRequest artifact:proposed.plan.plan_id",
		"PlanRequest state:env.snapshot.x-member.deep.0.deeper", "ResolveRequest note", "TokenRequest entries.0", "ExplainRequest url",
		"RedriveRequest sequence",
	} {
		require.Contains(t, all, want)
	}
}

// bodies are the schemas of what callers send.
func bodies(tb testing.TB) []string {
	tb.Helper()
	files, err := published.Files.ReadDir(".")
	require.NoError(tb, err)
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".request.json"); ok {
			names = append(names, name+".request")
		}
	}
	require.GreaterOrEqual(tb, len(names), 6)
	return names
}
