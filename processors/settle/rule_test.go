package settle_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

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
