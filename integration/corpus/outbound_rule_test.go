//go:build e2e

package corpus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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

// shorthand is a traffic rule in the words of the corpus. A row of our own has
// it in the words of the surface: then it has an action.
type shorthand struct {
	Type   string          `json:"type"`
	Match  *string         `json:"match"` // a path at the request's host
	Regex  string          `json:"match_regex"`
	To     json.RawMessage `json:"to"`
	MS     json.RawMessage `json:"ms"`
	Set    map[string]any  `json:"set"`
	Append map[string]any  `json:"append"`
	Remove []string        `json:"remove"`
	Status json.RawMessage `json:"status"`
	Body   json.RawMessage `json:"body"`
	Heads  json.RawMessage `json:"headers"`
}

// rules are a row's traffic rules, as an agent would create them.
func (r *outboundRow) rules(t *testing.T) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	if json.Unmarshal(r.Assert["rule"], &all) != nil {
		all = []json.RawMessage{r.Assert["rule"]}
	}
	for i, raw := range all {
		var whole map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &whole))
		if whole["action"] == nil {
			all[i] = r.spellOut(t, raw, "rule-"+itoa(i))
		}
	}
	return all
}

// spellOut says what a shorthand stands for. A rule without a path is for the
// row's own URL. There are no regular expressions: a rule that has one has no
// pattern.
func (r *outboundRow) spellOut(t *testing.T, raw json.RawMessage, id string) json.RawMessage {
	t.Helper()
	var s shorthand
	require.NoError(t, json.Unmarshal(raw, &s))
	u, err := url.Parse(r.url())
	require.NoError(t, err)
	match, action := map[string]any{"url_pattern": u.Scheme + "://" + u.Host + u.EscapedPath()}, map[string]any{}
	switch {
	case s.Regex != "":
		match = map[string]any{}
	case s.Match != nil && strings.HasPrefix(*s.Match, "/"):
		match["url_pattern"] = u.Scheme + "://" + u.Host + *s.Match
	case s.Match != nil:
		match["url_pattern"] = *s.Match
	}
	for name, value := range map[string]json.RawMessage{"to_url": s.To, "delay_ms": s.MS, "status": s.Status, "body": s.Body, "headers": s.Heads} {
		if value != nil {
			action[name] = value
		}
	}
	if s.Type == "header" {
		s.Type = schemas.RuleHeaders
	}
	if changes := s.changes(); len(changes) > 0 {
		action["request_headers"] = changes
	}
	return mustEncode(t, map[string]any{"id": id, "type": s.Type, "match": match, "action": action})
}

func (s shorthand) changes() []map[string]any {
	var all []map[string]any
	for op, values := range map[string]map[string]any{schemas.HeaderSet: s.Set, schemas.HeaderAppend: s.Append} {
		for name, value := range values {
			all = append(all, map[string]any{"op": op, "name": name, "value": value})
		}
	}
	for _, name := range s.Remove {
		all = append(all, map[string]any{"op": schemas.HeaderRemove, "name": name})
	}
	return all
}

// ruled runs a row with traffic rules twice: with rules that somebody creates,
// and with the same in the store, whoever has put them there.
func ruled(t *testing.T, r *outboundRow, authority *upstream.Authority) {
	t.Helper()
	t.Run("created", func(t *testing.T) {
		t.Parallel()
		l := newLane(t, r, authority)
		if x := l.createRules(t, r, newStage(t, r, authority)); x != nil {
			x.judge(t)
			return
		}
		l.run(t, r, newStage(t, r, authority)).judge(t)
	})
	t.Run("stored", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		storeRules(t, dir, r.rules(t))
		other := *r
		if r.Code == string(schemas.ValidationError) { // which no call is told
			other.Code = string(schemas.DenyRule)
		}
		newLaneIn(t, dir, &other, authority).run(t, &other, newStage(t, &other, authority)).judge(t)
	})
}

// createRules creates a row's rules, one after the other. Where one is refused
// it is what came of the row: nothing is sent, and the rules are as they were.
func (l *lane) createRules(t *testing.T, r *outboundRow, s *stage) *trial {
	t.Helper()
	for _, rule := range r.rules(t) {
		before, etag := l.listRules(t)
		h := l.ask(t, http.MethodPost, routeAgentAPI, string(mustEncode(t, map[string]any{
			"request_id": "create", "operation": schemas.OpRulesCreate, "args": map[string]any{"rule": rule, "if_match": etag},
		})))
		if h.status == http.StatusOK {
			continue
		}
		a := heard{status: h.status, header: h.header, body: h.body}.agent(t)
		require.Equal(t, http.StatusUnprocessableEntity, h.status, h.body)
		require.Equal(t, string(schemas.ValidationError), a.Error.Code, h.body)
		after, _ := l.listRules(t)
		assert.Equal(t, before, after, "the rule set after a refusal")
		x := &trial{outboundRow: r, lane: l, stage: s, reply: h, code: a.Error.Code}
		if a.Error.Detail != nil && *a.Error.Detail == string(schemas.DenyRule) {
			x.code = *a.Error.Detail
		}
		return x
	}
	return nil
}

func (l *lane) listRules(t *testing.T) (all, etag string) {
	t.Helper()
	var a struct {
		Data struct {
			Etag string `json:"rules_etag"`
		} `json:"data"`
	}
	h := l.ask(t, http.MethodPost, routeAgentAPI, `{"request_id":"list","operation":"rules.list","args":{}}`)
	require.Equal(t, http.StatusOK, h.status, h.body)
	require.NoError(t, json.Unmarshal([]byte(h.body), &a))
	return h.body, a.Data.Etag
}

// storeRules puts rules into the store of a Weir that has not started, as they
// are, whether or not one could create them.
func storeRules(t *testing.T, dir string, rules []json.RawMessage) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	layout := schemas.Layout{Partitions: 1, Lanes: 8}
	server, err := embedded.Start(embedded.Config{Dir: dir, Layout: layout, Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Stop()) }()
	b, err := broker.Open(ctx, broker.Config{Server: server, Layout: layout})
	require.NoError(t, err)
	defer b.Close(ctx)
	stored := make([]json.RawMessage, len(rules))
	for i, raw := range rules {
		if good, err := traffic.Read(raw, time.Now()); err == nil {
			stored[i] = mustEncode(t, good)
			continue
		}
		var rule map[string]any
		require.NoError(t, json.Unmarshal(raw, &rule))
		rule["enabled"], rule["group"] = true, schemas.DefaultGroup
		if match, ok := rule["match"].(map[string]any); ok && match["method"] == nil {
			match["method"] = "ANY"
		}
		stored[i] = mustEncode(t, rule)
	}
	_, err = b.Rules().Put(ctx, schemas.EscapeToken(schemas.Operator), mustEncode(t, map[string]any{
		"v": schemas.RuleSetVersion, "tenant": schemas.Operator, "global_active": true, "groups": []string{}, "rules": stored,
		"by": "test", "previous": 0, "at": time.Now().UTC(),
	}), 0)
	require.NoError(t, err)
}

// checkMocked holds what the owner is told of a call that a rule answered.
func checkMocked(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	if x.id == "" {
		return
	}
	assert.Contains(t, x.shown, `"mocked":`+string(want))
	for _, e := range x.evidence(t) {
		if e.Traffic != nil && e.Traffic.Mocked == text(want) {
			return
		}
	}
	t.Errorf("no evidence says that %s answered", want)
}

// checkRuled: the evidence names these rules, in this order.
func checkRuled(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	if x.id == "" {
		return
	}
	evidence := x.evidence(t)
	require.NotEmpty(t, evidence)
	for _, e := range evidence {
		if assert.NotNil(t, e.Traffic, e.Kind) {
			assert.Equal(t, list(t, want), e.Traffic.Rules)
			assert.NotEmpty(t, e.Traffic.RulesEtag)
		}
	}
}

// checkWireHeader holds headers of every request that arrived.
func checkWireHeader(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	var headers map[string]string
	require.NoError(t, json.Unmarshal(want, &headers))
	require.NotEmpty(t, x.stage.server.Ledger())
	for _, got := range x.stage.server.Ledger() {
		for name, value := range headers {
			assert.Equal(t, value, strings.Join(got.Values(name), "|"), name)
		}
	}
}

// checkAnswerHas holds what the owner is answered.
func checkAnswerHas(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, part := range list(t, want) {
		assert.Contains(t, x.reply.body, part)
	}
}
