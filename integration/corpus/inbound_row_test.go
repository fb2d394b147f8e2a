package corpus_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inboundRow is one line of the corpus of what callers can do.
type inboundRow struct {
	ID         string                     `json:"id"`
	Surface    string                     `json:"surface"`
	Method     string                     `json:"method"`
	Path       string                     `json:"path"`
	Headers    map[string]json.RawMessage `json:"headers"`
	Body       json.RawMessage            `json:"body"`
	Class      string                     `json:"expected_status_class"`
	Code       string                     `json:"expected_error_code"`
	Level      string                     `json:"level"`
	Why        string                     `json:"why"`
	Raw        string                     `json:"raw"`
	Gen        map[string]any             `json:"gen"`
	Setup      string                     `json:"setup"`
	Repeat     int                        `json:"repeat"`
	Pace       json.RawMessage            `json:"pace"`
	PaceRead   int                        `json:"pace_read"`
	Assert     string                     `json:"assert"`
	Concurrent json.RawMessage            `json:"concurrent"`
	With       *beside                    `json:"concurrent_with"`
	Disconnect int64                      `json:"disconnect_after_bytes"`
	// What no row of a served surface has so far.
	Upstream json.RawMessage `json:"upstream"`
	Resolver json.RawMessage `json:"resolver"`

	via    route
	own    *errand           // the task that it is about
	tokens map[string]string // of other tasks, made for it
}

// beside is a request that comes at the same time.
type beside struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body"`
}

// inboundFiles are the corpus, and rows of our own: what else the same rules say.
var inboundFiles = []string{"testdata/inbound.jsonl", "testdata/inbound_own.jsonl"}

// otherInbound names another file of rows to run instead.
const otherInbound = "WEIR_INBOUND_CASES"

func readInbound(t *testing.T) []inboundRow {
	t.Helper()
	files := inboundFiles
	if other := os.Getenv(otherInbound); other != "" {
		files = []string{other}
	}
	var rows []inboundRow
	for _, path := range files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var r inboundRow
			require.NoError(t, json.Unmarshal(line, &r), string(line))
			rows = append(rows, r)
		}
	}
	require.NotEmpty(t, rows)
	return rows
}

// servedSurfaces are those that Weir has, or has another of its own kind for.
var servedSurfaces = []string{
	"http-protocol", "auth", "json-body", "content-type-encoding", "limits", "slow-clients",
	"routing-and-paths", "idempotency", "sse", "ops-surfaces", "envelope-and-ids", rulesSurface,
	taskSurface, gitSurface, chatSurface,
}

// unserved begin the paths of surfaces that are still to come.
var unserved = []string{"/v1/approvals/", "/v1/webhooks"}

// inboundAsserts are the sentences that the harness can check; see assertions.
var inboundAsserts = []string{
	"no response byte contains evil.test", "Content-Type: application/json; X-Content-Type-Options: nosniff",
	"max_wall_s=", "max_rss_mb=", "connection closed", "GOAWAY or close", "other clients served", "closed <= ", "write deadline",
	"audit peer is the socket address", "equal ids", "no duplicate terminal", "parsed by a WHATWG parser", "bounded buffer", "heartbeat",
	"canary absent from body", contractShaped, traceDropped,
	assertDetail, assertHas, assertUnread, assertOneWins,
	assertOneEnd, assertNoMarkup, assertUnchanged, assertSays, assertView,
	assertChildGone, assertNoFilter, assertBounded, assertRefKept, assertRefForm, assertQuarantine, assertNothingLeft, assertMoved, assertLacks,
	assertNoContact, assertFraming,
}

// Two sentences about runs.
const (
	contractShaped = "body has request_id, ok:false, outputs, warnings"
	traceDropped   = "request may also be served with a fresh trace id"
)

// runs says whether the harness has all that a row needs, or what is missing.
func (r *inboundRow) runs() string {
	has := func(all []string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(r.Path, s) })
	}
	var body struct {
		Gen string `json:"gen"`
	}
	_ = json.Unmarshal(r.Body, &body) // most bodies are strings
	switch {
	case !slices.Contains(servedSurfaces, r.Surface) || has(unserved):
		return "the surface of " + r.Surface
	case r.Concurrent != nil && r.Surface != rulesSurface || r.With != nil && r.Surface != taskSurface || r.Disconnect > 0 && r.Surface != gitSurface,
		r.Upstream != nil && !r.modelKnows(), r.Resolver != nil:
		return "a second request, or an upstream of the row's own"
	case r.Setup != "" && inboundSetups[r.Setup] == nil:
		return "the setup " + r.Setup
	case body.Gen != "" && bodyMakers[body.Gen] == nil && (r.Surface != gitSurface || gitMakers[body.Gen] == nil):
		return "the body " + body.Gen
	case strings.HasPrefix(r.Raw, "{") && rawScripts[r.Raw] == nil:
		return "the script " + r.Raw
	case r.Assert != "" && !slices.ContainsFunc(inboundAsserts, func(s string) bool { return strings.Contains(r.Assert, s) }):
		return "the assertion " + r.Assert
	}
	return ""
}

// slow rows wait; they run side by side.
func (r *inboundRow) slow() bool {
	return r.Pace != nil || r.PaceRead > 0 || r.Assert == "heartbeat" || r.Setup == "nats_down" || r.Raw == "{slow_read}"
}
