package settle_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/telemetry"
	"weir/internal/weirtest/fixture"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

// shelf is a log of evidence that keeps what it is given.
type shelf struct{ records []schemas.Evidence }

func (s *shelf) Send(_ context.Context, _, _ string, data []byte) (func() error, error) {
	var e schemas.Evidence
	err := json.Unmarshal(data, &e)
	s.records = append(s.records, e)
	return func() error { return nil }, err
}

func (s *shelf) Page(context.Context, string, string, uint64, int, int) ([]schemas.Record, bool, error) {
	return nil, false, nil
}

var key = []byte("0123456789abcdef0123456789abcdef")

// left is what arrives of a record of an action.
func left(t *testing.T, a schemas.Action, e schemas.Evidence, seal *settle.Seal) schemas.Evidence {
	t.Helper()
	var s shelf
	r := settle.NewRecorder(&s, telemetry.NewMetrics(), seal)
	require.NoError(t, r.Store(t.Context(), &ledger.State{Action: a}, e))
	require.Len(t, s.records, 1)
	return s.records[0]
}

func sealed(t *testing.T, e schemas.Evidence) schemas.Evidence {
	t.Helper()
	return left(t, schemas.Action{Sensitive: true}, e, settle.NewSeal(key))
}

// records are one of each sort that is left, every text that is a caller's or a
// target's being a canary.
func records(t *testing.T, canary func(string) string) map[string]schemas.Evidence {
	t.Helper()
	st := &ledger.State{Ref: schemas.Ref{Tenant: "t", Kind: schemas.KindRun, ID: "a"}}
	decision := schemas.Decision{
		Allowed: true, Entry: "agent:T", Version: "v",
		Shadow: &schemas.Shadow{Code: schemas.DenyHost, Reason: canary("shadow reason"), Entry: "strict"},
	}
	try := ledger.Attempt{
		Attempt: schemas.Attempt{Step: 1, Number: 2, Hop: 1, Class: schemas.ClassOnce, Worker: "host-1-ab", Decision: decision, Digest: canary("digest")},
		Result:  &schemas.Attempted{Status: 200, Sent: true, Duration: 7 * time.Millisecond, Answer: &schemas.Answer{Hash: canary("answer hash"), Snippet: canary("snippet")}},
	}
	attempt, err := settle.Attempt(st, try, "POST", canary("target of an attempt"))
	require.NoError(t, err)
	denial, err := settle.Denial(st, 0, "GET", canary("target of a denial"), schemas.Decision{Code: schemas.DenyHost, Reason: canary("reason"), Entry: "agent:T", Version: "v"}, 0)
	require.NoError(t, err)
	view := plans.View{Method: "PUT", URL: canary("url"), Fingerprint: canary("fingerprint"), IdempotencyKey: canary("key")}
	answered := attempt
	answered.Kind = schemas.EvidenceConnector
	answered.Payload = plans.CallRecord(canary("effect"), view, 204, canary("hash"), canary("the snippet"), "agent:T")
	closing := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceConnector, Payload: plans.ClosingRecord(schemas.PlanResult{ActResult: schemas.ActResult{
		Status: "partial",
		ArtifactRefs: map[string]schemas.ArtifactRef{
			canary("applied effect"): {
				Status: "applied", URL: new(canary("closing url")), Method: new("GET"), Fingerprint: new(canary("closing fingerprint")),
				ResponseSnippet: new(canary("closing snippet")), ResponseHash: new(canary("closing hash")),
			},
			canary("failed effect"): {Status: "failed", Error: new(canary("error"))},
		},
	}})}
	rule := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceRuleWrite, Payload: encode(t, schemas.RuleAudit{
		Timestamp: "2026-01-02T03:04:05.6Z", Operation: schemas.OpRulesPatch, Result: schemas.RuleWritten, Caller: canary("caller"), RequestID: canary("request id"),
		RuleID: canary("rule id"), RulesEtagBefore: canary("etag before"), RulesEtagAfter: canary("etag after"),
	})}
	brief := closing
	brief.Payload = encode(t, map[string]any{"effects": 3, "execution_hash": canary("execution"), "status": "failed"})
	return map[string]schemas.Evidence{"attempt": attempt, "denial": denial, "answered": answered, "closing": closing, "brief": brief, "rule": rule}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := ledger.Encode(v)
	require.NoError(t, err)
	return raw
}

// TestSealedRecords: of every sort of record that is left, the numbers, codes and
// names are still there, and nothing of the content. The control shows that it
// had been.
func TestSealedRecords(t *testing.T) {
	t.Parallel()
	var planted []string
	canary := func(class string) string {
		text := "CANARY " + class + "/" + strings.Repeat("z", 5)
		planted = append(planted, text)
		return text
	}
	all := records(t, canary)
	kept := map[string][]string{
		"attempt":  {`"step":1`, `"attempt":2`, `"hop":1`, `"method":"POST"`, `"class":"once"`, `"worker":"host-1-ab"`, `"sent":true`, `"status":200`, `"duration_ms":7`, `"allowlist":"agent:T"`},
		"denial":   {`"step":0`, `"method":"GET"`, `"code":"DENY_HOST"`, `"entry":"agent:T"`},
		"answered": {`"method":"PUT"`, `"status":204`, `"allowlist":"agent:T"`},
		"closing":  {`"status":"partial"`, `"status":"applied"`, `"status":"failed"`, `"method":"GET"`},
		"brief":    {`"effects":3`, `"status":"failed"`},
		"rule":     {`"timestamp":"2026-01-02T03:04:05.6Z"`, `"operation":"rules.patch"`, `"result":"` + schemas.RuleWritten + `"`},
	}
	var open bytes.Buffer
	for sort, e := range all {
		plain := left(t, schemas.Action{}, e, nil)
		assert.JSONEq(t, string(e.Payload), string(plain.Payload), "what is not sensitive stays as it is")
		open.Write(encode(t, plain))
		got := sealed(t, e)
		text := string(encode(t, got))
		assert.NotContains(t, text, "CANARY", sort)
		assert.NotContains(t, text, "snippet", "%s: not even a hash of it", sort)
		for _, want := range kept[sort] {
			assert.Contains(t, text, want, sort)
		}
		assert.Equal(t, []string{e.ID, e.Kind, e.Entry, string(e.Code), e.PolicyVersion, e.ActionID},
			[]string{got.ID, got.Kind, got.Entry, string(got.Code), got.PolicyVersion, got.ActionID}, sort)
		if e.Shadow != nil {
			assert.Equal(t, "strict", got.Shadow.Entry)
			assert.NotEmpty(t, e.Shadow.Reason, "the log's own keeps its words")
		}
	}
	for _, text := range planted {
		if !strings.Contains(text, "CANARY snippet") { // the attempt's record has none
			assert.Contains(t, open.String(), text)
		}
	}
}

// TestEveryMemberHasARule: a member that is added to a record is decided upon,
// or this fails.
func TestEveryMemberHasARule(t *testing.T) {
	t.Parallel()
	hash := regexp.MustCompile(`^hmac-sha256:[0-9a-f]{64}$`)
	for sort, e := range records(t, func(class string) string { return class }) {
		members := fixture.Decode[map[string]json.RawMessage](t, sealed(t, e).Payload)
		for name := range members {
			assert.False(t, hash.MatchString(name), "%s: a member has no rule: its name is sealed", sort)
		}
		var refs map[string]map[string]json.RawMessage
		if raw, ok := members["artifact_refs"]; ok {
			require.NoError(t, json.Unmarshal(raw, &refs))
			require.Len(t, refs, 2)
		}
		for effect, of := range refs {
			assert.Regexp(t, hash, effect)
			for name := range of {
				assert.False(t, hash.MatchString(name), "an effect's member has no rule")
			}
		}
	}
}

// TestUnknownMembersAreSealed, and known ones with values that are not theirs.
func TestUnknownMembersAreSealed(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{"new":"CANARY"}`, `{"CANARY":1}`, `{"new":{"CANARY":["CANARY"]}}`, `{"new":["CANARY"]}`, `{"status":"CANARY"}`, `{"status":{"a":"CANARY"}}`,
		`{"method":"CANARY"}`, `{"class":"CANARY"}`, `{"code":"CANARY"}`, `{"worker":"CANARY of somebody"}`, `{"allowlist":"CANARY"}`, `{"entry":"CANARY"}`,
		`{"sent":"CANARY"}`, `{"step":"CANARY"}`, `{"effects":["CANARY"]}`, `{"artifact_refs":"CANARY"}`, `{"artifact_refs":["CANARY"]}`,
		`{"artifact_refs":{"CANARY":"CANARY"}}`, `{"artifact_refs":{"CANARY":{"CANARY":"CANARY","artifact_refs":{"CANARY":{"url":"CANARY"}}}}}`,
		`{"response_snippet":{"a":"CANARY"}}`, `{"url":{"CANARY":1}}`, `["CANARY"]`, ` "CANARY"`, ` { "new" : "CANARY" } `, `{"status":"\u0043ANARY"}`,
	} {
		got := sealed(t, schemas.Evidence{Tenant: "t", Entry: "e", Payload: json.RawMessage(payload)})
		assert.NotContains(t, string(got.Payload), "CANARY", payload)
		assert.NotContains(t, string(got.Payload), "u0043", payload)
		assert.True(t, json.Valid(got.Payload), payload)
	}
	var s shelf
	r := settle.NewRecorder(&s, telemetry.NewMetrics(), settle.NewSeal(key))
	for _, payload := range []string{``, `{`, `{"a"`, `{"a":1`, `{"a":}`, `CANARY`, `{"a":CANARY}`} {
		err := r.Store(t.Context(), &ledger.State{Action: schemas.Action{Sensitive: true}}, schemas.Evidence{Payload: json.RawMessage(payload)})
		require.Error(t, err, payload)
		assert.NotContains(t, err.Error(), "CANARY")
	}
	assert.Empty(t, s.records)
}

// TestSealIsTheSame for the same content in one tenant under one key, whatever
// record it is in, and another for anything else. The hash of a digest can be
// verified by whoever has the key and the content.
func TestSealIsTheSame(t *testing.T) {
	t.Parallel()
	of := func(tenant, payload string, seal *settle.Seal) string {
		return string(left(t, schemas.Action{Sensitive: true}, schemas.Evidence{Tenant: tenant, Payload: json.RawMessage(payload)}, seal).Payload)
	}
	seal := settle.NewSeal(key)
	sum := sha256.Sum256([]byte("the content"))
	digest := hex.EncodeToString(sum[:])
	own := hmac.New(sha256.New, key)
	own.Write([]byte("tenant:t"))
	h := hmac.New(sha256.New, own.Sum(nil))
	h.Write([]byte(digest))
	want := "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
	assert.Equal(t, want, seal.Mac("t", digest))
	assert.Equal(t, `{"response_hash":"`+want+`"}`, of("t", `{"response_hash":"`+digest+`"}`, seal))
	assert.Contains(t, of("t", `{"artifact_refs":{"e":{"response_hash":"`+digest+`"}}}`, settle.NewSeal(key)), want)

	payload := `{"response_hash":"` + digest + `"}`
	others := []string{
		of("t", payload, seal), of("t", `{"response_hash":"`+digest[1:]+`"}`, seal), of("other", payload, seal),
		of("t", payload, settle.NewSeal([]byte("another key of thirty-two bytes."))),
	}
	slices.Sort(others)
	assert.Len(t, slices.Compact(others), len(others))
	assert.NotContains(t, strings.Join(others, ""), digest)
	assert.Equal(t, `{"response_hash":"","error":null,"artifact_refs":{}}`, //nolint:testifylint // to the byte: nothing stays nothing
		of("t", `{"response_hash":"","error":null,"artifact_refs":{}}`, seal))
}

// TestSealedRecordFits a message of the log, though a hash is longer than the
// names of many effects.
func TestSealedRecordFits(t *testing.T) {
	t.Parallel()
	refs := map[string]schemas.ArtifactRef{}
	for i := range 2500 {
		refs[fmt.Sprintf("CANARY%d", i)] = schemas.ArtifactRef{Status: "failed", Error: new("x")}
	}
	e := schemas.Evidence{Tenant: "t", Payload: encode(t, schemas.ActResult{ArtifactRefs: refs, Status: "failed"})}
	require.Less(t, len(e.Payload), schemas.InlineLimit)
	got := string(sealed(t, e).Payload)
	assert.Regexp(t, `^\{"artifact_refs":"hmac-sha256:[0-9a-f]{64}","status":"failed"\}$`, got)
}

func FuzzSeal(f *testing.F) {
	for _, seed := range []string{
		`{"step":0,"url":"http://a/b?c","response_snippet":"x","status":"failed"}`, `{"artifact_refs":{"e":{"status":"applied","new":[1]}}}`,
		`["a"]`, `"text"`, `null`, `{"a":1,"a":2}`, `{"":""}`, `{"status":1e400}`, "{\"\xff\":\"\xff\"}",
	} {
		f.Add([]byte(seed), "CANARY")
	}
	seal := settle.NewSeal(key)
	f.Fuzz(func(t *testing.T, payload []byte, text string) {
		var s shelf
		r := settle.NewRecorder(&s, telemetry.NewMetrics(), seal)
		e := schemas.Evidence{Tenant: "t", Payload: payload}
		if text == "" || len(text) > 1000 {
			return
		}
		doc, err := json.Marshal(map[string]any{"new": text, text + " ": 1, "url": text, "artifact_refs": map[string]any{text: map[string]any{"error": text, text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Store(t.Context(), &ledger.State{Action: schemas.Action{Sensitive: true}}, e) == nil && !json.Valid(s.records[0].Payload) {
			t.Fatalf("%q became %q", payload, s.records[0].Payload)
		}
		e.Payload = doc
		if err := r.Store(t.Context(), &ledger.State{Action: schemas.Action{Sensitive: true}}, e); err != nil {
			t.Fatal(err)
		}
		got := string(s.records[len(s.records)-1].Payload)
		if strings.Contains(text, " ") && len(text) > 3 && strings.Contains(got, text) {
			t.Fatalf("%q shows in %q", text, got)
		}
	})
}

// audit is a whole record of a model's call.
func audit() schemas.ChatAudit {
	seal := settle.NewSeal(key)
	return schemas.ChatAudit{
		Asked: "vendor/m-1:free", Dialect: schemas.DialectMessages, Model: "vendor/*", Sent: "m-1@x", Upstream: "up.1", TaskID: "t-1", Attempt: 2, Stream: true, Status: 200, SentOut: true,
		Finish:  []string{"stop", "tool_calls"},
		Usage:   &schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 3, Cached: 1, Reasoning: 1, CacheWrites: 1, Estimated: true, Nanos: 9, Priced: true},
		FirstMS: 4, DurationMS: 5, RequestHash: seal.Mac("t", "a"), ResponseHash: seal.Mac("t", "b"), LimitSource: "daily",
		GenAI: map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "up.1", "gen_ai.request.model": "m-1@x", "gen_ai.response.model": "m-1-2026",
			"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 2, "gen_ai.usage.cache_read.input_tokens": 1,
			"gen_ai.usage.cache_creation.input_tokens": 1, "gen_ai.usage.reasoning.output_tokens": 1, "gen_ai.response.finish_reasons": []string{"stop"}, "error.type": "MODEL_FAILED",
		},
	}
}

// TestSealedChat: the record of a model's call is of Weir's own making, and stays as it is.
func TestSealedChat(t *testing.T) {
	t.Parallel()
	a := audit()
	a.Model = "vendor/m-1"
	e := schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Entry: "model:up.1", Payload: encode(t, a)}
	assert.JSONEq(t, string(e.Payload), string(sealed(t, e).Payload))
	refused := schemas.ChatAudit{Asked: "m", Model: "m", LimitSource: "daily", GenAI: map[string]any{"gen_ai.operation.name": "embeddings"}}
	e.Entry, e.Payload = "", encode(t, refused)
	assert.JSONEq(t, string(e.Payload), string(sealed(t, e).Payload))
	// In a record of another kind the same members are nobody's.
	e.Kind = schemas.EvidenceAttempt
	assert.NotContains(t, string(sealed(t, e).Payload), "daily")
}

// TestSealedChatHasNoContent, whatever a provider or a caller has put where a word or a
// number is expected.
func TestSealedChatHasNoContent(t *testing.T) {
	t.Parallel()
	members := fixture.Decode[map[string]json.RawMessage](t, encode(t, audit()))
	for _, name := range []string{"usage", "gen_ai"} {
		inner := fixture.Decode[map[string]json.RawMessage](t, members[name])
		for member := range inner {
			members[name+" "+member] = nil
		}
	}
	hash := regexp.MustCompile(`hmac-sha256:[0-9a-f]{64}`)
	for name := range members {
		for _, value := range []string{`"CANARY of somebody"`, `{"CANARY":1}`, `["CANARY of somebody",{"CANARY":1}]`, `{"a":["CANARY"]}`} {
			doc := `{"` + name + `":` + value + `}`
			for _, outer := range []string{"usage", "gen_ai"} {
				if inner, ok := strings.CutPrefix(name, outer+" "); ok {
					doc = `{"` + outer + `":{"` + inner + `":` + value + `}}`
				}
			}
			got := string(sealed(t, schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Entry: "model:up.1", Payload: []byte(doc)}).Payload)
			assert.NotContains(t, got, "CANARY", doc)
			assert.Regexp(t, hash, got, doc)
		}
	}
	got := string(sealed(t, schemas.Evidence{Tenant: "t", Kind: schemas.EvidenceChat, Payload: []byte(`{"finish_reasons":["stop","CANARY"],"prompt_tokens":true,"stream":1}`)}).Payload)
	assert.Regexp(t, `^\{"finish_reasons":\["stop","hmac-sha256:[0-9a-f]{64}"\],"prompt_tokens":"hmac-sha256:[0-9a-f]{64}","stream":"hmac-sha256:[0-9a-f]{64}"\}$`, got)
}
