package strict

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/go-json-experiment/json/jsontext"
)

// Fingerprint is the hex SHA-256 of a checked document in canonical form:
// members in order of their names, strings without needless escapes, no white
// space. Numbers keep their spelling, so that two that a float cannot tell
// apart stay two; 1 and 1.0 are different documents.
func Fingerprint(doc []byte) (string, error) {
	h := lineless{Hash: sha256.New()}
	err := jsontext.NewEncoder(&h,
		jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false),
		jsontext.CanonicalizeRawFloats(false),
		jsontext.PreserveRawStrings(false),
	).WriteValue(doc)
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lineless hashes an encoder's output without the final newline: stored fingerprints were made
// without it.
type lineless struct {
	hash.Hash
	held bool
}

func (l *lineless) Write(p []byte) (int, error) {
	if l.held && len(p) > 0 {
		l.held = false
		_, _ = l.Hash.Write([]byte{'\n'}) // never fails
	}
	text, held := bytes.CutSuffix(p, []byte{'\n'})
	l.held = l.held || held
	_, _ = l.Hash.Write(text)
	return len(p), nil
}
