//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// check compares a trial with its row.
func (x *trial) check() {
	x.verdict()
	x.checkOutcome()
	x.checkAnswer()
	x.checkLeaks()
}

// verdict compares what a row says of every surface: whether the call is permitted, and what went
// over the network.
func (x *trial) verdict() {
	seen := "answer " + cut(x.reply.body) + ", code " + x.code + ", cause " + x.cause() + "; why: " + x.Why
	assert.Equal(x.t, x.Expected == "allow", x.allowed, "verdict; %s", seen)
	assert.True(x.t, x.Sent[0] <= x.sent && x.sent <= x.Sent[1], "sent %d, may be %v; %s", x.sent, x.Sent, seen)
	if x.Level == "must" {
		assert.True(x.t, x.codeFits(), "code %s, expected %s; %s", x.code, x.Code, seen)
	}
	switch {
	case x.id != "":
		assert.Equal(x.t, 1, x.terminals(), "terminal events; %s", seen)
	case !x.allowed: // a tunnel is no action
		assert.Zero(x.t, x.sent, "a request that was refused at the entry reached the upstream; %s", seen)
	}
	known := x.addresses()
	for _, address := range x.stage.network.Dialed() {
		assert.Contains(x.t, known, address, "an address that no answer had was dialled")
	}
	x.stage.mu.Lock()
	assert.NotContains(x.t, x.stage.offered, "h2", "Weir offers HTTP/1.1 alone")
	assert.Zero(x.t, x.stage.shown, "a client certificate was shown")
	x.stage.mu.Unlock()
	x.checkNetwork()
	x.checkWire()
}

// codeFits compares the code with the row's. A failure that was retried may have its own code
// or RETRIES_EXHAUSTED. A body over limits.body is refused before policy sees it.
func (x *trial) codeFits() bool {
	switch exhausted := string(schemas.RetriesExhausted); {
	case x.code == x.Code, x.bare && slices.Contains(refusedBefore(x.Code), schemas.Code(x.code)):
		return true
	case x.Code == string(schemas.DenyBody) && x.code == string(schemas.PayloadTooLarge):
		return x.id == ""
	case x.code == exhausted:
		return strings.HasPrefix(x.Code, "UPSTREAM_") && x.cause() == x.Code
	case x.Code == exhausted:
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

func (x *trial) checkNetwork() {
	a, network := x.Assert, x.stage.network
	if a.Lookups != nil {
		assert.Len(x.t, network.Lookups(), *a.Lookups, "lookups")
	}
	if a.Dialed != nil {
		assert.Equal(x.t, []string(a.Dialed), network.Dialed(), "dialled")
	}
	for _, address := range a.NeverDial {
		assert.NotContains(x.t, network.Dialed(), address, "dialled")
	}
	for _, host := range a.NeverContact {
		assert.Empty(x.t, x.stage.contacted(x.outboundRow, host), "%s was contacted", host)
	}
}

// checkWire checks each request that the upstream received; there must be one.
func (x *trial) checkWire() {
	a, ledger := x.Assert, x.stage.server.Ledger()
	body := a.WireBody
	var text *string
	if body != nil {
		s := string(body)
		_ = json.Unmarshal(body, &s) // a body that is no text is compared as it is written
		text = &s
	}
	each := func(want *string, what string, part func(upstream.Received) string) {
		if want == nil {
			return
		}
		require.NotEmpty(x.t, ledger)
		for _, got := range ledger {
			assert.Contains(x.t, strings.Split(*want, "|"), part(got), what)
		}
	}
	each(a.HostHeader, "Host", func(r upstream.Received) string { return r.Header("Host") })
	each(a.WireMethod, "method", func(r upstream.Received) string { return r.Method })
	each(text, "body", func(r upstream.Received) string { return string(r.Body) })
	each(a.WirePath, "path", func(r upstream.Received) string { path, _, _ := strings.Cut(r.Target, "?"); return path })
	each(a.WireQuery, "query", func(r upstream.Received) string { _, query, _ := strings.Cut(r.Target, "?"); return query })
	for name, value := range a.WireHeader {
		each(&value, name, func(r upstream.Received) string { return strings.Join(r.Values(name), "|") })
	}
	for _, got := range ledger {
		for _, absent := range a.WireAbsent {
			var head strings.Builder
			head.WriteString(got.Target)
			for _, h := range got.Headers {
				head.WriteString("\n" + h.Name + ": " + h.Value)
			}
			assert.NotContains(x.t, strings.ToLower(head.String()), strings.ToLower(absent))
		}
	}
	for _, name := range a.SameHeader {
		values := map[string]bool{}
		for _, got := range ledger {
			values[strings.Join(got.Values(name), "\n")] = true
		}
		assert.Len(x.t, values, 1, "%s differs", name)
		assert.NotContains(x.t, values, "", "%s is absent", name)
	}
}

func (x *trial) checkOutcome() {
	a := x.Assert
	if a.Terminal != "" {
		assert.Equal(x.t, a.Terminal, string(x.view.Status))
	}
	if a.Attempts > 0 {
		assert.Equal(x.t, a.Attempts, x.attempts())
	}
	if a.History != nil {
		var e struct {
			Error struct {
				History []schemas.RetryRecord `json:"history"`
			} `json:"error"`
		}
		require.NoError(x.t, json.Unmarshal([]byte(x.reply.body), &e))
		require.Len(x.t, e.Error.History, len(a.History), x.reply.body)
		for i, record := range e.Error.History {
			assert.Contains(x.t, string(record.Outcome), fmt.Sprint(a.History[i]))
		}
	}
	if a.Retryable != nil {
		assert.Contains(x.t, x.reply.body, fmt.Sprintf(`"retryable":%t`, *a.Retryable))
	}
	if a.RetryIsSafe { // if nothing was sent, the outcome is not unknown
		for _, attempt := range x.view.Attempts {
			if !x.allowed && assert.NotNil(x.t, attempt.Sent) {
				assert.False(x.t, *attempt.Sent, "an attempt counts as sent")
			}
		}
		assert.NotEqual(x.t, schemas.Status(schemas.OutcomeUnknown), x.view.Status)
	}
	if a.MaxWallSeconds > 0 {
		assert.Less(x.t, x.reply.took, max(hang, time.Duration(a.MaxWallSeconds)*time.Second), "the request hung")
	}
	if a.Mocked != "" && x.id != "" {
		assert.Contains(x.t, x.shown, `"mocked":`+string(encode(a.Mocked)))
		assert.Contains(x.t, string(encode(x.evidence())), `"mocked":`+string(encode(a.Mocked)))
	}
	if a.Ruled != nil && x.id != "" {
		evidence := x.evidence()
		require.NotEmpty(x.t, evidence)
		for _, e := range evidence {
			if assert.NotNil(x.t, e.Traffic, e.Kind) {
				assert.Equal(x.t, []string(a.Ruled), e.Traffic.Rules)
				assert.NotEmpty(x.t, e.Traffic.RulesEtag)
			}
		}
	}
}

func (x *trial) checkAnswer() {
	a := x.Assert
	for _, part := range a.AnswerHas {
		assert.Contains(x.t, x.reply.body, part)
	}
	if a.SnippetChars != nil {
		assert.Equal(x.t, *a.SnippetChars, utf8.RuneCountInString(x.snippet), "code points in the snippet")
	}
	if a.SnippetUTF8 {
		assert.NotEmpty(x.t, x.snippet)
		assert.True(x.t, utf8.ValidString(x.snippet))
		assert.NotContains(x.t, x.snippet, "\ufffd", "cut through a character")
	}
	for _, absent := range a.NextRequest { // what the upstream sent too much must not be the next answer
		path, body := x.body()
		next := x.node.must(x.t, x.token, http.MethodPost, path, []byte(body), http.StatusOK)
		assert.NotContains(x.t, next.body, absent)
	}
}

// checkLeaks looks for secrets in what Weir shows, logs and stores: with absent_everywhere in
// the files of all streams, objects and consumers too.
func (x *trial) checkLeaks() {
	a := x.Assert
	lacks := func(sink, content string, secrets ...string) {
		require.NotEmpty(x.t, content, sink)
		for _, secret := range secrets {
			for _, form := range forms(secret) {
				assert.False(x.t, strings.Contains(content, form), "%s has %q", sink, form) //nolint:testifylint // the content is long
			}
		}
	}
	if a.AbsentInResult != nil {
		lacks("the result", x.shown+x.reply.body, a.AbsentInResult...)
	}
	if a.AbsentIn == nil && a.AbsentEverywhere == nil {
		return
	}
	sinks := map[string]string{
		"logs": x.node.log.String(), "traces": x.node.log.String(), // there is no other trace than the log
		"metrics": x.node.ask(x.t, x.node.admin, http.MethodGet, "/metrics", nil).body,
	}
	if x.id != "" {
		sinks["evidence"] = string(encode(x.evidence()))
	}
	if a.AbsentIn != nil {
		require.NotEmpty(x.t, a.Canary)
		assert.Contains(x.t, x.stage.server.Ledger()[0].Target, a.Canary, "a canary that was not sent cannot leak")
	}
	for _, sink := range a.AbsentIn {
		lacks(sink, sinks[sink], a.Canary)
	}
	if a.AbsentEverywhere == nil {
		return
	}
	sinks["the result"], sinks["disk"] = x.shown+x.reply.body, x.node.stored(x.t)
	if x.id != "" {
		require.True(x.t, strings.Contains(sinks["disk"], x.id) && strings.Contains(sinks["disk"], x.Request.URL), "the streams cannot be read in the files")
	}
	if x.sent > 0 {
		assert.Contains(x.t, fmt.Sprint(x.stage.server.Ledger()), a.AbsentEverywhere[0], "a secret that was not sent cannot leak")
	}
	for sink, content := range sinks {
		lacks(sink, content, a.AbsentEverywhere...)
	}
}

// stored is the content of all files in the data directory.
func (n *node) stored(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	require.NoError(t, filepath.WalkDir(n.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return passing(err)
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return passing(err)
	}))
	return all.String()
}

// forms are the encodings in which a text may be stored.
func forms(s string) []string {
	all := []string{s, hex.EncodeToString([]byte(s)), strings.ToLower(s), strings.ToUpper(s)}
	for shift := range 3 { // the three alignments, without the characters that the neighbours change
		enc := base64.StdEncoding.EncodeToString(append(make([]byte, shift), s...))
		if from, to := (shift*4+2)/3, len(enc)-4; from < to {
			all = append(all, enc[from:to])
		}
	}
	var percent strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&percent, "%%%02X", s[i])
	}
	return append(all, percent.String())
}
