package processors_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/processors/settle"
	"weir/schemas"
)

const (
	anywhere = "http://up.example/*"
	a, b     = "http://up.example/a", "http://up.example/b"
)

// ruled performs a call under rules, and gives its records.
func (s *site) ruled(t *testing.T, c schemas.HTTPCall, rules ...schemas.Rule) (*ledger.State, string, []schemas.Evidence) {
	t.Helper()
	etag := s.book.Put(t, rules...)
	st := s.handle(t, s.claim(t, c))
	s.server.WaitIdle()
	return st, etag, s.records(t)
}

// TestMockedCall: the answer is the rule's, the evidence says so, and the target has
// heard nothing.
func TestMockedCall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st, etag, records := s.ruled(t, schemas.HTTPCall{Method: http.MethodPost, URL: a + "?q=1"}, rulebook.Mock("m", anywhere, 200, `{"rehearsed":true}`))
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	assert.Zero(t, s.server.Hits())
	res := harness.Decode[schemas.HTTPResult](t, st.Settled.Result)
	assert.JSONEq(t, `{"rehearsed":true}`, string(res.Answer.Body))
	assert.Equal(t, []schemas.EventType{schemas.EventAccepted, schemas.EventAttempted, schemas.EventSettled}, harness.Types(st))
	require.Len(t, records, 1)
	e := records[0]
	assert.Equal(t, &schemas.Traffic{RulesEtag: etag, Rules: []string{"m"}, Mocked: "m"}, e.Traffic)
	assert.Equal(t, schemas.EvidenceAttempt, e.Kind)
	var payload struct {
		Sent        bool   `json:"sent"`
		Status      int    `json:"status"`
		Fingerprint string `json:"request_fingerprint"`
	}
	require.NoError(t, json.Unmarshal(e.Payload, &payload))
	assert.False(t, payload.Sent)
	assert.Equal(t, 200, payload.Status)
	assert.Equal(t, "POST "+a+"?q", payload.Fingerprint)
	assert.Equal(t, a+"?q=1", st.Attempts[0].URL, "the owner's log has the whole of it")
}

// TestRedirectedCall goes where the rule says, with what the entry there adds, and
// the record says where that was.
func TestRedirectedCall(t *testing.T) {
	t.Parallel()
	second := up(func(e *policy.Entry) {
		e.Name, e.URLPrefix, e.Headers = "staging", "http://staging.example/", map[string]string{"X-Key": "${secret:TWO}"}
	})
	s := newSite(t)
	s.reload(t, up(nil), second)
	st, etag, records := s.ruled(t, schemas.HTTPCall{Method: http.MethodPost, URL: a + "?q=secret"},
		rulebook.Redirect("r", anywhere, "http://staging.example/v2/$1"), rulebook.SetHeader("h", anywhere, "X-Trace", "t-1"))
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	require.Equal(t, 1, s.server.Hits())
	got := s.server.Ledger()[0]
	assert.Equal(t, "/v2/a?q=secret", got.Target)
	assert.Equal(t, []string{"staging.example"}, got.Values("Host"))
	assert.Equal(t, []string{"value-of-TWO"}, got.Values("X-Key"))
	assert.Equal(t, []string{"t-1"}, got.Values("X-Trace"))
	require.Len(t, records, 1)
	assert.Equal(t, "staging", records[0].Entry)
	assert.Equal(t, &schemas.Traffic{RulesEtag: etag, Rules: []string{"r", "h"}, Redirected: "r", Target: "http://staging.example/v2/a?q"}, records[0].Traffic)
	assert.NotContains(t, string(records[0].Payload), "secret")
}

// TestRulesWidenNothing: where the rules lead a call that policy denies, nothing
// goes, and one record says which of them it was.
func TestRulesWidenNothing(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]schemas.Rule{
		"another host": {rulebook.Redirect("r", anywhere, "http://evil.example/$1")},
		"a circle":     {rulebook.Redirect("r", a, b), rulebook.Redirect("r2", b, a)},
		"a header":     {rulebook.SetHeader("r", anywhere, "X-Key", "mine")},
	} {
		s := newSite(t)
		st, etag, records := s.ruled(t, schemas.HTTPCall{Method: http.MethodGet, URL: a}, rules...)
		assert.Equal(t, schemas.OutcomeDenied, st.Settled.Outcome, name)
		assert.Equal(t, schemas.DenyRule, st.Settled.Code, name)
		assert.Zero(t, s.server.Hits(), name)
		s.checkRefusal(t, st)
		require.Len(t, records, 1, name)
		assert.Equal(t, etag, records[0].Traffic.RulesEtag, name)
		assert.Equal(t, "r", records[0].Traffic.Rules[0], name)
		assert.Contains(t, string(records[0].Payload), "(r", name)
	}
}

// TestRedirectOfAMock: what a mock redirects to is a call of its own.
func TestRedirectOfAMock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	mock := rulebook.Mock("m", a, 302, "")
	mock.Action.Headers = map[string]string{"location": "/b"}
	st, _, records := s.ruled(t, schemas.HTTPCall{Method: http.MethodGet, URL: a}, mock)
	assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	require.Equal(t, 1, s.server.Hits())
	assert.Equal(t, "/b", s.server.Ledger()[0].Target)
	assert.Len(t, records, 2)
}

// TestTrafficOfSensitiveActions says which rules there were, and not where they led.
func TestTrafficOfSensitiveActions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.book.Put(t, rulebook.Redirect("r", a, "http://up.example/name-of-a-patient"))
	s.sensitive = true
	st := s.handle(t, s.claim(t, schemas.HTTPCall{Method: http.MethodGet, URL: a}))
	require.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
	records := s.records(t)
	require.Len(t, records, 1)
	tr := records[0].Traffic
	assert.Equal(t, []string{"r"}, tr.Rules)
	assert.Equal(t, "r", tr.Redirected)
	assert.True(t, strings.HasPrefix(tr.Target, settle.SealPrefix), tr.Target)
	assert.Contains(t, st.Attempts[0].Decision.Traffic.Target, "patient", "the log's own keeps its words")
}

// TestPlanUnderRules: each decision of a plan goes by the rules, and its record says so.
func TestPlanUnderRules(t *testing.T) {
	t.Parallel()
	h := newEnv()
	h.book.Put(t, rulebook.Mock("m", "http://up.example/1", 200, "{}"), rulebook.Redirect("r", "http://up.example/2", "http://evil.example/"))
	target := func(url string) json.RawMessage {
		return json.RawMessage(`{"method":"PUT","url":"` + url + `","allowlist_key":"up"}`)
	}
	rec := h.claim(t, schemas.KindPlan, schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: []schemas.PlanDecision{
		{EffectRef: "mocked", TargetState: target("http://up.example/1#f")},
		{EffectRef: "denied", TargetState: target("http://up.example/2")},
		{EffectRef: "made", TargetState: target("http://up.example/3")},
	}}})
	require.NoError(t, h.worker(t, "w1").Handle(t.Context(), rec, true))
	assert.Equal(t, 1, h.sent)
	st := harness.Load(t, h.ingressLedger(), schemas.Ref{Tenant: "default", Kind: schemas.KindPlan, ID: "a"})
	result := harness.Decode[schemas.PlanResult](t, st.Settled.Result)
	assert.Equal(t, "partial", result.Report.Status)
	require.Len(t, result.Report.Errors, 1)
	found := map[string]schemas.Evidence{}
	for _, e := range harness.Evidence(t, h.log, "") {
		found[e.ID] = e
	}
	mocked := found["a.attempt.0.1.0"]
	assert.Equal(t, schemas.EvidenceConnector, mocked.Kind)
	assert.Equal(t, "m", mocked.Traffic.Mocked)
	denied := found[settle.DenialID("a", 1, 0)]
	assert.Equal(t, schemas.DenyRule, denied.Code)
	assert.Equal(t, "r", denied.Traffic.Redirected)
	assert.Equal(t, &schemas.Traffic{RulesEtag: "etag-1-x"}, found["a.attempt.2.1.0"].Traffic)
}
