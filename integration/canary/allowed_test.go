//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// content is what a record of evidence says of a call's content, because a
// protocol demands it. Evidence is its tenant's alone and is to be kept like the
// content itself. Every other member is free of content, and so is all of a
// record in a subject or a header.
//
//	builtin.http_connector   the records that the connector's protocol defines: the
//	                         effect's own name, the final URL, its path and the names
//	                         of its parameters, the first 512 characters of the answer
//	                         and the hash of its bytes, and the key that went out; the
//	                         closing record repeats the same of every effect
//	http.attempt             path and names of parameters (request_fingerprint), the
//	                         hash of the answer (response_hash) and of the request
//	                         (request_digest)
//	policy.decision          path and names of parameters (target)
//	git.push                 the ref that was asked for: the task's branch, which is a
//	                         name, but of a push that was denied any text
//	rule.write               the agent's request_id, which is any text
//	chat.completion          nothing: names of models are no content, see unnamed
//
// Of a call that a traffic rule redirected, traffic.target has path and names of
// parameters of where it went.
//
// Of a sensitive run evidence holds none of that: such a record is searched as it is.
func content(kind string) []string {
	switch kind {
	case schemas.EvidenceConnector:
		return []string{"effect_ref", "url", "request_fingerprint", "response_snippet", "response_hash", "idempotency_key", "artifact_refs"}
	case schemas.EvidenceAttempt:
		return []string{"request_fingerprint", "request_digest", "response_hash"}
	case schemas.EvidenceDecision:
		return []string{"target"}
	case schemas.EvidencePush:
		return []string{"ref"}
	case schemas.EvidenceRuleWrite:
		return []string{"request_id"}
	default:
		return nil
	}
}

// beyond is a record without its content.
func beyond(tb testing.TB, record []byte) []byte {
	tb.Helper()
	if sensitive(record) {
		return append(bytes.TrimSpace(record), '\n')
	}
	var e map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(record, &e), "%s", record)
	var kind string
	require.NoError(tb, json.Unmarshal(e["kind"], &kind))
	e["payload"] = without(tb, e["payload"], content(kind)...)
	if kind == schemas.EvidenceChat {
		e["payload"] = unnamed(tb, e["payload"])
	}
	if traffic, ok := e["traffic"]; ok {
		e["traffic"] = without(tb, traffic, "target")
	}
	raw, err := json.Marshal(e)
	require.NoError(tb, err)
	return append(raw, '\n')
}

// without is a document without some of its members.
func without(tb testing.TB, document []byte, members ...string) []byte {
	tb.Helper()
	var m map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(document, &m), "%s", document)
	for _, name := range members {
		delete(m, name)
	}
	raw, err := json.Marshal(m)
	require.NoError(tb, err)
	return append(bytes.TrimSpace(raw), '\n')
}
