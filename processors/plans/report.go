// Package plans performs actions of kind plan: an ordered list of decisions, one call each, and the
// report of their results. This half of it is pure: target states in, calls out; ends of calls in,
// reports and evidence out.
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

// The statuses of a report and of an artifact.
const (
	statusSucceeded = "succeeded"
	statusPartial   = "partial"
	statusFailed    = "failed"
	statusApplied   = "applied"
)

// reasonAllowed is the reason of every decision that was carried out.
const reasonAllowed = "allowlist"

// Step is the result of one decision. A decision fails with a Message; without one it was applied,
// whatever the answer's status.
type Step struct {
	EffectRef string
	// IdempotencyKey is the decision's own, not the target state's.
	IdempotencyKey string
	Message        string
	View           View
	Hash, Snippet  string // of the answer
}

// Report builds the plan's result from its steps, in the plan's order. The same
// steps give the same bytes. Of an effect that stands twice, the last is kept in
// artifact_refs.
func Report(planID *string, snapshot json.RawMessage, steps []Step) schemas.PlanResult {
	refs := make(map[string]schemas.ArtifactRef, len(steps))
	decisions := make([]schemas.PolicyDecision, 0, len(steps))
	failures := make([]string, 0)
	for _, s := range steps {
		d := schemas.PolicyDecision{EffectRef: s.EffectRef, Allowed: true, Reason: reasonAllowed, IdempotencyKey: s.IdempotencyKey}
		if s.Message != "" {
			d.Allowed, d.Reason = false, s.Message
			failures = append(failures, s.Message)
		}
		decisions = append(decisions, d)
		refs[s.EffectRef] = s.artifact()
	}
	status := summary(len(failures), len(steps))
	return schemas.PlanResult{
		Report: schemas.ExecutionReport{
			ReportID: planID, ArtifactRefs: refs, Status: status, PolicyDecisions: decisions, Errors: failures,
			Artifacts: map[string]schemas.ConnectorArtifact{
				schemas.ConnectorAgent: {SnapshotID: snapshotID(snapshot), Requests: refs},
			},
			ExecutionHash: executionHash(refs, decisions, status),
		},
		ActResult: schemas.ActResult{ArtifactRefs: refs, Status: status},
	}
}

func (s Step) artifact() schemas.ArtifactRef {
	if s.Message != "" {
		return schemas.ArtifactRef{Status: statusFailed, Error: &s.Message}
	}
	return schemas.ArtifactRef{
		Status: statusApplied, URL: &s.View.URL, Method: &s.View.Method, Fingerprint: &s.View.Fingerprint,
		ResponseSnippet: &s.Snippet, ResponseHash: &s.Hash,
	}
}

// summary is the report's status: no failure, nothing but failures, or some.
func summary(failed, all int) string {
	switch failed {
	case 0:
		return statusSucceeded
	case all:
		return statusFailed
	default:
		return statusPartial
	}
}

// snapshotID is the snapshot's own id as it came, or null.
func snapshotID(snapshot json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage // a struct would take other spellings of the name
	if err := json.Unmarshal(snapshot, &members); err != nil || members["snapshot_id"] == nil {
		return json.RawMessage("null")
	}
	return members["snapshot_id"]
}

// CallRecord is the payload of the evidence of one call that was answered. Entry
// is the allowlist entry that let it pass.
func CallRecord(effectRef string, v View, status int, hash, snippet, entry string) json.RawMessage {
	return schemas.Encoded(struct {
		EffectRef      string `json:"effect_ref"`
		Method         string `json:"method"`
		URL            string `json:"url"`
		Status         int    `json:"status"`
		Fingerprint    string `json:"request_fingerprint"`
		Hash           string `json:"response_hash"`
		Snippet        string `json:"response_snippet"`
		Entry          string `json:"allowlist"`
		IdempotencyKey string `json:"idempotency_key"`
	}{effectRef, v.Method, v.URL, status, v.Fingerprint, hash, snippet, entry, v.IdempotencyKey})
}

// ClosingRecord is the payload of the evidence that closes a plan.
func ClosingRecord(r schemas.PlanResult) json.RawMessage { return schemas.Encoded(r.ActResult) }

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
