package plans

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode"

	"weir/schemas"
)

// canonical JSON is written by hand: the members of every object in the order of
// their names, no white space between tokens, texts with each line end (CRLF, CR)
// as LF and without white space at their ends, and nothing escaped that JSON does
// not ask to be. Names are left as they are.

// executionHash is the hex SHA-256 of the canonical JSON of artifact_refs,
// policy_decisions and status.
func executionHash(refs map[string]schemas.ArtifactRef, decisions []schemas.PolicyDecision, status string) string {
	list := make([]any, len(decisions))
	for i, d := range decisions {
		list[i] = map[string]any{
			"effect_ref": d.EffectRef, "allowed": d.Allowed, "reason": d.Reason, "idempotency_key": d.IdempotencyKey,
		}
	}
	artifacts := make(map[string]any, len(refs))
	for ref, a := range refs {
		artifacts[ref] = artifact(a)
	}
	var b strings.Builder
	canonical(&b, map[string]any{"artifact_refs": artifacts, "policy_decisions": list, "status": status})
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

func artifact(a schemas.ArtifactRef) map[string]any {
	m := map[string]any{"status": a.Status}
	for name, value := range map[string]*string{
		"url": a.URL, "method": a.Method, "fingerprint": a.Fingerprint,
		"response_snippet": a.ResponseSnippet, "response_hash": a.ResponseHash, "error": a.Error,
	} {
		if value != nil {
			m[name] = *value
		}
	}
	return m
}

// canonical writes a value made of objects, lists, strings and booleans.
func canonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			canonicalString(b, name)
			b.WriteByte(':')
			canonical(b, v[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			canonical(b, item)
		}
		b.WriteByte(']')
	case string:
		canonicalString(b, strings.TrimFunc(strings.ReplaceAll(strings.ReplaceAll(v, "\r\n", "\n"), "\r", "\n"), space))
	case bool:
		if v {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	}
}

// space is Python's white space: Go's, and the four separators of ASCII.
func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func canonicalString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		default:
			if r < 0x20 {
				hexEscape(b, `\u`, r, 4)
				continue
			}
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
