package published_test

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
	"weir/schemas"
	published "weir/schemas/json"
)

// document is read once, which takes seconds.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(published.OpenAPI())
	if err == nil {
		err = doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater())
	}
	return doc, err
})

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := document()
	require.NoError(t, err)
	return doc
}

// TestRoutesOfGitAreDescribed: the page of the HTTP API holds all other routes against those that are served.
func TestRoutesOfGitAreDescribed(t *testing.T) {
	t.Parallel()
	paths := load(t).Paths
	require.NotNil(t, paths.Value("/git/{name}.git/info/refs").Get)
	for _, service := range []string{schemas.GitUploadPack, schemas.GitReceivePack} {
		require.NotNil(t, paths.Value("/git/{name}.git/"+service).Post)
	}
}

// TestEveryBodyHasExamples also holds the examples against their schemas.
func TestEveryBodyHasExamples(t *testing.T) {
	t.Parallel()
	components := componentSchemas(t)
	known := map[string]*jsonschema.Schema{}
	check := func(t *testing.T, where string, content openapi3.Content) {
		t.Helper()
		for media, m := range content {
			require.NotEmpty(t, m.Examples, "%s %s", where, media)
			for name, e := range m.Examples {
				if text, ok := e.Value.Value.(string); ok {
					require.NotEmpty(t, text)
					continue
				}
				require.Empty(t, check(t, known, components, m.Schema).Validate(encoded(t, e.Value.Value)), "%s %s %s", where, media, name)
			}
		}
	}
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
			require.NotEmpty(t, op.Summary, where)
			if op.RequestBody != nil {
				require.Equal(t, where != "POST /v1/policy/reload" && !strings.HasPrefix(path, "/via/"), op.RequestBody.Value.Required, where)
				check(t, where, op.RequestBody.Value.Content)
			}
			for status, r := range op.Responses.Map() {
				require.NotEmpty(t, *r.Value.Description, "%s %s", where, status)
				check(t, where+" "+status, r.Value.Content)
			}
		}
	}
}

// ofModels reports whether a path is of the surface of models, whose protocols have errors of their own.
func ofModels(path string) bool {
	_, ok := schemas.DialectOf(path)
	return ok || strings.HasPrefix(path, schemas.RouteModels)
}

func TestErrorsAreProblems(t *testing.T) {
	t.Parallel()
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if status < "400" || slices.Contains([]string{"/readyz", "/health/ready", "/ready"}, path) {
					continue
				}
				want := "application/problem+json"
				if path == "/v1/execute" || path == "/v1/batch" || path == "/v1/agent-api" || path == "/v1/rules/reset" || strings.HasPrefix(path, "/agents/") ||
					ofModels(path) {
					want = "application/json"
				}
				require.Equal(t, []string{want}, slices.Collect(maps.Keys(r.Value.Content)), "%s %s %s", method, path, status)
				if status == "429" || status == "503" {
					require.Contains(t, r.Value.Headers, "Retry-After", "%s %s %s", method, path, status)
				}
			}
		}
	}
}

// componentSchemas are the components as the $defs of a schema.
func componentSchemas(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(published.OpenAPI(), &doc))
	return doc.Components.Schemas
}

// check compiles a schema of the description, each once.
func check(t *testing.T, known map[string]*jsonschema.Schema, components map[string]json.RawMessage, ref *openapi3.SchemaRef) *jsonschema.Schema {
	t.Helper()
	own := string(encoded(t, ref))
	if known[own] == nil {
		whole := string(encoded(t, map[string]any{"allOf": []json.RawMessage{json.RawMessage(own)}, "$defs": named(components, own)}))
		s, err := jsonschema.Compile(json.RawMessage(strings.ReplaceAll(whole, "#/components/schemas/", "#/$defs/")))
		require.NoError(t, err)
		known[own] = s
	}
	return known[own]
}

// named are the components that a schema names, and those that these name.
func named(components map[string]json.RawMessage, schema string) map[string]json.RawMessage {
	found := map[string]json.RawMessage{}
	for todo := []string{schema}; len(todo) > 0; todo = todo[1:] {
		for _, m := range regexp.MustCompile(`#/components/schemas/([^"]+)`).FindAllStringSubmatch(todo[0], -1) {
			if found[m[1]] == nil {
				found[m[1]] = components[m[1]]
				todo = append(todo, string(components[m[1]]))
			}
		}
	}
	return found
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
