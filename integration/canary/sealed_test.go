//go:build e2e

package canary_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/processors/settle"
	"weir/schemas"
)

// sealedText is what a record of a sensitive run may say beside numbers: keyed
// hashes, codes, methods, and the words of closed sets.
var sealedText = regexp.MustCompile(`^(hmac-sha256:[0-9a-f]{64}|[A-Z][A-Z_]{2,40}|once|keyed|safe|idempotent|applied|succeeded|partial|failed|)$`)

// checkSealed is the positive check of such a record: whatever it has is of the
// closed set. It finds what no canary has thought of.
func checkSealed(record []byte) (bad []string) {
	var e schemas.Evidence
	var payload any
	if json.Unmarshal(record, &e) != nil || json.Unmarshal(e.Payload, &payload) != nil {
		return []string{"a record that cannot be read"}
	}
	if s := e.Shadow; s != nil && s.Reason != "" {
		bad = append(bad, "a reason")
	}
	if r := e.Traffic; r != nil && !sealedText.MatchString(r.Target) {
		bad = append(bad, "where a rule has led")
	}
	var look func(member string, v any)
	look = func(member string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if !regexp.MustCompile(`^([a-z_]{1,24}|hmac-sha256:[0-9a-f]{64})$`).MatchString(name) {
					bad = append(bad, "a name")
				}
				look(name, inner)
			}
		case []any:
			for _, inner := range v {
				look(member, inner)
			}
		case string:
			if !sealedText.MatchString(v) && member != "worker" && (v != e.Entry || member != "allowlist" && member != "entry") {
				bad = append(bad, "a text as "+member)
			}
		}
	}
	look("", payload)
	return bad
}

// sensitive reports whether a record is of a run whose content evidence may not
// have, by the id that the run was given.
func sensitive(record []byte) bool {
	var e schemas.Evidence
	return json.Unmarshal(record, &e) == nil && strings.HasPrefix(e.ActionID, sensitiveRun)
}

// sealed proves that sensitive runs have left records of every sort, and that each
// is one that the positive check passes; that the others are as they were; and that
// sensitive runs came to every end.
func (h *house) sealed() {
	h.t.Helper()
	kinds, open := map[string]int{}, map[string]int{}
	pages(h, "/v1/evidence?limit=500", func(r json.RawMessage) {
		var e schemas.Evidence
		require.NoError(h.t, json.Unmarshal(r, &e))
		if !sensitive(r) {
			if strings.HasPrefix(e.ActionID, "run.") {
				open[e.Kind]++
				assert.NotContains(h.t, string(e.Payload), "hmac-sha256:")
			}
			return
		}
		kinds[e.Kind]++
		h.hashes += string(e.Payload)
		assert.Empty(h.t, checkSealed(r), "%s", r)
	})
	for _, kind := range []string{schemas.EvidenceAttempt, schemas.EvidenceConnector, schemas.EvidenceDecision} {
		assert.Positive(h.t, kinds[kind], "no sensitive run has left evidence of the kind %s", kind)
		assert.Positive(h.t, open[kind], "no other run has left evidence of the kind %s", kind)
	}
	outcomes := map[string]int{}
	pages(h, "/v1/actions?limit=1000&kind=run", func(a schemas.ActionEntry) {
		if strings.HasPrefix(a.ID, sensitiveRun) {
			outcomes[string(a.Status)]++
		}
	})
	for _, o := range schemas.Outcomes() {
		assert.Positive(h.t, outcomes[string(o)], "no sensitive run ended as %s", o)
	}
}

// sealKey has the key of the evidence looked for, in the forms that it would be
// written in; as bytes it lies in its bucket.
func (h *house) sealKey() {
	h.t.Helper()
	open(h.t, h.dir, func(js jetstream.JetStream) {
		kv, err := js.KeyValue(h.t.Context(), schemas.KeyBucket)
		require.NoError(h.t, err)
		key, err := kv.Get(h.t.Context(), "evidence")
		require.NoError(h.t, err)
		require.Len(h.t, key.Value(), 32)
		h.verify(key.Value())
		for _, text := range []string{
			hex.EncodeToString(key.Value()), base64.StdEncoding.EncodeToString(key.Value()), base64.URLEncoding.EncodeToString(key.Value()),
			strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", key.Value()), " ", ","), "[]"),
		} {
			h.g.known("the key of the evidence", text)
		}
	})
}

// verify proves that it is the key: with it the hash of a content that is known
// can be made again, if such a content was sent.
func (h *house) verify(key []byte) {
	h.t.Helper()
	for _, c := range h.g.list() {
		if c.class == provedKey {
			assert.Contains(h.t, h.hashes, settle.NewSeal(key).Mac("owner", c.text))
		}
	}
}

// provedKey is the class of an idempotency key of a sensitive plan.
const provedKey = "proved key"

// TestSealedCheckIsMade: records that a sensitive run must not leave.
func TestSealedCheckIsMade(t *testing.T) {
	t.Parallel()
	record := func(payload string) []byte {
		return []byte(`{"id":"a","action_id":"sensitive.a","kind":"http.attempt","entry":"agent:T","payload":` + payload + `}`)
	}
	hash := "hmac-sha256:" + strings.Repeat("a", 64)
	for _, good := range []string{
		`{"step":0,"method":"POST","request_fingerprint":"` + hash + `","class":"once","worker":"host-1-a","sent":true,"allowlist":"agent:T","response_hash":""}`,
		`{"artifact_refs":{"` + hash + `":{"status":"failed"}},"status":"partial"}`,
	} {
		require.True(t, sensitive(record(good)))
		require.Empty(t, checkSealed(record(good)))
		require.Equal(t, string(record(good))+"\n", string(beyond(t, record(good))), "nothing is taken out before it is searched")
	}
	for _, bad := range []string{
		`{"response_snippet":"a text"}`, `{"request_digest":"` + strings.Repeat("a", 64) + `"}`, `{"artifact_refs":{"effect/1":{}}}`, `{"target":"GET http://a/b?"}`,
		`{"allowlist":"another"}`, `{"new":"agent:T"}`, `{"new":["a text"]}`, `"a text"`, `{`,
	} {
		require.NotEmpty(t, checkSealed(record(bad)), bad)
	}
}

// TestUnsealedEvidenceIsFound: a run that leaves its evidence open, under an id
// that says it must not, is found by its snippet, by its plain hash, and by the
// positive check, in what the API tells and in what is stored.
func TestUnsealedEvidenceIsFound(t *testing.T) { //nolint:paralleltest // goroutines, processes and temporary files are everybody's
	g := &garden{}
	h := newHouse(t, g, ample, policyText)
	body := g.plant("body")
	h.plain.Handle("/snippet", fullText(body))
	run := h.order(schemas.TaskHTTPPlan, schemas.RiskNonSensitive, object{
		"state:env.snapshot": object{}, "artifact:proposed.plan": object{"decisions": []any{
			object{"effect_ref": "e", "target_state": object{"url": "http://plain.example/snippet", "allowlist_key": "plain"}},
		}},
	})
	run["request_id"] = sensitiveRun + "planted"
	status, answer := h.owner.ask(http.MethodPost, schemas.RouteRunSync, h.jsonOf(run))
	require.Equal(t, http.StatusOK, status, answer)
	var unsealed int
	pages(h, "/v1/evidence?limit=500", func(r json.RawMessage) { unsealed += len(checkSealed(r)) })
	require.Positive(t, unsealed)
	sinks := []sink{{name: "evidence", data: h.evidence()}}
	h.stop()
	for _, s := range stored(t, h.dir) {
		if s.name == "stored evidence" {
			sinks = append(sinks, s)
		}
	}
	require.Len(t, sinks, 2)
	leaks, err := scan([]canary{{class: "body", text: body}}, sinks)
	require.NoError(t, err)
	for _, s := range sinks {
		require.Contains(t, leaks, leak{s.name, "body", "text"})
		require.Contains(t, leaks, leak{s.name, "body", "sha256"})
	}
}
