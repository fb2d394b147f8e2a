package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/jsonschema"
)

// FuzzReference puts a reference wherever a schema can have one. One that leads
// out of its document is refused, in words that do not repeat it, and nothing is
// loaded; one that leads into it leads somewhere or is refused as well.
func FuzzReference(f *testing.F) {
	for _, ref := range []string{
		"#", "#/$defs/a", "#a", "#/nowhere", "file:///etc/passwd", "FILE:///etc/passwd", "http://127.0.0.1:1/", "https://json-schema.org/draft/2020-12/schema", "mem:///schema", "mem:///schema#", "other.json", "/etc/passwd",
		"//host/share", "", " #", "\t#", "#\n", "?#", "urn:uuid:4f7b1d3e", "data:application/json,{}", "..", "#/%24defs/a", "#/$defs/a/../b", "%23", "jar:file:///a!/b",
	} {
		f.Add(ref, uint8(0))
		f.Add(ref, uint8(1))
		f.Add(ref, uint8(2))
	}
	f.Fuzz(func(t *testing.T, ref string, place uint8) {
		text, err := json.Marshal(ref)
		require.NoError(t, err)
		form := []string{
			`{"$ref":R,"$defs":{"a":{"$anchor":"a"}}}`,
			`{"properties":{"x":{"anyOf":[{"$dynamicRef":R}]}},"$defs":{"a":{"$dynamicAnchor":"a"}}}`,
			`{"$defs":{"a":{"items":{"$ref":R}}},"$ref":"#/$defs/a"}`,
			`{"$schema":R}`, `{"$defs":{"a":{"$id":R}}}`, `{"$id":R,"$ref":"#"}`,
		}[place%6]
		s, err := jsonschema.Compile(json.RawMessage(strings.ReplaceAll(form, "R", string(text))))
		inside := strings.HasPrefix(strings.ToValidUTF8(ref, "\uFFFD"), "#")
		if place%6 < 3 && !inside {
			require.Error(t, err, "a reference that leads out")
		}
		if err != nil {
			require.Nil(t, s)
			if len(ref) > 8 && !strings.Contains(form+jsonschema.Draft+words, ref) {
				require.NotContains(t, err.Error(), ref)
			}
			return
		}
		_ = s.Validate(json.RawMessage(`{"x":[1,{"a":null}]}`))
	})
}

// words are what errors say whatever was asked.
const words = "the schema may not refer to other documents a $ref in the schema leads nowhere an anchor stands twice must begin with"
