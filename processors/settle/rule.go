package settle

import (
	"encoding/json"
	"slices"
	"time"

	"weir/schemas"
)

// rule is the treatment of a member of a sensitive record. The zero rule seals both its name and
// its value, so that a new member stays hidden until it has a rule.
type rule int

const (
	unknown  rule = iota
	hashed        // its name stays
	keep          // it stays where it is of Weir's own making, see own
	leaveOut      // not even a hash: a snippet is a part of something that has one
	effects       // a plan's effects under their own names
	nested        // an object of Weir's own making, by the rules of its members
	words         // a list of words, each as keep has it
)

// rule is the treatment of a member of the current record.
func (w *sealing) rule(member string) rule {
	if w.kind == schemas.EvidenceChat {
		return chatRule(member)
	}
	return ruleOf(member)
}

// ruleOf is the whole list of the members that records have, but for those of models'
// calls; see chatRule.
func ruleOf(member string) rule {
	switch member {
	case "step", "attempt", "hop", "probe", "effect", "schema_code", "schema_mode", "schema_violations", "effects", "duration_ms", "sent",
		"status", "method", "class", "code", "worker", "allowlist", "entry",
		"timestamp", "operation", "result":
		return keep
	case "request_fingerprint", "fingerprint", "target", "url",
		"request_digest", "response_hash", "execution_hash",
		"effect_ref", "idempotency_key", "error", "reason",
		"caller", "request_id", "rule_id", "rules_etag_before", "rules_etag_after":
		return hashed
	case "artifact_refs":
		return effects
	case "response_snippet":
		return leaveOut
	default:
		return unknown
	}
}

// own reports whether a member that may stay has a value of Weir's own making
// and not one that a caller or a target could have chosen.
func (w *sealing) own(member string, v json.RawMessage) bool {
	var x any
	if json.Unmarshal(v, &x) != nil {
		return false
	}
	if w.kind == schemas.EvidenceChat {
		return w.ownOfChat(member, x)
	}
	switch x := x.(type) {
	case bool:
		return member == "sent"
	case float64:
		switch member {
		case "step", "attempt", "hop", "probe", "schema_violations", "effects", "duration_ms", "status":
			return true
		}
	case string:
		return w.word(member, x)
	}
	return false
}

// word reports whether a text is of the closed set that its member has.
func (w *sealing) word(member, text string) bool {
	switch member {
	case "status":
		return slices.Contains([]string{"applied", "succeeded", "partial", "failed"}, text)
	case "method":
		return schemas.KnownMethod(text)
	case "class":
		return schemas.Class(text).Repeatable() || schemas.Class(text) == schemas.ClassOnce
	case "effect":
		return text == schemas.EffectApplied || text == schemas.EffectNotApplied
	case "schema_mode":
		return slices.Contains([]string{"strict", "warn", "redact"}, text)
	case "code", "schema_code":
		return slices.Contains(append(schemas.SettleCodes(), schemas.DoorCodes()...), schemas.Code(text))
	case "worker":
		return schemas.ValidID(text)
	case "allowlist", "entry":
		return text == w.entry
	case "timestamp":
		_, err := time.Parse(time.RFC3339Nano, text)
		return err == nil
	case "operation":
		return text == schemas.OpRulesReset || slices.Contains(schemas.AgentWrites(), text)
	case "result":
		return text == schemas.RuleWritten || w.word("code", text)
	default:
		return false
	}
}
