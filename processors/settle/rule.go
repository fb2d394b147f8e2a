package settle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// rule is the treatment of a member of a sensitive record. The zero rule seals both its name and
// its value, so that a new member stays hidden until it has a rule.
type rule int

const (
	unknown  rule = iota
	hashed        // its name stays
	keep          // it stays where it is of Weir's own making, see member.own
	leaveOut      // not even a hash: a snippet is a part of something that has one
	effects       // a plan's effects under their own names
	nested        // an object of Weir's own making, by the rules of its members
	words         // a list of words, each as keep has it
)

// member is what may stay of a member. own reports whether a value is of Weir's own making
// and not one that a caller or a target could have chosen; entry is the record's.
type member struct {
	rule rule
	own  func(v any, entry string) bool
}

func number(v any, _ string) bool { _, ok := v.(float64); return ok }

func flag(v any, _ string) bool { _, ok := v.(bool); return ok }

// text is a string for which a predicate holds.
func text(holds func(s, entry string) bool) func(v any, entry string) bool {
	return func(v any, entry string) bool {
		s, ok := v.(string)
		return ok && holds(s, entry)
	}
}

// word is a string of a closed set.
func word(holds func(s string) bool) func(v any, entry string) bool {
	return text(func(s, _ string) bool { return holds(s) })
}

func oneOf(list ...string) func(s string) bool {
	return func(s string) bool { return slices.Contains(list, s) }
}

// isCode holds for the codes that an action settles with, and those of ingress.
func isCode(s string) bool {
	return slices.Contains(append(schemas.SettleCodes(), schemas.IngressCodes()...), schemas.Code(s))
}

// table is the treatment of each member; add gives one to each of the names in a list.
type table map[string]member

func (t table) add(r rule, own func(v any, entry string) bool, names ...string) {
	for _, name := range names {
		t[name] = member{r, own}
	}
}

// otherMembers are those of all other records.
func otherMembers() table {
	t := table{}
	t.add(keep, number, "step", "attempt", "hop", "probe", "schema_violations", "effects", "duration_ms")
	t.add(keep, flag, "sent")
	status := oneOf("applied", "succeeded", "partial", "failed")
	t.add(keep, func(v any, _ string) bool { s, isText := v.(string); return isText && status(s) || number(v, "") }, "status")
	t.add(keep, word(schemas.KnownMethod), "method")
	t.add(keep, word(func(s string) bool { return schemas.Class(s).Repeatable() || schemas.Class(s) == schemas.ClassOnce }), "class")
	t.add(keep, word(oneOf(schemas.EffectApplied, schemas.EffectNotApplied)), "effect")
	t.add(keep, word(oneOf("strict", "warn", "redact")), "schema_mode")
	t.add(keep, word(isCode), "code", "schema_code")
	t.add(keep, word(schemas.ValidID), "worker")
	t.add(keep, text(func(s, entry string) bool { return s == entry }), "allowlist", "entry")
	t.add(keep, word(func(s string) bool { _, err := time.Parse(time.RFC3339Nano, s); return err == nil }), "timestamp")
	t.add(keep, word(oneOf(append(schemas.AgentWrites(), schemas.OpRulesReset)...)), "operation")
	t.add(keep, word(func(s string) bool { return s == schemas.RuleWritten || isCode(s) }), "result")
	t.add(hashed, nil, "request_fingerprint", "fingerprint", "target", "url", "request_digest", "response_hash", "execution_hash",
		"effect_ref", "idempotency_key", "error", "reason", "caller", "request_id", "rule_id", "rules_etag_before", "rules_etag_after")
	t.add(effects, nil, "artifact_refs")
	t.add(leaveOut, nil, "response_snippet")
	return t
}

// chatMembers are those of models' calls. These hold no content by design except text that a provider
// may send in place of a keyword.
func chatMembers() table {
	t := table{}
	isDialect := func(s string) bool { return slices.Contains(schemas.AllDialects(), schemas.Dialect(s)) }
	t.add(keep, number, "attempt", "status", "first_ms", "duration_ms", "prompt_tokens", "completion_tokens", "total_tokens",
		"cached_tokens", "cache_write_tokens", "reasoning_tokens", "cost_nanousd", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens")
	t.add(keep, flag, "stream", "sent", "estimated", "priced")
	t.add(keep, word(schemas.ValidModel), "model_asked", "model", "model_sent", "gen_ai.request.model", "gen_ai.response.model")
	t.add(keep, text(func(s, entry string) bool { return schemas.ModelEntry(s) == entry }), "upstream", "gen_ai.provider.name")
	t.add(keep, word(schemas.ValidID), "task_id", "limit_source")
	t.add(keep, word(isDialect), "dialect")
	t.add(keep, word(func(s string) bool { return isDialect(s) && s == schemas.Dialect(s).Operation() }), "gen_ai.operation.name")
	t.add(keep, word(isCode), "error.type")
	t.add(keep, word(func(s string) bool {
		sum, sealed := strings.CutPrefix(s, SealPrefix)
		raw, err := hex.DecodeString(sum)
		return sealed && err == nil && len(raw) == sha256.Size
	}), "request_hmac_sha256", "response_hmac_sha256")
	t.add(words, word(func(s string) bool { return s == schemas.ChatReason(s) }), "finish_reasons", "gen_ai.response.finish_reasons")
	t.add(nested, nil, "usage", "gen_ai")
	return t
}

// isOwn reports whether a value that may stay is of Weir's own making.
func (m member) isOwn(v json.RawMessage, entry string) bool {
	var x any
	return json.Unmarshal(v, &x) == nil && m.own(x, entry)
}
