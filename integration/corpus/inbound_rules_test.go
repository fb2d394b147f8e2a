//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// rulesSurface are the rows about traffic rules. Each has a tenant of its own.
const rulesSurface = "rules-etag"

const routeAgentAPI = "/v1/agent-api"

// What rows of rules assert, several with a semicolon between them.
const (
	assertDetail  = "detail="  // the error's finer word
	assertHas     = "has="     // the answer has this text, after what is in braces was filled in
	assertUnread  = "unread"   // so broken that nobody can say which request it is
	assertOneWins = "one wins" // of the requests at one time, one is answered with 200
)

// operatorOf names the token that the row asks with, neighbourOf one of another tenant.
func operatorOf(r *inboundRow) string { return "operator_token of " + r.ID }

func neighbourOf(r *inboundRow) string { return "neighbour_token of " + r.ID }

// ruleValue is what stands for a placeholder in a row of rules.
func (g *gateway) ruleValue(t *testing.T, r *inboundRow, name string) (string, bool) {
	t.Helper()
	mine, theirs := strings.ToLower(r.ID), "not-"+strings.ToLower(r.ID)
	made := func(tenant string, entries []string, scopes ...string) (string, bool) {
		return g.token(t, schemas.TokenRequest{Tenant: tenant, Entries: entries, Scopes: scopes}), true
	}
	switch name {
	case "operator_token":
		return made(mine, nil, schemas.ScopeAdmin)
	case "neighbour_token":
		return made(theirs, nil, schemas.ScopeAdmin)
	case "reader_token":
		return made(mine, nil, schemas.ScopeActionsRead)
	case "caller_token", "task_token":
		return made(mine, nil, schemas.ScopeActionsWrite)
	case "writer_token":
		return made(mine, nil, schemas.ScopeRulesWrite)
	case "limited_writer_token":
		return made(mine, []string{"api"}, schemas.ScopeRulesWrite)
	case "etag":
		return g.etag(t, r, operatorOf(r)), true
	case "stale_etag":
		stale := g.etag(t, r, operatorOf(r))
		g.changeRules(t, r, operatorOf(r), g.mock("later"))
		return stale, true
	case "etag_of_other_tenant":
		g.changeRules(t, r, neighbourOf(r), g.mock("a"))
		return g.etag(t, r, neighbourOf(r)), true
	}
	return "", false
}

// agentAnswer is an answer of the agent API.
type agentAnswer struct {
	OK        *bool           `json:"ok"`
	RequestID *string         `json:"request_id"`
	Operation *string         `json:"operation"`
	Data      json.RawMessage `json:"data"`
	Error     *agentFault     `json:"error"`
}

type agentFault struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Detail  *string `json:"detail"`
}

func (f *agentFault) code() string { return f.Code }

// agent reads an answer of the agent API, which has one form for good and bad.
func (h heard) agent(t *testing.T) agentAnswer {
	t.Helper()
	require.Equal(t, "application/json", h.header.Get("Content-Type"), cut(h.body))
	var a agentAnswer
	strict := json.NewDecoder(strings.NewReader(h.body))
	strict.DisallowUnknownFields()
	require.NoError(t, strict.Decode(&a), cut(h.body))
	require.NotNil(t, a.OK)
	require.NotNil(t, a.RequestID)
	require.NotNil(t, a.Operation)
	if *a.OK {
		require.Equal(t, http.StatusOK, h.status)
		require.Nil(t, a.Error)
		require.NotEmpty(t, a.Data)
		return a
	}
	require.GreaterOrEqual(t, h.status, http.StatusBadRequest)
	require.Nil(t, a.Data)
	require.NotNil(t, a.Error)
	require.NotEmpty(t, a.Error.Code)
	require.NotEmpty(t, a.Error.Message)
	return a
}

// operate carries out an operation that must go well.
func (g *gateway) operate(t *testing.T, r *inboundRow, token, operation string, args map[string]any) json.RawMessage {
	t.Helper()
	if g.get(token) == "" {
		name, _, _ := strings.Cut(token, " of ")
		v, ok := g.ruleValue(t, r, name)
		require.True(t, ok)
		g.set(token, v)
	}
	h := g.ask(t, token, http.MethodPost, routeAgentAPI, map[string]any{"request_id": "of the test", "operation": operation, "args": args})
	require.Equal(t, http.StatusOK, h.status, "%s: %s", operation, h.body)
	return h.agent(t).Data
}

func (g *gateway) etag(t *testing.T, r *inboundRow, token string) string {
	t.Helper()
	var data struct {
		Etag string `json:"rules_etag"`
	}
	require.NoError(t, json.Unmarshal(g.operate(t, r, token, schemas.OpStatus, nil), &data))
	require.NotEmpty(t, data.Etag)
	return data.Etag
}

// changeRules puts a rule in.
func (g *gateway) changeRules(t *testing.T, r *inboundRow, token string, rule map[string]any) {
	t.Helper()
	g.operate(t, r, token, schemas.OpRulesCreate, map[string]any{"rule": rule, "if_match": g.etag(t, r, token)})
}

func (g *gateway) mock(id string) map[string]any {
	return map[string]any{
		"id": id, "type": schemas.RuleMock, "match": map[string]any{"url_pattern": g.upstream.URL + "/v1/" + id}, "action": map[string]any{"status": http.StatusCreated},
	}
}

func (g *gateway) redirect(id, from, to string) map[string]any {
	return map[string]any{
		"id": id, "type": schemas.RuleRedirect, "match": map[string]any{"url_pattern": g.upstream.URL + from}, "action": map[string]any{"to_url": g.upstream.URL + to},
	}
}

// ruleSet is all that the row's tenant has, as it is shown.
func (g *gateway) ruleSet(t *testing.T, r *inboundRow) string {
	t.Helper()
	list := g.operate(t, r, operatorOf(r), schemas.OpRulesList, nil)
	return string(g.operate(t, r, operatorOf(r), schemas.OpStatus, nil)) + string(list)
}

// rule sends a row of rules. What is refused has changed nothing, byte for byte.
func (r *inboundRow) rule(t *testing.T, g *gateway) {
	t.Helper()
	raws := []string{r.bytes(t, g)}
	before := g.ruleSet(t, r)
	var n int
	if r.Concurrent != nil {
		require.NoError(t, json.Unmarshal(r.Concurrent, &n))
		raws = r.variants(t, g, n)
	}
	began := grown()
	all := make([]heard, len(raws))
	var group sync.WaitGroup
	for i, raw := range raws {
		group.Go(func() { all[i] = g.send(t, raw) })
	}
	group.Wait()
	won := 0
	for i, h := range all {
		r.judge(t, g, h, began)
		r.echoes(t, raws[i], h)
		if h.status == http.StatusOK {
			won++
		}
	}
	if n > 1 {
		assert.Equal(t, 1, won, "of %d with one tag", n)
	}
	after := g.ruleSet(t, r)
	if won == 0 {
		assert.Equal(t, before, after, "the rule set after a refusal")
	}
	if r.Repeat == 2 {
		again := g.send(t, raws[0])
		assert.Equal(t, all[0].body, again.body)
		assert.Equal(t, after, g.ruleSet(t, r), "the rule set after a repeat")
	}
}

// variants are n requests that say the same under ids of their own.
func (r *inboundRow) variants(t *testing.T, g *gateway, n int) []string {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(g.fill(t, r, r.text(t, r.Body))), &doc))
	all := make([]string, n)
	for i := range all {
		at := doc
		if inner, ok := doc["request"].(map[string]any); ok {
			at = inner
		}
		at["request_id"] = fmt.Sprintf("writer-%d", i)
		other := *r
		other.Body = mustEncode(t, string(mustEncode(t, doc)))
		all[i] = other.bytes(t, g)
	}
	return all
}

// echoes: which request it was is said again, as it was said, also by a refusal.
func (r *inboundRow) echoes(t *testing.T, raw string, h heard) {
	t.Helper()
	if r.place(r.Method, r.Path) != routeAgentAPI {
		return
	}
	a := h.agent(t)
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	var doc map[string]any
	if strings.Contains(r.Assert, assertUnread) || json.Unmarshal([]byte(body), &doc) != nil {
		return
	}
	if inner, ok := doc["request"].(map[string]any); ok {
		doc = inner
	}
	if id, ok := doc["request_id"].(string); ok && echoable(id) {
		assert.Equal(t, id, *a.RequestID, "request_id")
	}
	if op, ok := doc["operation"].(string); ok && op != "" && len(op) <= 64 {
		assert.Equal(t, op, *a.Operation, "operation")
	}
}

func echoable(id string) bool {
	return id != "" && len(id) <= 256 && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

// ruleAssertions are what only rows of rules say.
func (r *inboundRow) ruleAssertions(t *testing.T, g *gateway, h heard) {
	t.Helper()
	if r.Surface != rulesSurface {
		return
	}
	for part := range strings.SplitSeq(r.Assert, "; ") {
		switch word, value, _ := strings.Cut(part, "="); word + "=" {
		case assertDetail:
			a := h.agent(t)
			require.NotNil(t, a.Error, cut(h.body))
			if assert.NotNil(t, a.Error.Detail, cut(h.body)) {
				assert.Equal(t, value, *a.Error.Detail, cut(h.body))
			}
		case assertHas:
			if h.status == http.StatusOK {
				assert.Contains(t, h.body, g.fill(t, r, value))
			}
		}
	}
	var doc struct {
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal([]byte(r.text(t, r.Body)), &doc) == nil && strings.ContainsAny(doc.RequestID, "<>*/") {
		assert.NotContains(t, g.log.String(), doc.RequestID, "an agent's id is no identifier of ours")
	}
	if h.status == http.StatusUnauthorized || h.status == http.StatusForbidden {
		known := []string{schemas.DetailAuthRequired, schemas.DetailScopeRequired, schemas.DetailAPIDisabled}
		if strings.HasPrefix(h.body, `{"ok"`) && h.agent(t).Error.Detail != nil {
			assert.True(t, slices.Contains(known, *h.agent(t).Error.Detail), h.body)
		}
	}
}
