package jsonschema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/jsonschema"
	"weir/internal/weirtest/table"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]struct{ schema, doc, want string }{
		"unnamed members":        {`{"properties": {"id": {}}}`, `{"id": 1, "ssn": "x", "a": {"b": [1]}}`, `{"id":1}`},
		"order and bytes":        {`{"properties": {"a": {}, "b": {}, "\u00e9": {}}}`, `{"b": 1.50e+1, "\u00e9": "\u0041\/", "x": 0, "a": 12345678901234567890}`, `{"b":1.50e+1,"\u00e9":"\u0041\/","a":12345678901234567890}`},
		"no object":              {`{"properties": {"id": {}}}`, `[{"id": 1, "x": 2}, 3]`, `[{},3]`},
		"a text":                 {`{"properties": {"id": {}}}`, `"text"`, `"text"`},
		"nested":                 {`{"properties": {"a": {"properties": {"b": {}}}}}`, `{"a": {"b": 1, "c": 2}}`, `{"a":{"b":1}}`},
		"a named object":         {`{"properties": {"a": {"type": "object"}}}`, `{"a": {"b": 1}}`, `{"a":{}}`},
		"true":                   {`{"properties": {"a": true}}`, `{"a": {"b": [{"c": 1}]}}`, `{"a":{"b":[{"c":1}]}}`},
		"additional true":        {`{"properties": {"a": {"properties": {"x": {}}}}, "additionalProperties": true}`, `{"a": {"x": 1, "y": 2}, "z": {"q": 1}}`, `{"a":{"x":1},"z":{"q":1}}`},
		"additional false":       {`{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1, "b": 2}`, `{"a":1}`},
		"additional schema":      {`{"additionalProperties": {"properties": {"x": {}}}}`, `{"a": {"x": 1, "y": 2}}`, `{"a":{"x":1}}`},
		"unevaluated":            {`{"unevaluatedProperties": {"properties": {"x": {}}}}`, `{"a": {"x": 1, "y": 2}}`, `{"a":{"x":1}}`},
		"pattern":                {`{"patternProperties": {"^x-": {}}}`, `{"x-a": 1, "y": 2}`, `{"x-a":1}`},
		"items":                  {`{"items": {"properties": {"id": {}}}}`, `[{"id": 1, "x": 2}, {"x": 3}]`, `[{"id":1},{}]`},
		"prefix items":           {`{"prefixItems": [{"properties": {"a": {}}}], "items": {"properties": {"b": {}}}}`, `[{"a": 1, "b": 2}, {"a": 1, "b": 2}]`, `[{"a":1},{"b":2}]`},
		"combined":               {`{"allOf": [{"properties": {"a": {}}}], "anyOf": [{"properties": {"b": {}}}], "oneOf": [{"properties": {"c": {}}}], "if": {"properties": {"d": {}}}}`, `{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}`, `{"a":1,"b":2,"c":3,"d":4}`},
		"not names nothing":      {`{"not": {"properties": {"a": {}}}}`, `{"a": 1}`, `{}`},
		"a reference to itself":  {`{"$defs": {"n": {"properties": {"id": {}, "next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}`, `{"id": 1, "x": 0, "next": {"id": 2, "x": 0}}`, `{"id":1,"next":{"id":2}}`},
		"a name with an escape":  {`{"properties": {"a": {}}}`, `{"\u0061": 1, "b": 2}`, `{"\u0061":1}`},
		"a member twice":         {`{"properties": {"a": {}}}`, `{"a": 1, "b": 2, "a": 3}`, `{"a":1,"a":3}`},
		"the schema true itself": {`true`, `{"a": {"b": 1}}`, `{"a":{"b":1}}`},
	}, func(t *testing.T, tt struct{ schema, doc, want string }) {
		s, err := jsonschema.Compile(json.RawMessage(tt.schema))
		require.NoError(t, err)
		got, err := s.Prune(json.RawMessage(tt.doc))
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(got))
		again, err := s.Prune(got)
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(again))
	})
	s, err := jsonschema.Compile(json.RawMessage(`{}`))
	require.NoError(t, err)
	_, err = s.Prune(json.RawMessage(`{"a": `))
	require.Error(t, err)
}

// TestPruneKeepsWhatFits: a document with no other members than the schema names stays what it is.
func TestPruneKeepsWhatFits(t *testing.T) {
	t.Parallel()
	s, err := jsonschema.Compile(json.RawMessage(`{
		"$defs": {"v": {"properties": {"a": {"$ref": "#/$defs/v"}, "b": {"$ref": "#/$defs/v"}}, "additionalProperties": false, "items": {"$ref": "#/$defs/v"}}},
		"$ref": "#/$defs/v"}`))
	require.NoError(t, err)
	var draw func(t *rapid.T, depth int, names []string) any
	draw = func(t *rapid.T, depth int, names []string) any {
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 || depth == 0:
			return rapid.String().Draw(t, "text")
		case kind == 1:
			list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
			for i := range list {
				list[i] = draw(t, depth-1, names)
			}
			return list
		default:
			m := map[string]any{}
			for _, name := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "names") {
				m[name] = draw(t, depth-1, names)
			}
			return m
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		fits, err := json.Marshal(draw(t, 4, []string{"a", "b"}))
		require.NoError(t, err)
		got, err := s.Prune(fits)
		require.NoError(t, err)
		require.Equal(t, string(fits), string(got))

		other, err := json.Marshal(draw(t, 4, []string{"a", "b", "secret"}))
		require.NoError(t, err)
		got, err = s.Prune(other)
		require.NoError(t, err)
		require.Empty(t, s.Validate(got), "%s", other)
	})
}
