package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
	published "weir/schemas/json"
)

// served are the paths of the routes of a node, by the method and path of the OpenAPI document, which has
// a route once that is served below several base URLs; and the scopes of each.
func served(t *testing.T, doc *apiDocument) (paths, scopes map[string][]string) {
	t.Helper()
	paths, scopes = map[string][]string{}, map[string][]string{}
	parameter := regexp.MustCompile(`[:*]([a-z]+)`)
	for _, s := range allSurfaces(tokenNode.node(t)) {
		if s.Name == "console" || s.Name == "docs" || s.Name == "git" {
			continue // pages, and what git's clients ask for
		}
		for _, r := range s.Routes {
			if r.Method == http.MethodHead {
				continue // GET again
			}
			path := parameter.ReplaceAllString(r.Path, "{$1}")
			name := r.Method + " " + doc.below(path)
			paths[name] = append(paths[name], path)
			scopes[name] = r.Scopes
		}
	}
	return paths, scopes
}

// below is a path without the base URL that the document leaves out.
func (d *apiDocument) below(path string) string {
	for rest := path; rest != ""; {
		if d.Paths[rest] != nil {
			return rest
		}
		next := strings.IndexByte(rest[1:], '/')
		if next < 0 {
			break
		}
		rest = rest[1+next:]
	}
	return path
}

// apiDocument is the part of an OpenAPI document that the page shows.
type apiDocument struct {
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Parameters map[string]apiParameter `json:"parameters"`
		Responses  map[string]apiResponse  `json:"responses"`
	} `json:"components"`
}

type apiOperation struct {
	Summary     string         `json:"summary"`
	Description string         `json:"description"`
	Tags        []string       `json:"tags"`
	Parameters  []apiParameter `json:"parameters"`
	RequestBody struct {
		Content map[string]apiContent `json:"content"`
	} `json:"requestBody"` //nolint:tagliatelle // a member of OpenAPI
	Responses map[string]apiResponse `json:"responses"`
}

type apiParameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
}

type apiResponse struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Content     map[string]apiContent `json:"content"`
}

type apiContent struct {
	Schema json.RawMessage `json:"schema"`
}

var reference = regexp.MustCompile(`"#/components/schemas/([A-Za-z0-9]+)"`)

// schemaNames are the components that contents refer to.
func schemaNames(content map[string]apiContent) string {
	var names []string
	for _, media := range slices.Sorted(maps.Keys(content)) {
		for _, m := range reference.FindAllSubmatch(content[media].Schema, -1) {
			names = append(names, "`"+string(m[1])+"`")
		}
	}
	return strings.Join(slices.Compact(names), " or ")
}

// routesPage lists the routes of the OpenAPI document. They are those of the surfaces, and no others.
func routesPage(t *testing.T) string {
	t.Helper()
	var doc apiDocument
	require.NoError(t, json.Unmarshal(published.OpenAPI(), &doc))
	paths, scopes := served(t, &doc)
	sections, documented := map[string][]string{}, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		shared := []apiParameter{}
		if raw, ok := doc.Paths[path]["parameters"]; ok {
			require.NoError(t, json.Unmarshal(raw, &shared))
		}
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			if method == "parameters" {
				continue
			}
			var op apiOperation
			require.NoError(t, json.Unmarshal(doc.Paths[path][method], &op))
			name := strings.ToUpper(method) + " " + path
			if !strings.HasPrefix(path, schemas.RouteGit+"/") {
				documented[name] = true
			}
			op.Parameters = append(shared, op.Parameters...)
			require.NotEmpty(t, op.Tags, name)
			sections[op.Tags[0]] = append(sections[op.Tags[0]], routeText(&doc, &op, name, path, paths[name], scopes[name]))
		}
	}
	for name := range paths {
		assert.True(t, documented[name], "%s is served, and the OpenAPI document lacks it", name)
	}
	for name := range documented {
		assert.Contains(t, paths, name, "the OpenAPI document has it, and no node serves it")
	}
	var b strings.Builder
	for _, tag := range doc.Tags {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n%s", strings.ToUpper(tag.Name[:1])+tag.Name[1:], sentence(tag.Description), strings.Join(sections[tag.Name], ""))
	}
	b.WriteString("## Common parameters\n\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Parameters)) {
		p := doc.Components.Parameters[name]
		fmt.Fprintf(&b, "- %s `%s`: %s\n", p.In, p.Name, prose(p.Description))
	}
	return b.String()
}

// routeText is what the page says of one route.
func routeText(doc *apiDocument, op *apiOperation, name, path string, paths, scopes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### `%s`\n\n%s %s\n\n", name, sentence(op.Summary), sentence(op.Description))
	if len(scopes) > 0 {
		fmt.Fprintf(&b, "- scope: `%s`\n", strings.Join(scopes, "` or `"))
	}
	if also := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == path }); len(also) > 0 {
		fmt.Fprintf(&b, "- also served at `%s`\n", strings.Join(also, "`, `"))
	}
	var shared []string
	for _, p := range op.Parameters {
		if p.Ref != "" {
			shared = append(shared, "`"+doc.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]].Name+"`")
			continue
		}
		fmt.Fprintf(&b, "- %s `%s`: %s\n", p.In, p.Name, prose(p.Description))
	}
	if len(shared) > 0 {
		fmt.Fprintf(&b, "- common parameters: %s\n", strings.Join(shared, ", "))
	}
	if body := schemaNames(op.RequestBody.Content); body != "" {
		fmt.Fprintf(&b, "- body: %s\n", body)
	}
	fmt.Fprintf(&b, "- answers: %s\n\n", answers(doc, op))
	return b.String()
}

// answers are the statuses of an operation, with the schema of each group of them.
func answers(doc *apiDocument, op *apiOperation) string {
	var b strings.Builder
	last := ""
	for i, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		if r.Ref != "" {
			r = doc.Components.Responses[r.Ref[strings.LastIndexByte(r.Ref, '/')+1:]]
		}
		of := schemaNames(r.Content)
		switch {
		case i == 0:
		case of == last:
			b.WriteString(", ")
		default:
			b.WriteString(strings.TrimRight(" "+last, " ") + "; ")
		}
		b.WriteString(status)
		last = of
	}
	return strings.TrimSpace(b.String() + " " + last)
}
