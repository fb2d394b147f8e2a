package schemas_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
	"weir/schemas"
	"weir/schemas/gen/document"
)

// foreign are the generated files that another generator writes.
var foreign = []string{"weir.config.json"}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	want, err := document.All(".")
	require.NoError(t, err)
	require.Greater(t, len(want), 15)
	again, err := document.All(".")
	require.NoError(t, err)
	require.Equal(t, want, again, "the same types give the same bytes")
	files, err := filepath.Glob("json/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(want)+len(foreign), "a file that nothing generates, or one that is missing")
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join("json", name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(have, text), "%s is out of date: run go generate ./schemas", name)
		if name != "openapi.json" {
			schema(t, filepath.Join("json", name))
		}
	}
}

// schema compiles a generated file, which must describe itself.
func schema(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := jsonschema.Compile(text)
	require.NoError(t, err, file)
	require.Contains(t, string(text), `"title"`, file)
	return s
}

// The bodies that the translators accept fit the published schemas. What they
// refuse often does so for reasons that a schema cannot say.
func TestAcceptedBodiesFitTheSchemas(t *testing.T) {
	t.Parallel()
	for surface, file := range map[string]string{"executor": "json/execute.request.json", "plans": "json/plan.request.json", "runs": "json/run.request.json"} {
		s := schema(t, file)
		cases, err := filepath.Glob(surface + "/testdata/valid/*.txtar")
		require.NoError(t, err)
		require.NotEmpty(t, cases)
		for _, c := range cases {
			if strings.Contains(c, "denied_") {
				continue // stored for its denial alone, whatever else is wrong with it
			}
			require.Empty(t, s.Validate(request(t, c)), c)
		}
		for _, c := range []string{"unknown_member", "list", "empty_object", "case_variant"} {
			if surface == "runs" && c == "unknown_member" {
				continue // a run's are ignored
			}
			require.NotEmpty(t, s.Validate(request(t, surface+"/testdata/invalid/"+c+".txtar")), c)
		}
	}
}

// The surface of tasks has a schema a body, by the first word of a case's name.
func TestAcceptedBodiesOfTasksFitTheSchemas(t *testing.T) {
	t.Parallel()
	documents := map[string]string{
		"task": "task.request", "answer": "task.answer.request", "lease": "task.lease.request", "repo": "repo.request",
		"complete": "agent.complete.request", "fail": "agent.fail.request", "inquiry": "agent.inquiry.request",
	}
	seen := map[string]bool{}
	cases, err := filepath.Glob("tasks/testdata/valid/*.txtar")
	require.NoError(t, err)
	for _, c := range cases {
		word, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(c), ".txtar"), "_")
		require.Contains(t, documents, word, c)
		seen[word] = true
		require.Empty(t, schema(t, "json/"+documents[word]+".json").Validate(request(t, c)), c)
	}
	require.Len(t, seen, len(documents))
	for c, file := range map[string]string{
		"task_unknown_member": "task", "task_case_variant": "task", "task_budget_negative": "task", "answer_missing": "answer", "lease_wait_long": "lease", "repo_unknown": "repo",
		"repo_name_upper": "repo", "complete_list": "complete", "complete_missing": "complete", "fail_reason_unknown": "fail", "inquiry_empty": "inquiry",
	} {
		require.NotEmpty(t, schema(t, "json/"+documents[file]+".json").Validate(request(t, "tasks/testdata/invalid/"+c+".txtar")), c)
	}
}

// request is the body in a case's file.
func request(t *testing.T, file string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "-- request.json --\n")
	require.True(t, ok, file)
	body, _, _ := strings.Cut(rest, "\n-- ")
	return json.RawMessage(body)
}

func TestVocabulariesHaveNoDoubles(t *testing.T) {
	t.Parallel()
	distinct(t, schemas.SettleCodes())
	distinct(t, schemas.IngressCodes())
	distinct(t, schemas.Variants())
	distinct(t, schemas.Scopes())
	distinct(t, schemas.TaskStatuses())
	require.Len(t, schemas.Statuses(), 3+len(schemas.Outcomes()))
	for i, s := range schemas.TaskStatuses() {
		require.Equal(t, i > 1, s.Final(), s)
	}
}

func distinct[T comparable](t *testing.T, words []T) {
	t.Helper()
	seen := map[T]bool{}
	for _, w := range words {
		require.False(t, seen[w], w)
		seen[w] = true
	}
}
