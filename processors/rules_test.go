package processors_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/policy"
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
