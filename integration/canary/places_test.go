//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	published "weir/schemas/json"
)

// place is where a body can hold a text, as the published schemas say: a member that is
// added to a schema is a place too.
type place struct {
	path    []string // the way there; "*" is a member of any name, whose name is the text
	bounded bool     // it has an alphabet or a type that no canary has: it must be refused
}

func (p place) String() string { return strings.Join(p.path, ".") }

type node struct {
	Ref        string           `json:"$ref"`
	Defs       map[string]*node `json:"$defs"`
	AnyOf      []*node          `json:"anyOf"`
	Properties map[string]*node `json:"properties"`
	Additional json.RawMessage  `json:"additionalProperties"`
	Items      *node            `json:"items"`
	Type       any              `json:"type"`
	Enum       []any            `json:"enum"`
	Pattern    string           `json:"pattern"`
}

// UnmarshalJSON reads true, which allows anything, as the empty schema.
func (n *node) UnmarshalJSON(data []byte) error {
	type plain node
	if string(data) == "true" {
		return nil
	}
	return json.Unmarshal(data, (*plain)(n))
}

// placesOf are the places of each form of a body, by the name of its schema.
func placesOf(t *testing.T, name string) map[string][]place {
	t.Helper()
	raw, err := published.Files.ReadFile(name)
	require.NoError(t, err)
	root := decode[node](t, string(raw))
	all := map[string][]place{}
	for _, form := range append(root.AnyOf, &root) {
		if ref := strings.TrimPrefix(form.Ref, "#/$defs/"); ref != "" {
			all[ref] = walk(root.Defs, nil, root.Defs[ref])
			require.NotEmpty(t, all[ref], ref)
		}
	}
	return all
}

func walk(defs map[string]*node, path []string, n *node) (found []place) {
	if n.Ref != "" {
		n = defs[strings.TrimPrefix(n.Ref, "#/$defs/")]
	}
	below := func(names ...string) []string { return append(slices.Clone(path), names...) }
	is := func(kind string) bool {
		list, _ := n.Type.([]any)
		return n.Type == kind || slices.Contains(list, any(kind))
	}
	switch {
	case len(n.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
			found = append(found, walk(defs, below(name), n.Properties[name])...)
		}
		return append(found, place{below("*"), string(n.Additional) == "false"})
	case is("object"):
		value := &node{}
		if len(n.Additional) > 0 && n.Additional[0] == '{' {
			_ = json.Unmarshal(n.Additional, value) // a part of a document that was read
		}
		return append(walk(defs, below("x-member"), value), place{path: below("*")})
	case is("array"):
		return walk(defs, below("0"), n.Items)
	case n.Type == nil && len(n.Enum) == 0: // any JSON
		return []place{{path: below()}, {path: below("deep", "0", "deeper")}, {path: below("deep", "0", "*")}}
	default:
		return []place{{below(), !is("string") || len(n.Enum) > 0 || n.Pattern != ""}}
	}
}

// put is a copy of a document with the text in the place.
func (p place) put(doc object, text string) object {
	raw, _ := json.Marshal(doc) //nolint:errchkjson // a test's own document
	var copied any
	_ = json.Unmarshal(raw, &copied) // it was just written
	made, _ := set(copied, p.path, text).(object)
	return made
}

func set(at any, path []string, text string) any {
	switch {
	case len(path) == 0:
		return text
	case path[0] == "0":
		list, _ := at.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = set(list[0], path[1:], text)
		return list
	}
	m, ok := at.(object)
	if !ok {
		m = object{}
	}
	if path[0] == "*" {
		m[text] = "value"
	} else {
		m[path[0]] = set(m[path[0]], path[1:], text)
	}
	return m
}

// places sends one request for each place of each schema of a request, with a canary there.
func (w *world) places() {
	resp, _ := w.owner.send(http.MethodPost, "/v1/execute", w.json(object{"method": "POST", "url": w.plain.URL() + "/close", "body": 1}))
	bodies := map[string][]string{}
	for line := range strings.Lines(w.section("requests.txtar", "bodies")) {
		m := strings.SplitN(strings.TrimSpace(line), " ", 3)
		bodies[m[0]] = m
	}
	files, err := published.Files.ReadDir(".")
	require.NoError(w.t, err)
	sent, refused := 0, 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".request.json") {
			continue
		}
		for form, places := range placesOf(w.t, f.Name()) {
			if !assert.Contains(w.t, bodies, form, "no test sends it") {
				continue
			}
			for _, p := range places {
				if p.String() == "inquiry" {
					continue // its answer is waited for; see ends
				}
				sent++
				names := map[string]string{"plain": w.plain.URL(), "beacon": beacon, "unknown": resp.Header.Get("Weir-Action-Id"), "sensitive": fmt.Sprintf("%splace.%d", sensitiveRun, sent)}
				path, base := w.expand("", bodies[form][1], names), decode[object](w.t, w.expand("", bodies[form][2], names))
				text := w.g.plant(form + " " + p.String())
				if slices.Contains([]string{"request_id", "tenant", "branch", "pool", "default_branch"}, p.path[len(p.path)-1]) {
					text += " b" // no identifier has a space
				}
				as := w.owner
				if strings.HasPrefix(path, "/agent/") {
					as = w.task(form, nil).person
				}
				status, answer := as.ask(http.MethodPost, path, w.json(p.put(base, text)))
				assert.Equal(w.t, p.path[len(p.path)-1] == "auth_token", status == http.StatusUnauthorized, "%s %s: %s", form, p, answer)
				if p.bounded {
					refused++
					assert.GreaterOrEqual(w.t, status, http.StatusBadRequest, "%s %s: %s", form, p, answer)
				}
				if as != w.owner {
					w.owner.saw(as)
				}
			}
		}
	}
	assert.Greater(w.t, sent, 150)
	assert.Greater(w.t, refused, 20)
}

// with is a document with more members.
func with(doc, more object) object {
	doc = maps.Clone(doc)
	maps.Copy(doc, more)
	return doc
}

// saw adds the answers to another, who acted for the owner, to the owner's.
func (p *person) saw(other *person) { _, _ = p.seen.Write(other.seen.Bytes()) }
