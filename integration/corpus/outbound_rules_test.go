//go:build e2e

package corpus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/traffic"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// ruled runs a row with traffic rules twice: with rules that its tenant creates, and as the
// tenant for which the same rules were put into the store.
func (n *node) ruled(t *testing.T, r *outboundRow, authority *upstream.Authority) {
	t.Helper()
	token, s := n.as(t, strings.ToLower(r.ID)), newStage(t, r, authority)
	if x := n.createRules(t, r, s, token); x != nil {
		x.check()
	} else {
		n.runAs(t, r, s, token).check()
	}
	stored := *r
	if r.Code == string(schemas.ValidationError) { // the code of a rule that cannot be created
		stored.Code = string(schemas.DenyRule)
	}
	n.runAs(t, &stored, newStage(t, r, authority), n.as(t, storedTenant(r))).check()
}

func storedTenant(r *outboundRow) string { return "stored-" + strings.ToLower(r.ID) }

// createRules creates a row's rules, one after the other. If one is refused, the returned trial
// has the refusal, and the rule set is the same as before.
func (n *node) createRules(t *testing.T, r *outboundRow, s *stage, token string) *trial {
	t.Helper()
	rules, err := r.rules()
	require.NoError(t, err)
	for _, rule := range rules {
		before := n.operate(t, token, schemas.OpRulesList, nil)
		h := n.ask(t, token, http.MethodPost, routeAgentAPI, map[string]any{
			"request_id": "create", "operation": schemas.OpRulesCreate, "args": map[string]any{"rule": rule, "if_match": n.by(token).Etag(t)},
		})
		if h.status == http.StatusOK {
			continue
		}
		a := h.agent(t)
		require.Equal(t, http.StatusUnprocessableEntity, h.status, h.body)
		require.Equal(t, string(schemas.ValidationError), a.Error.Code, h.body)
		assert.Equal(t, before, n.operate(t, token, schemas.OpRulesList, nil), "the rule set after a refusal")
		x := &trial{outboundRow: r, t: t, node: n, stage: s, token: token, reply: h, code: a.Error.Code}
		if a.Error.Detail != nil && *a.Error.Detail == string(schemas.DenyRule) {
			x.code = *a.Error.Detail
		}
		return x
	}
	return nil
}

// storeRules puts the rules of all rows into the store of a Weir that has not started, whether
// or not the agent API would accept them.
func storeRules(t *testing.T, dir string, rows []outboundRow) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	layout := schemas.Layout{Partitions: 1}
	embed, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout, Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	defer func() { assert.NoError(t, embed.Stop()) }()
	b, err := broker.Open(ctx, broker.Config{Server: embed, Layout: layout})
	require.NoError(t, err)
	defer b.Close(ctx)
	for _, r := range rows {
		if r.Assert.Rule == nil {
			continue
		}
		rules, err := r.rules()
		require.NoError(t, err)
		for i, raw := range rules {
			if good, err := traffic.Read(raw, time.Now()); err == nil {
				rules[i] = encode(good)
				continue
			}
			var rule map[string]any
			require.NoError(t, json.Unmarshal(raw, &rule))
			rule["enabled"], rule["group"] = true, schemas.DefaultGroup
			if match, ok := rule["match"].(map[string]any); ok && match["method"] == nil {
				match["method"] = "ANY"
			}
			rules[i] = encode(rule)
		}
		_, err = b.Bucket(schemas.RuleBucket).Put(ctx, schemas.EscapeToken(storedTenant(&r)), encode(map[string]any{
			"v": schemas.RuleSetVersion, "tenant": storedTenant(&r), "global_active": true, "groups": []string{}, "rules": rules,
			"by": "test", "previous": 0, "at": time.Now().UTC(),
		}), 0)
		require.NoError(t, err)
	}
}
