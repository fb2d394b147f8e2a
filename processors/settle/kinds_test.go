package settle_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/harness"
	"weir/processors/settle"
	"weir/schemas"
)

// TestSealedRuleWrite: who wrote what is no content of Weir's making; that there was a
// write, of which sort and how it ended, is.
func TestSealedRuleWrite(t *testing.T) {
	t.Parallel()
	audit := schemas.RuleAudit{
		Timestamp: "2026-01-02T03:04:05.6Z", Caller: "CANARY", RequestID: "CANARY", Operation: schemas.OpRulesPatch, RuleID: "CANARY",
		Result: schemas.RuleWritten, RulesEtagBefore: "CANARY", RulesEtagAfter: "CANARY",
	}
	of := func(a schemas.RuleAudit) map[string]string {
		var members map[string]string
		e := sealed(t, schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceRuleWrite, Payload: encode(t, a)})
		assert.NotContains(t, string(e.Payload), "CANARY")
		assert.NoError(t, json.Unmarshal(e.Payload, &members))
		return members
	}
	got := of(audit)
	assert.Equal(t, []string{audit.Timestamp, audit.Operation, audit.Result}, []string{got["timestamp"], got["operation"], got["result"]})
	for _, name := range []string{"caller", "request_id", "rule_id", "rules_etag_before", "rules_etag_after"} {
		assert.Regexp(t, `^hmac-sha256:[0-9a-f]{64}$`, got[name], name)
	}
	assert.Len(t, got, 8)
	audit.Operation = schemas.OpRulesReset
	assert.Equal(t, audit.Operation, of(audit)["operation"])
	audit.Result = string(schemas.EtagMismatch)
	assert.Equal(t, audit.Result, of(audit)["result"])
	audit.Result, audit.Timestamp, audit.Operation = "CANARY", "CANARY", "CANARY"
	of(audit)
}

// audit is a whole record of a model's call.
func audit() schemas.ChatAudit {
	seal := settle.NewSeal(key)
	return schemas.ChatAudit{
		Asked: "vendor/m-1:free", Model: "vendor/*", Sent: "m-1@x", Upstream: "up.1", TaskID: "t-1", Attempt: 2, Stream: true, Status: 200, SentOut: true,
		Finish:  []string{"stop", "tool_calls"},
		Usage:   &schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3, Cached: 1, Reasoning: 1, Estimated: true, Nanos: 9, Priced: true},
		FirstMS: 4, DurationMS: 5, RequestHash: seal.Mac("t", "a"), ResponseHash: seal.Mac("t", "b"), LimitSource: "daily",
		GenAI: map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "up.1", "gen_ai.request.model": "m-1@x", "gen_ai.response.model": "m-1-2026",
			"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 2, "gen_ai.response.finish_reasons": []string{"stop"}, "error.type": "MODEL_FAILED",
		},
	}
}

// TestSealedChat: the record of a model's call is of Weir's own making, and stays as it is.
func TestSealedChat(t *testing.T) {
	t.Parallel()
	a := audit()
	a.Model = "vendor/m-1"
	e := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Entry: "model:up.1", Payload: encode(t, a)}
	assert.JSONEq(t, string(e.Payload), string(sealed(t, e).Payload))
	refused := schemas.ChatAudit{Asked: "m", Model: "m", LimitSource: "daily", GenAI: map[string]any{"gen_ai.operation.name": "chat"}}
	e.Entry, e.Payload = "", encode(t, refused)
	assert.JSONEq(t, string(e.Payload), string(sealed(t, e).Payload))
	// In a record of another kind the same members are nobody's.
	e.Kind = schemas.EvidenceAttempt
	assert.NotContains(t, string(sealed(t, e).Payload), "daily")
}

// TestSealedChatHasNoContent, whatever a provider or a caller has put where a word or a
// number is expected.
func TestSealedChatHasNoContent(t *testing.T) {
	t.Parallel()
	members := harness.Decode[map[string]json.RawMessage](t, encode(t, audit()))
	for _, name := range []string{"usage", "gen_ai"} {
		inner := harness.Decode[map[string]json.RawMessage](t, members[name])
		for member := range inner {
			members[name+" "+member] = nil
		}
	}
	hash := regexp.MustCompile(`hmac-sha256:[0-9a-f]{64}`)
	for name := range members {
		for _, value := range []string{`"CANARY of somebody"`, `{"CANARY":1}`, `["CANARY of somebody",{"CANARY":1}]`, `{"a":["CANARY"]}`} {
			doc := `{"` + name + `":` + value + `}`
			for _, outer := range []string{"usage", "gen_ai"} {
				if inner, ok := strings.CutPrefix(name, outer+" "); ok {
					doc = `{"` + outer + `":{"` + inner + `":` + value + `}}`
				}
			}
			got := string(sealed(t, schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Entry: "model:up.1", Payload: []byte(doc)}).Payload)
			assert.NotContains(t, got, "CANARY", doc)
			assert.Regexp(t, hash, got, doc)
		}
	}
	got := string(sealed(t, schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Payload: []byte(`{"finish_reasons":["stop","CANARY"],"prompt_tokens":true,"stream":1}`)}).Payload)
	assert.Regexp(t, `^\{"finish_reasons":\["stop","hmac-sha256:[0-9a-f]{64}"\],"prompt_tokens":"hmac-sha256:[0-9a-f]{64}","stream":"hmac-sha256:[0-9a-f]{64}"\}$`, got)
}
