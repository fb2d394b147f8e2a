//go:build e2e

package corpus_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
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
	Pace       *pace                      `json:"pace"`
	PaceRead   int                        `json:"pace_read"`
	Assert     string                     `json:"assert"`
	Concurrent json.RawMessage            `json:"concurrent"`
	With       *beside                    `json:"concurrent_with"`
	Disconnect int64                      `json:"disconnect_after_bytes"`
	// What no row of a served surface has so far.
	Upstream json.RawMessage `json:"upstream"`
	Resolver json.RawMessage `json:"resolver"`
	// What net/http does by itself; nothing is checked against it.
	Stdlib json.RawMessage `json:"stdlib"`

	unread error // what keeps the line from being a row
	ready  bool  // its setup is done
	via    route
	own    *errand           // the task that it is about
	tokens map[string]string // of other tasks, made for it
}

// pace is how fast a row sends.
type pace struct {
	BytesPerSecond int `json:"bytes_per_s"`
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
		n := 0
		for line := range bytes.Lines(data) {
			n++
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			var r inboundRow
			r.unread = readStrictly(line, &r)
			r.ID = cmp.Or(r.ID, path+":"+itoa(n))
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

// inboundAsserts are the sentences that the harness checks; see assertions.
var inboundAsserts = []string{
	"no response byte contains evil.test", "Content-Type: application/json; X-Content-Type-Options: nosniff",
	"connection closed", "GOAWAY or close; CPU bounded; other clients served", "other clients served; per-peer cap",
	"write deadline; worker not blocked", "audit peer is the socket address", "equal ids", "one upstream hit", "no duplicate terminal",
	"parsed by a WHATWG parser: one event, identical payload", "bounded buffer; server closes; resume loses nothing", "heartbeat",
	"canary absent from body, logs, metrics labels, traces", contractShaped, traceDropped,
	assertUnread, assertOneWins, assertOneEnd, assertNoMarkup, assertUnchanged,
	assertChildGone, errPacketToo, assertNoFilter, assertBounded, assertRefKept, assertRefForm, assertQuarantine, assertNothingLeft, assertMoved,
	assertNoContact, assertFraming,
}

// Two sentences about runs.
const (
	contractShaped = "body has request_id, ok:false, outputs, warnings"
	traceDropped   = "request may also be served with a fresh trace id"
)

// assertWords are the assertions with a value, each with the surfaces that check it.
var assertWords = map[string][]string{
	assertDetail: {rulesSurface}, assertHas: {rulesSurface}, assertSays: {taskSurface, gitSurface}, assertView: {taskSurface, gitSurface}, assertLacks: {gitSurface},
}

// limits are the assertions with a number.
var limits = regexp.MustCompile(`(max_wall_s|max_rss_mb)=\d+|closed <= \d+ s`)

// unchecked is what is left of a row's assertion after all that the harness checks.
func (r *inboundRow) unchecked() string {
	rest := limits.ReplaceAllString(r.Assert, "")
	for word, surfaces := range assertWords {
		if slices.Contains(surfaces, r.Surface) {
			rest = regexp.MustCompile(`(^|; )`+word+`.*?(; |$)`).ReplaceAllString(rest, "; ")
		}
	}
	for _, sentence := range inboundAsserts {
		rest = strings.Replace(rest, sentence, "", 1)
	}
	return strings.Trim(rest, ";, ")
}

// classes are the forms of expected_status_class, several with a bar between them.
var classes = regexp.MustCompile(`^([1-5]xx|[1-5]\d\d|close)(\|([1-5]xx|[1-5]\d\d|close))*$`)

// lacks names what the row says and the harness does not know; "" lets it run. What
// stands for a placeholder is known when it is filled in.
func (r *inboundRow) lacks() string {
	var body struct {
		Gen string `json:"gen"`
	}
	_ = json.Unmarshal(r.Body, &body) // most bodies are strings
	switch {
	case r.unread != nil:
		return "reader of this row: " + r.unread.Error()
	case !slices.Contains(servedSurfaces, r.Surface) || r.unserved():
		return fmt.Sprintf("surface %q", r.Surface)
	case !classes.MatchString(r.Class):
		return fmt.Sprintf("expected_status_class %q", r.Class)
	case r.Level != "must" && r.Level != "strict":
		return fmt.Sprintf("level %q", r.Level)
	case r.Concurrent != nil && r.Surface != rulesSurface, r.With != nil && r.Surface != taskSurface:
		return "second request at the same time, on surface " + r.Surface
	case r.Disconnect > 0 && r.Surface != gitSurface:
		return "disconnect_after_bytes on surface " + r.Surface
	case r.Repeat > 1 && (r.Surface == gitSurface || r.Surface == chatSurface):
		return "repeat on surface " + r.Surface
	case r.Pace != nil && (r.Pace.BytesPerSecond != 0 || r.Method != methodRaw):
		return "pace but that of a raw request that stops"
	case r.Upstream != nil && !r.modelKnows():
		return "upstream " + string(r.Upstream)
	case r.Resolver != nil:
		return "resolver of the row's own"
	case r.Setup != "" && inboundSetups[r.Setup] == nil:
		return fmt.Sprintf("setup %q", r.Setup)
	case body.Gen != "" && body.Gen != "repeat" && bodyMakers[body.Gen] == nil && (r.Surface != gitSurface || gitMakers[body.Gen] == nil):
		return fmt.Sprintf("generator %q", body.Gen)
	case body.Gen != "" && r.Surface == gitSurface && readStrictly(r.Body, new(gitSpec)) != nil:
		return "member of this body: " + readStrictly(r.Body, new(gitSpec)).Error()
	case r.unchecked() != "":
		return fmt.Sprintf("assertion %q", r.unchecked())
	}
	return ""
}

// unserved reports whether the row's path is one that Weir does not serve yet.
func (r *inboundRow) unserved() bool {
	return slices.ContainsFunc(unserved, func(begin string) bool { return strings.HasPrefix(r.Path, begin) })
}

// slow rows wait; they run side by side.
func (r *inboundRow) slow() bool {
	return r.Pace != nil || r.PaceRead > 0 || r.Assert == "heartbeat" || r.Setup == "nats_down" || r.Raw == "{slow_read}"
}
