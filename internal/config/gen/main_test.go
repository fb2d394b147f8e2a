package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
)

func TestSchemaIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate()
	require.NoError(t, err)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./internal/config/...")
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := generate()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("weir.json", doc))
	schema, err := c.Compile("weir.json")
	require.NoError(t, err)
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	require.NoError(t, err)
	return schema.Validate(doc)
}

func TestSchemaTakesWhatLoadTakes(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	example, err := os.ReadFile("../../../deploy/weir.example.yaml")
	require.NoError(t, err)
	full, err := os.ReadFile("../testdata/full.yaml")
	require.NoError(t, err)
	for _, text := range []string{
		string(example), string(full), "{}", "limits: {body: 4096}",
		"agents: {'a.b:c': {url: 'http://h', timeout: 0s, concurrency: 1}}",
		"models: {'*': {url: 'http://h', price: {input: 2, output: 0.5, request: '1.5'}}, 'a/b:free': {alias: a/x}}",
		"models: {'a/b/*': {upstreams: [{name: u, url: 'http://h', weight: 2, usage: false}]}}",
	} {
		require.NoError(t, validate(t, schema, []byte(text)), text)
	}
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	for _, text := range []string{
		"lissen: a", "listen: 8092", "log: {durability: paper}", "log: {history: 7d}", "limits: {body: 1MB}", "workers: {slots: '3'}",
		"policy: {allowlist: [{name: a}]}", "policy: {allowlist: [{url_prefix: 'http://h'}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', network: lan}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', redirects: 9}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', limits: {burst: 1}}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', retry: {attempts: 0}}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', methods: [POST], upstream_idempotency: {derive: true}}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', methods: [GET, POST], reconcile: {url: 'http://h'}}]}",
		"policy: {allowlist: [{name: a, url_prefix: 'http://h', response_schema: {schema: {}, mode: loose}}]}",
		"telemetry: {log_level: trace}", "redact_headers: X",
		"agents: [a]", "agents: {T: {}}", "agents: {T: {url: 'http://h', mode: both}}", "agents: {T: {url: 'http://h', tokn: a}}",
		"agents: {ECHO: {url: 'http://h'}}", "agents: {'a b': {url: 'http://h'}}",
		"models: [a]", "models: {'a*b': {url: 'http://h'}}", "models: {'a b': {url: 'http://h'}}", "models: {m: {ulr: 'http://h'}}",
		"models: {m: {upstreams: {a: {url: 'http://h'}}}}", "models: {m: {upstreams: [{url: 'http://h'}]}}",
		"models: {m: {url: 'http://h', price: {input: 1}}}", "models: {m: {url: 'http://h', price: {input: -1, output: 1}}}",
	} {
		require.Error(t, validate(t, schema, []byte(text)), text)
		_, err := config.Parse("", []byte(text), nil, nil)
		require.Error(t, err, text)
	}
}

// TestExampleHasEveryKey compares the example with the keys of the schema.
func TestExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	text, err := generate()
	require.NoError(t, err)
	var schema, example map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	file, err := os.ReadFile("../../../deploy/weir.example.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(string(file), "# log_format:", "log_format:", 1)), &example))
	object := func(v any) map[string]any {
		m, _ := v.(map[string]any)
		return m
	}
	defs := object(schema["$defs"])
	missing := map[string]bool{}
	for def, d := range defs {
		for key := range object(object(d)["properties"]) {
			missing[def+"."+key] = true
		}
	}
	for key := range object(schema["properties"]) {
		missing["."+key] = true
	}
	var walk func(def string, schema map[string]any, value any)
	walk = func(def string, s map[string]any, value any) {
		if ref, ok := s["$ref"].(string); ok {
			def = strings.TrimPrefix(ref, "#/$defs/")
			s = object(defs[def])
		}
		properties, items, others := object(s["properties"]), object(s["items"]), object(s["additionalProperties"])
		switch value := value.(type) {
		case map[string]any:
			for key, v := range value {
				if of, ok := properties[key].(map[string]any); ok {
					delete(missing, def+"."+key)
					walk(def, of, v)
				} else {
					walk(def, others, v)
				}
			}
		case []any:
			for _, v := range value {
				walk(def, items, v)
			}
		}
	}
	walk("", schema, example)
	require.Empty(t, slices.Sorted(maps.Keys(missing)))
}

// Whoever edits the file with the schema at hand sees a sentence for each key.
func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	text, err := generate()
	require.NoError(t, err)
	var doc struct {
		Properties map[string]map[string]any `json:"properties"`
		Defs       map[string]struct {
			Properties map[string]map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Len(t, doc.Properties, 21)
	for key, p := range doc.Properties {
		require.NotEmpty(t, p["description"], key)
	}
	for def, d := range doc.Defs {
		if strings.HasPrefix(def, "Entry") {
			continue // policy describes its own
		}
		for key, p := range d.Properties {
			require.NotEmpty(t, p["description"], def+"."+key)
		}
	}
	require.Contains(t, doc.Defs, "Limits")
	require.Contains(t, doc.Defs, "EntryLimits")
}
