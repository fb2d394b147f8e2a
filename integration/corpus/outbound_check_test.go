//go:build e2e

package corpus_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// judge holds a trial against its row.
func (x *trial) judge(t *testing.T) {
	t.Helper()
	seen := func() string {
		return "answer " + cut(x.reply.body) + ", code " + x.code + ", cause " + x.cause() + "; why: " + x.Why
	}
	assert.Equal(t, x.Expected == "allow", x.allowed, "verdict; %s", seen())
	assert.True(t, x.Sent[0] <= x.sent && x.sent <= x.Sent[1], "sent %d, may be %v; %s", x.sent, x.Sent, seen())
	if x.Level == "must" {
		assert.True(t, x.codeFits(), "code %s, expected %s; %s", x.code, x.Code, seen())
	}
	if x.id == "" {
		assert.Zero(t, x.sent, "nothing may be sent for what the door refused; %s", seen())
	} else {
		assert.Equal(t, 1, x.terminals(), "terminal events; %s", seen())
	}
	known := x.addresses()
	for _, address := range x.stage.network.Dialed() {
		assert.Contains(t, known, address, "dialled what no answer had")
	}
	x.stage.mu.Lock()
	assert.NotContains(t, x.stage.offered, "h2", "what is never offered cannot be held against us")
	assert.Zero(t, x.stage.shown, "a client certificate was shown")
	x.stage.mu.Unlock()
	for name, want := range x.Assert {
		check, ok := outboundChecks[name]
		require.True(t, ok, "assertion %q is not known", name)
		check(t, x, want)
	}
}

// addresses are all that the row's resolver or its URL has.
func (r *outboundRow) addresses() []string {
	var all []string
	for _, answers := range r.Resolver {
		for _, a := range answers {
			all = append(all, a...)
		}
	}
	if u, err := url.Parse(r.url()); err == nil {
		all = append(all, u.Hostname())
	}
	return all
}

func cut(s string) string { return s[:min(len(s), 400)] }

// codeFits compares the code with the row's. A failure that was retried may go
// by its own name or by that of the retries.
func (x *trial) codeFits() bool {
	switch {
	case x.code == x.Code:
		return true
	case x.code == string(schemas.RetriesExhausted):
		return strings.HasPrefix(x.Code, "UPSTREAM_") && x.cause() == x.Code
	case x.Code == string(schemas.RetriesExhausted):
		return strings.HasPrefix(x.code, "UPSTREAM_")
	}
	return false
}

func (x *trial) terminals() int {
	n := 0
	for _, e := range x.events {
		if e.Type == schemas.EventSettled {
			n++
		}
	}
	return n
}

type outboundCheck func(t *testing.T, x *trial, want json.RawMessage)

// elsewhere is a member that something else has used by now.
func elsewhere(*testing.T, *trial, json.RawMessage) {}

// outboundChecks are the further assertions. A row with another one cannot run.
var outboundChecks = map[string]outboundCheck{
	"secret_value": elsewhere, "canary": elsewhere, "insecure_field": elsewhere, "crash_at": elsewhere,
	"policy_reload": elsewhere, "after_requests": elsewhere, "max_rss_mb": elsewhere, "rule": elsewhere,
	"mocked": checkMocked, "ruled": checkRuled, "wire_header": checkWireHeader, "answer_has": checkAnswerHas,
	"lookups":             checkLookups,
	"dialed":              checkDialed,
	"never_dial":          checkNeverDial,
	"never_contact":       checkNeverContact,
	"host_header":         checkHostHeader,
	"wire_path":           checkWirePath,
	"wire_query":          checkWireQuery,
	"wire_method":         checkWireMethod,
	"wire_body":           checkWireBody,
	"wire_absent":         checkWireAbsent,
	"same_header_on_all":  checkSameHeader,
	"absent_in_result":    checkAbsentInResult,
	"absent_in":           checkAbsentIn,
	"absent_everywhere":   checkAbsentEverywhere,
	"terminal":            checkTerminal,
	"terminal_events":     checkTerminalEvents,
	"attempts":            checkAttempts,
	"history":             checkHistory,
	"retryable":           checkRetryable,
	"retry_is_safe":       checkRetrySafe,
	"max_wall_s":          checkWall,
	"snippet_chars":       checkSnippetChars,
	"snippet_valid_utf8":  checkSnippetUTF8,
	"next_request_absent": checkNextRequest,
}

func checkLookups(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Len(t, x.stage.network.Lookups(), number(t, want), "lookups")
}

func checkDialed(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Equal(t, list(t, want), x.stage.network.Dialed(), "dialled")
}

func checkNeverDial(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, address := range list(t, want) {
		assert.NotContains(t, x.stage.network.Dialed(), address, "dialled")
	}
}

func checkNeverContact(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, host := range list(t, want) {
		assert.Empty(t, x.stage.contacted(x.outboundRow, host), "%s was contacted", host)
	}
}

func checkAbsentInResult(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	for _, lost := range list(t, want) {
		for _, form := range forms(lost) {
			assert.NotContains(t, x.shown+x.reply.body, form, "in what the owner is shown")
		}
	}
}

func checkTerminal(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Equal(t, text(want), string(x.view.Status))
}

func checkTerminalEvents(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Equal(t, number(t, want), x.terminals())
}

func checkAttempts(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Equal(t, number(t, want), x.attempts())
}

// checkHistory compares the outcomes of the attempts, a status or a word each.
func checkHistory(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	var e struct {
		Error struct {
			History []schemas.RetryRecord `json:"history"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(x.reply.body), &e))
	var expected []json.RawMessage
	require.NoError(t, json.Unmarshal(want, &expected))
	require.Len(t, e.Error.History, len(expected), x.reply.body)
	for i, record := range e.Error.History {
		assert.Contains(t, string(record.Outcome), strings.Trim(string(expected[i]), `"`))
	}
}

func checkRetryable(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	if x.planned() {
		return // a report of a plan says nothing about it
	}
	assert.Contains(t, x.reply.body, `"retryable":`+string(want))
}

// checkRetrySafe: where nothing was sent, nothing may be in doubt.
func checkRetrySafe(t *testing.T, x *trial, _ json.RawMessage) {
	t.Helper()
	for _, a := range x.view.Attempts {
		if !x.allowed && assert.NotNil(t, a.Sent) {
			assert.False(t, *a.Sent, "an attempt is held to have been sent")
		}
	}
	assert.NotEqual(t, schemas.Status(schemas.OutcomeUnknown), x.view.Status)
}

func checkWall(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Less(t, x.wall, time.Duration(number(t, want))*time.Second, "took too long")
}

func checkSnippetChars(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	assert.Equal(t, number(t, want), utf8.RuneCountInString(x.snippet), "code points in the snippet")
}

func checkSnippetUTF8(t *testing.T, x *trial, _ json.RawMessage) {
	t.Helper()
	assert.NotEmpty(t, x.snippet)
	assert.True(t, utf8.ValidString(x.snippet))
	assert.NotContains(t, x.snippet, "\ufffd", "cut through a character")
}

// checkNextRequest asks once more: what the upstream sent too much must not
// come back to somebody else.
func checkNextRequest(t *testing.T, x *trial, want json.RawMessage) {
	t.Helper()
	path, body := x.body()
	next := x.lane.ask(t, http.MethodPost, path, body)
	assert.Equal(t, http.StatusOK, next.status, next.body)
	for _, lost := range list(t, want) {
		assert.NotContains(t, next.body, lost)
	}
}
