package published_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
	"weir/schemas"
	published "weir/schemas/json"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(published.OpenAPI())
	require.NoError(t, err)
	return doc
}

func TestDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	require.NoError(t, load(t).Validate(t.Context(), openapi3.IsOpenAPI31OrLater()))
}

func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	want := []string{
		"GET /agent/task", "GET /git/{name}.git/info/refs",
		"GET /health", "GET /health/ready", "GET /healthz", "GET /metrics", "GET /models", "GET /models/{id}", "GET /openapi.json", "GET /ready", "GET /readyz", "GET /responses/{id}", "GET /sandbox",
		"GET /v1/actions", "GET /v1/actions/{id}", "GET /v1/actions/{id}/events", "GET /v1/actions/{id}/payload", "GET /v1/actions/{id}/response", "GET /v1/backup", "GET /v1/budgets", "GET /v1/dead-letters", "GET /v1/evidence", "GET /v1/operations",
		"GET /v1/policy", "GET /v1/repos", "GET /v1/repos/{name}", "GET /v1/rules", "GET /v1/stats", "GET /v1/tasks", "GET /v1/tasks/{id}", "GET /v1/tasks/{id}/events", "GET /v1/tokens", "GET /v1/usage",
		"POST /agent/inquiry", "POST /agent/output", "POST /agent/task/complete", "POST /agent/task/fail", "POST /agent/task/subtokens",
		"POST /agents/run/stream", "POST /agents/run/sync", "POST /chat/completions",
		"POST /embeddings", "POST /messages", "POST /messages/count_tokens", "POST /responses", "POST /responses/{id}/cancel",
		"POST /git/{name}.git/git-receive-pack", "POST /git/{name}.git/git-upload-pack",
		"POST /v1/actions/{id}/cancel", "POST /v1/actions/{id}/redrive", "POST /v1/actions/{id}/resolve", "POST /v1/agent-api", "POST /v1/batch", "POST /v1/dead-letters/redrive", "POST /v1/execute",
		"POST /v1/operations/pause", "POST /v1/operations/pin", "POST /v1/operations/resume", "POST /v1/operations/unpin", "POST /v1/plans",
		"POST /v1/policy/explain", "POST /v1/policy/reload", "POST /v1/repos",
		"POST /v1/rules/preview", "POST /v1/rules/record", "POST /v1/rules/reset",
		"POST /v1/tasks", "POST /v1/tasks/lease", "POST /v1/tasks/lease/release", "POST /v1/tasks/{id}/answer", "POST /v1/tasks/{id}/cancel", "POST /v1/tasks/{id}/token",
		"POST /v1/tokens", "POST /v1/tokens/{id}/revoke",
	}
	var got []string
	ids := map[string]bool{}
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			got = append(got, method+" "+path)
			require.NotEmpty(t, op.Summary, path)
			require.False(t, ids[op.OperationID], "%s stands twice", op.OperationID)
			ids[op.OperationID] = true
		}
	}
	for _, method := range []string{"DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"} {
		want = append(want, method+" /via/{entry}", method+" /via/{entry}/{path}")
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
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
				require.Empty(t, judge(t, known, components, m.Schema).Validate(encoded(t, e.Value.Value)), "%s %s %s", where, media, name)
			}
		}
	}
	for path, item := range load(t).Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
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

func TestHeadersAreDescribed(t *testing.T) {
	t.Parallel()
	doc := load(t)
	sent := func(path, method string) []string {
		var names []string
		for _, p := range doc.Paths.Value(path).GetOperation(method).Parameters {
			if p.Value.In == "header" {
				names = append(names, p.Value.Name)
			}
		}
		return names
	}
	require.Equal(t, []string{"Idempotency-Key", "Prefer", "Weir-Delay", "Weir-Not-Before", "Weir-Priority"}, sent("/v1/execute", http.MethodPost))
	require.Equal(t, []string{"Idempotency-Key", "Prefer", "Weir-Delay", "Weir-Not-Before", "Weir-Priority"}, sent("/v1/plans", http.MethodPost))
	require.Equal(t, []string{"Prefer", "Weir-Delay", "Weir-Not-Before", "Weir-Priority"}, sent("/agents/run/sync", http.MethodPost))
	require.Equal(t, []string{"Prefer"}, sent("/v1/agent-api", http.MethodPost))
	require.Equal(t, []string{"Last-Event-ID", "Weir-Delay", "Weir-Not-Before", "Weir-Priority"}, sent("/agents/run/stream", http.MethodPost))
	require.Equal(t, []string{"Last-Event-ID"}, sent("/v1/actions/{id}/events", http.MethodGet))
	require.Equal(t, []string{"Last-Event-ID"}, sent("/v1/evidence", http.MethodGet))
	for _, path := range []string{"/v1/execute", "/v1/plans"} {
		for _, status := range []int{200, 202} {
			require.Contains(t, doc.Paths.Value(path).Post.Responses.Status(status).Value.Headers, "Weir-Action-Id")
		}
		require.Contains(t, doc.Paths.Value(path).Post.Responses.Status(202).Value.Headers, "Location")
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

// judge compiles a schema of the description, each once.
func judge(t *testing.T, known map[string]*jsonschema.Schema, components map[string]json.RawMessage, ref *openapi3.SchemaRef) *jsonschema.Schema {
	t.Helper()
	own := string(encoded(t, ref))
	if known[own] == nil {
		whole := string(encoded(t, map[string]any{"allOf": []json.RawMessage{json.RawMessage(own)}, "$defs": components}))
		s, err := jsonschema.Compile(json.RawMessage(strings.ReplaceAll(whole, "#/components/schemas/", "#/$defs/")))
		require.NoError(t, err)
		known[own] = s
	}
	return known[own]
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}
