package plans

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/schemas"
)

// executionHash is the hex SHA-256 of the canonical JSON of artifact_refs,
// policy_decisions and status: the members of every object in the order of
// their names, no white space between tokens, texts with each line end (CRLF, CR)
// as LF and without white space at their ends, and nothing escaped that JSON does
// not ask to be. Names are left as they are.
func executionHash(refs map[string]schemas.ArtifactRef, decisions []schemas.PolicyDecision, status string) string {
	var doc any
	_ = json.Unmarshal(schemas.Encoded(map[string]any{"artifact_refs": refs, "policy_decisions": decisions, "status": status}), &doc) // it was just encoded
	text, _ := jsonv2.Marshal(canonical(doc), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))                            // maps, lists, texts: cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			v[name] = canonical(item)
		}
	case []any:
		for i, item := range v {
			v[i] = canonical(item)
		}
	case string:
		return strings.TrimFunc(strings.ReplaceAll(strings.ReplaceAll(v, "\r\n", "\n"), "\r", "\n"), space)
	}
	return v
}

// space is Python's white space: Go's, and the four separators of ASCII.
func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }
