//go:build e2e

package canary_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// hastes is how long the actions of the hasty house may take.
const hastes = "1s"

// TestNothingLeaks drives everything and finds no canary in any sink.
func TestNothingLeaks(t *testing.T) { //nolint:paralleltest // goroutines, processes and temporary files are everybody's
	g := &garden{}
	h, hasty := newHouse(t, g, ample, policyText), newHouse(t, g, hastes, policyText)
	h.drive()
	hasty.expired()
	h.reached()
	h.runsReached()
	h.rulesReached()
	h.tasksReached()
	h.sealed()
	h.chatReached()
	h.chatSealed(hasty)
	ended(t, h, hasty)
	sinks := append(h.running(), h.after()...)
	hasty.stop()
	late, strange := hasty.spans.data(t)
	assert.Empty(t, strange, "what is of no closed set in spans")
	sinks = append(sinks,
		sink{name: "log of the hasty", data: hasty.log.Bytes()}, sink{name: "answers of the hasty", data: hasty.owner.seen.Bytes(), owner: true}, sink{name: "spans of the hasty", data: late})
	h.spansReached(sinks)
	leaks, err := scan(g.list(), sinks)
	require.NoError(t, err)
	assert.Empty(t, leaks, leakText(leaks))
	assert.Empty(t, checkLog(append(h.log.Bytes(), hasty.log.Bytes()...)), "lines of the log")
	require.Greater(t, len(g.list()), 500, "canaries")
	for _, s := range sinks {
		t.Logf("%-32s %8d bytes", s.name, len(s.data))
	}
}

// reached proves that what was not found was there to be found: it came to the
// upstream, and to the owner.
func (h *house) reached() {
	t, wire := h.t, received(h.plain)
	for _, class := range []string{
		"sent key", "sent value", "sent item", "sent deep key", "sent query", "sent parameter", "sent idempotency key", "sent header name", "sent header",
		"echoed body", "plan path", "plan key", "plan value", "plan header", "plan text body", "plan parameter", "plan parameter value", "plan idempotency key", "hop location", "hop query",
		"ExecuteRequest args.body.deep.0.* (name)", "ExecuteBare headers.x-member", "url path", "url query", "url parameter",
		"header", "query", "basic", "body", "of another entry", // the secrets
	} {
		assert.Contains(t, strings.ToLower(wire), strings.ToLower(h.g.text(t, class)), "%s did not reach the upstream", class)
	}
	for _, shape := range []string{"ssn", "mrn", "birth", "mail"} {
		assert.Contains(t, wire, h.g.text(t, "shape-"+shape))
	}
	assert.Contains(t, received(h.good), h.g.text(t, "over tls"))
	mine := h.owner.seen.String()
	for _, place := range []string{"key", "value", "deep key", "deep value", "header value", "header name", "location", "etag"} {
		assert.Contains(t, strings.ToLower(mine), strings.ToLower(h.g.text(t, "upstream ok "+place)), "the owner did not get the %s", place)
	}
	for _, class := range []string{"echoed query", "text body", "bare body", "zipped", "plan effect", "plan id of many", "plan snapshot", "location query"} {
		assert.Contains(t, mine, h.g.text(t, class), "the owner did not get the %s", class)
	}
	assert.Contains(t, h.notices.String(), h.g.text(t, "wrong configuration"), "the operator was told")
	// Whoever is told by the wire got as far as the program.
	assert.NotZero(t, h.bad.Accepted())
}

// received is all that came to an upstream.
func received(s *upstream.Server) string {
	var b strings.Builder
	for _, r := range s.Ledger() {
		fmt.Fprintf(&b, "%s %s\n", r.Method, r.Target)
		for _, f := range r.Headers {
			fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Value)
		}
		b.Write(r.Body)
		b.WriteByte('\n')
	}
	return b.String()
}

// undriven are the codes that an action can end with and that this test does not
// bring about in this process, each with its reason.
func undriven() map[schemas.Code]string {
	return map[schemas.Code]string{
		schemas.DenySchema: "no entry has schemas yet", schemas.InternalError: "it takes a store that is broken", schemas.DenyApproval: "there are no approvals yet",
		schemas.DenyBudget: "there are no budgets yet", schemas.DenyKilled: "there is no kill switch yet",
		schemas.Interrupted: "TestNothingLeaksFromACrash brings it about", schemas.UpstreamTLS: "it is repeated: RETRIES_EXHAUSTED",
		schemas.Unavailable:     "it takes a node that cannot run git",
		schemas.UpstreamConnect: "it is repeated: RETRIES_EXHAUSTED",
		schemas.UpstreamTimeout: "it is repeated, or its outcome is unknown", schemas.UpstreamReset: "it is repeated, or its outcome is unknown",
	}
}

// ended proves that every end was driven to: an outcome or a code that nobody
// came to is one whose leaks nobody has looked for.
func ended(t *testing.T, houses ...*house) {
	t.Helper()
	outcomes, codes := map[string]int{}, map[schemas.Code]int{}
	for _, h := range houses {
		pages(h, "/v1/actions?limit=1000", func(a schemas.ActionEntry) {
			outcomes[string(a.Status)]++
			codes[a.Code]++
		})
	}
	for _, o := range schemas.Outcomes() {
		assert.Positive(t, outcomes[string(o)], "no action ended as %s", o)
	}
	skip := undriven()
	for _, c := range schemas.SettleCodes() {
		if _, known := skip[c]; !known {
			assert.Positive(t, codes[c], "no action ended with %s", c)
		}
	}
	// At the door, each refusal was counted.
	_, metrics := houses[0].admin.send(http.MethodGet, "/metrics", "")
	for _, c := range schemas.DoorCodes() {
		if slices.Contains([]schemas.Code{schemas.LogFull, schemas.Unavailable, schemas.StreamGone, schemas.RequestTimeout, schemas.InFlight, schemas.NotAcceptable, schemas.BudgetExhausted, schemas.Misdirected, schemas.QueueFull}, c) {
			continue // a full log, a broken one, an old one, 20 s of waiting, races, what workers refuse, another role, and a crowd
		}
		if n := fmt.Sprintf("weir_requests_refused_total{code=%q} 0\n", c); strings.Contains(metrics, n) {
			assert.Fail(t, "the door never answered "+string(c))
		}
	}
}
