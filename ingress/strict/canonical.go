package strict

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint is the hex SHA-256 of a checked document in canonical form:
// members in order of their names, strings without needless escapes, no white
// space. Numbers keep their spelling, so that two that a float cannot tell
// apart stay two; 1 and 1.0 are different documents.
func Fingerprint(doc []byte) (string, error) {
	v := jsontext.Value(append(make([]byte, 0, len(doc)+len(doc)/8), doc...))
	err := v.Format(
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false),
	)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(v)
	return hex.EncodeToString(sum[:]), nil
}
