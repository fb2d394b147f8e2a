package settle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weir/internal/ledger"
	"weir/schemas"
)

// rule is the treatment of a member's value in a sensitive record: what stays in its place, nil for
// nothing. A member without a rule has its name sealed too, so that a new one stays hidden.
type rule func(w *sealing, v json.RawMessage) (json.RawMessage, error)

// table is the treatment of each member; add gives one to each of the names in a list.
type table map[string]rule

func (t table) add(r rule, names ...string) {
	for _, name := range names {
		t[name] = r
	}
}

// own reports whether a value is of Weir's own making and not one that a caller or a target could
// have chosen; entry is the record's.
type own func(v any, entry string) bool

// keep leaves a value where it is of Weir's own making.
func keep(is own) rule {
	return func(w *sealing, v json.RawMessage) (json.RawMessage, error) {
		var x any
		if json.Unmarshal(v, &x) == nil && is(x, w.entry) {
			return v, nil
		}
		return w.mac(v)
	}
}

// words are a list, each word of which is treated by a rule.
func words(each rule) rule {
	return func(w *sealing, v json.RawMessage) (json.RawMessage, error) {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			return w.mac(v)
		}
		for i, word := range list {
			var err error
			if list[i], err = each(w, word); err != nil {
				return nil, err
			}
		}
		return ledger.Encode(list)
	}
}

// leaveOut leaves not even a hash: a snippet is a part of something that has one.
func leaveOut(*sealing, json.RawMessage) (json.RawMessage, error) { return nil, nil }

func number(v any, _ string) bool { _, ok := v.(float64); return ok }

func flag(v any, _ string) bool { _, ok := v.(bool); return ok }

// text is a string for which a predicate holds.
func text(holds func(s, entry string) bool) own {
	return func(v any, entry string) bool {
		s, ok := v.(string)
		return ok && holds(s, entry)
	}
}

// word is a string of a closed set.
func word(holds func(s string) bool) own {
	return text(func(s, _ string) bool { return holds(s) })
}

func oneOf(list ...string) own { return word(func(s string) bool { return slices.Contains(list, s) }) }

// isCode holds for the codes that an action settles with, and those of ingress.
func isCode(s string) bool {
	return slices.Contains(append(schemas.SettleCodes(), schemas.IngressCodes()...), schemas.Code(s))
}

// otherMembers are those of all other records.
func otherMembers() table {
	t := table{}
	t.add(keep(number), "step", "attempt", "hop", "probe", "schema_violations", "effects", "duration_ms")
	t.add(keep(flag), "sent")
	status := oneOf("applied", "succeeded", "partial", "failed")
	t.add(keep(func(v any, _ string) bool { return status(v, "") || number(v, "") }), "status")
	t.add(keep(word(schemas.KnownMethod)), "method")
	t.add(keep(word(func(s string) bool { return schemas.Class(s).Repeatable() || schemas.Class(s) == schemas.ClassOnce })), "class")
	t.add(keep(oneOf(schemas.EffectApplied, schemas.EffectNotApplied)), "effect")
	t.add(keep(oneOf("strict", "warn", "redact")), "schema_mode")
	t.add(keep(word(isCode)), "code", "schema_code")
	t.add(keep(word(schemas.ValidID)), "worker")
	t.add(keep(text(func(s, entry string) bool { return s == entry })), "allowlist", "entry")
	t.add(keep(word(func(s string) bool { _, err := time.Parse(time.RFC3339Nano, s); return err == nil })), "timestamp")
	t.add(keep(oneOf(append(schemas.AgentWrites(), schemas.OpRulesReset)...)), "operation")
	t.add(keep(word(func(s string) bool { return s == schemas.RuleWritten || isCode(s) })), "result")
	t.add((*sealing).mac, "request_fingerprint", "fingerprint", "target", "url", "request_digest", "response_hash", "execution_hash",
		"effect_ref", "idempotency_key", "error", "reason", "caller", "request_id", "rule_id", "rules_etag_before", "rules_etag_after")
	t.add((*sealing).effects, "artifact_refs")
	t.add(leaveOut, "response_snippet")
	return t
}

// chatMembers are those of models' calls. These hold no content by design except text that a provider
// may send in place of a keyword.
func chatMembers() table {
	t := table{}
	isDialect := func(s string) bool { return slices.Contains(schemas.AllDialects(), schemas.Dialect(s)) }
	t.add(keep(number), "attempt", "status", "first_ms", "duration_ms", "prompt_tokens", "completion_tokens", "total_tokens",
		"cached_tokens", "cache_write_tokens", "reasoning_tokens", "cost_nanousd", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		"gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.reasoning.output_tokens")
	t.add(keep(flag), "stream", "sent", "estimated", "priced")
	t.add(keep(word(schemas.ValidModel)), "model_asked", "model", "model_sent", "gen_ai.request.model", "gen_ai.response.model")
	t.add(keep(text(func(s, entry string) bool { return schemas.ModelEntry(s) == entry })), "upstream", "gen_ai.provider.name")
	t.add(keep(word(schemas.ValidID)), "task_id", "limit_source")
	t.add(keep(word(isDialect)), "dialect")
	t.add(keep(word(func(s string) bool { return isDialect(s) && s == schemas.Dialect(s).Operation() })), "gen_ai.operation.name")
	t.add(keep(word(isCode)), "error.type")
	t.add(keep(word(func(s string) bool {
		sum, sealed := strings.CutPrefix(s, SealPrefix)
		raw, err := hex.DecodeString(sum)
		return sealed && err == nil && len(raw) == sha256.Size
	})), "request_hmac_sha256", "response_hmac_sha256")
	t.add(words(keep(word(func(s string) bool { return s == schemas.ChatReason(s) }))), "finish_reasons", "gen_ai.response.finish_reasons")
	t.add((*sealing).value, "usage", "gen_ai")
	return t
}
