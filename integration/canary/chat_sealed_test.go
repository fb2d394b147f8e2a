//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// chatWords are the texts that each member of a record of a model's call may have. The
// rest of them are numbers and flags.
func chatWords(member string) *regexp.Regexp {
	switch member {
	case "model_asked", "model", "model_sent", "gen_ai.request.model", "gen_ai.response.model":
		return modelName
	case "upstream", "gen_ai.provider.name":
		return spanText["gen_ai.provider.name"]
	case "finish_reasons", "gen_ai.response.finish_reasons":
		return regexp.MustCompile(`^(stop|length|tool_calls|content_filter|function_call|error|other|hmac-sha256:[0-9a-f]{64})$`)
	case "request_hmac_sha256", "response_hmac_sha256":
		return regexp.MustCompile(`^hmac-sha256:[0-9a-f]{64}$`)
	case "gen_ai.operation.name", "error.type":
		return spanText[member]
	case "task_id":
		return regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	case "limit_source":
		return regexp.MustCompile(`^(everybody|each|tasks|spent|windows|money|cut|task)$`)
	default:
		return nil
	}
}

// checkChat is the positive check of a record of a model's call.
func checkChat(record []byte) (bad []string) {
	var e schemas.Evidence
	var payload map[string]any
	if json.Unmarshal(record, &e) != nil || json.Unmarshal(e.Payload, &payload) != nil {
		return []string{"a record that cannot be read"}
	}
	if e.Entry != "" && spanText["gen_ai.provider.name"].FindString(strings.TrimPrefix(e.Entry, schemas.ModelEntryPrefix)) == "" {
		bad = append(bad, "another entry")
	}
	var look func(member string, v any)
	look = func(member string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				if !regexp.MustCompile(`^[a-z0-9_.]{1,40}$`).MatchString(name) {
					bad = append(bad, "a name")
				}
				look(name, inner)
			}
		case []any:
			for _, inner := range v {
				look(member, inner)
			}
		case string:
			if form := chatWords(member); form == nil || !form.MatchString(v) {
				bad = append(bad, "a text as "+member)
			}
		}
	}
	look("", payload)
	return bad
}

// unnamed is a record of a model's call without the names of models, which are anybody's
// within their alphabet.
func unnamed(tb testing.TB, payload []byte) []byte {
	tb.Helper()
	payload = without(tb, payload, "model_asked", "model", "model_sent")
	var p map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal(payload, &p))
	if p["gen_ai"] != nil {
		p["gen_ai"] = without(tb, p["gen_ai"], "gen_ai.request.model", "gen_ai.response.model")
	}
	raw, err := json.Marshal(p)
	require.NoError(tb, err)
	return bytes.TrimSpace(raw)
}

// chatSealed proves that completions came to every end and left records of every sort,
// each of which passes the positive check.
func (h *house) chatSealed(expired *house) {
	h.t.Helper()
	outcomes, codes, records := map[schemas.Status]int{}, map[schemas.Code]int{}, map[string]int{}
	for _, from := range []*house{h, expired} {
		chats := map[string]bool{}
		pages(from, "/v1/actions?limit=1000&kind=chat", func(a schemas.ActionEntry) {
			chats[a.ID] = true
			outcomes[a.Status]++
			codes[a.Code]++
		})
		pages(from, "/v1/evidence?limit=500", func(r json.RawMessage) {
			var e schemas.Evidence
			require.NoError(h.t, json.Unmarshal(r, &e))
			if !chats[e.ActionID] {
				return
			}
			records[e.Kind+" "+string(e.Code)]++
			if e.Kind == schemas.EvidenceChat {
				assert.Empty(h.t, checkChat(r), "%s", r)
			} else {
				assert.Empty(h.t, checkSealed(r), "%s", r)
			}
		})
	}
	for _, o := range schemas.Outcomes() {
		if o != schemas.OutcomeUnknown { // a completion has no effect that could be unknown
			assert.Positive(h.t, outcomes[schemas.Status(o)], "no completion ended as %s", o)
		}
	}
	for _, c := range []schemas.Code{
		"", schemas.ModelFailed, schemas.UpstreamTimeout, schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTruncated, schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.UpstreamDNS,
		schemas.UpstreamEncoding, schemas.DenyAddress, schemas.SecretUnavailable, schemas.BudgetExhausted, schemas.RateLimited, schemas.Canceled, schemas.DeadlineExceeded, schemas.Poison, schemas.ModelNotFound,
	} {
		assert.Positive(h.t, codes[c], "no completion ended with %q", c)
	}
	for _, r := range []schemas.Code{"", schemas.ModelFailed, schemas.BudgetExhausted, schemas.RateLimited, schemas.UpstreamTimeout, schemas.Canceled} {
		assert.Positive(h.t, records[schemas.EvidenceChat+" "+string(r)], "no completion has left evidence of %q", r)
	}
	h.t.Logf("chats: %v\nrecords: %v", codes, records)
}

// chatReached proves that what was not found was there to be found.
func (h *house) chatReached() {
	t, wire, mine := h.t, h.spoken(), h.owner.seen.String()
	for _, class := range []string{"chat any/full false", "chat any/full true", "chat pair true", "chat any/middle true", "chat of a task"} {
		for _, place := range inAllOf() {
			assert.Contains(t, wire, h.g.text(t, class+" "+place), "%s %s did not reach the model", class, place)
		}
	}
	for _, class := range []string{"of a model", "beside a model's", "model's name", "asked of a named model"} {
		assert.Contains(t, wire, h.g.text(t, class), "the %s did not reach the model", class)
	}
	for _, place := range []string{
		"content", "refusal", "reasoning", "reasoning content", "detail", "call id", "function name", "argument", "old function", "citation", "transcript", "message key", "message value", "inner", "token",
		"id", "own name", "fingerprint", "provider", "deep", "usage value", "finish", "native reason", "choice value", "severity",
	} {
		assert.Contains(t, mine, h.g.text(t, "model full "+place), "the owner did not get the %s", place)
	}
	for _, class := range []string{
		"model text", "model message", "model refuses-400 error message", "model refuses-422 error message", "model middle error message", "model middle content", "model cut content", "model lost content",
		"model first error message", "model held before it holds on", "model paused behind the pause", "model says ChatCompletion choices.0.message.* (name) as response false",
	} {
		assert.Contains(t, mine, h.g.text(t, class), "the owner did not get the %s", class)
	}
	for _, status := range []string{"401", "402", "403"} { // what a provider says of Weir's own account with it
		assert.NotContains(t, mine, h.g.text(t, "model refuses-"+status+" error message"))
	}
	_, metrics := h.admin.send(http.MethodGet, "/metrics", "")
	for _, series := range []string{
		`gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_provider_name="any:any",gen_ai_request_model="any/*",gen_ai_token_type="input"}`,
		`gen_ai_client_operation_duration_seconds_count{error_type="MODEL_FAILED",gen_ai_operation_name="chat",gen_ai_provider_name="any:any",gen_ai_request_model="any/*"}`,
		`gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="named:any",gen_ai_request_model="named/*"}`,
		`weir_chat_refused_total{budget="spent"}`, `weir_chat_refused_total{budget="task"}`, `weir_chat_cost_usd_total`,
	} {
		assert.Contains(t, metrics, series)
		assert.NotContains(t, metrics, series+" 0\n")
	}
}

// spansReached proves that spans were sent, with what they are there for.
func (h *house) spansReached(sinks []sink) {
	at := slices.IndexFunc(sinks, func(s sink) bool { return s.name == "spans" })
	require.GreaterOrEqual(h.t, at, 0)
	assert.True(h.t, h.spans.key.Load(), "the collector's credential did not reach it")
	for _, text := range []string{"gen_ai.usage.input_tokens", `"any:any"`, "weir.action_id", string(schemas.ModelFailed), string(schemas.Canceled)} {
		assert.Contains(h.t, string(sinks[at].data), text)
	}
	assert.Contains(h.t, h.log.String(), "spans not sent")
}
