//go:build e2e

package canary_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"

	"weir/schemas"
)

// TestChatCheckIsMade: records that a completion must not leave.
func TestChatCheckIsMade(t *testing.T) {
	t.Parallel()
	record := func(payload string) []byte {
		return []byte(`{"id":"a","action_id":"b","kind":"` + schemas.EvidenceChat + `","entry":"model:any:any","payload":` + payload + `}`)
	}
	hash := "hmac-sha256:" + strings.Repeat("a", 64)
	for _, good := range []string{
		`{"model_asked":"any/fine","upstream":"any:any","attempt":1,"stream":true,"sent":true,"duration_ms":3,"usage":{"prompt_tokens":1,"estimated":true},"request_hmac_sha256":"` + hash + `"}`,
		`{"model_asked":"a","finish_reasons":["stop","` + hash + `"],"limit_source":"spent","task_id":"t-1","gen_ai":{"gen_ai.operation.name":"chat","gen_ai.response.model":"x/y","gen_ai.usage.input_tokens":1,"error.type":"MODEL_FAILED"}}`,
	} {
		require.Empty(t, checkChat(record(good)), good)
	}
	for _, bad := range []string{
		`{"model_asked":"a text"}`, `{"finish_reasons":["agwcanary"]}`, `{"request_hmac_sha256":"` + strings.Repeat("a", 64) + `"}`, `{"new":"text"}`, `{"a name":1}`, `{"upstream":"other"}`,
		`{"limit_source":"other"}`, `{"gen_ai":{"gen_ai.system":"x"}}`, `{"usage":{"note":"x"}}`, `{"error":["x"]}`, `"text"`, `{`,
	} {
		require.NotEmpty(t, checkChat(record(bad)), bad)
	}
	require.NotEmpty(t, checkChat([]byte(`{"id":"a","kind":"`+schemas.EvidenceChat+`","entry":"model:other","payload":{}}`)))
	left := string(beyond(t, record(`{"model_asked":"NAMED","model_sent":"NAMED","note":"kept","gen_ai":{"gen_ai.request.model":"NAMED","gen_ai.new":"kept too"}}`)))
	require.NotContains(t, left, "NAMED")
	require.Contains(t, left, `"kept"`)
	require.Contains(t, left, `"kept too"`)
}

// TestSpanCheckIsMade: attributes that a span must not have.
func TestSpanCheckIsMade(t *testing.T) {
	t.Parallel()
	text := func(s string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
	}
	list := func(s ...string) *common.AnyValue {
		l := &common.ArrayValue{}
		for _, one := range s {
			l.Values = append(l.Values, text(one))
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: l}}
	}
	for key, v := range map[string]*common.AnyValue{
		"gen_ai.request.model": text("any/fine"), "gen_ai.response.finish_reasons": list("stop", "length"), "weir.cost_usd": {Value: &common.AnyValue_DoubleValue{DoubleValue: 1}}, "error.type": text("POISON"),
	} {
		require.Empty(t, checkSpan([]*common.KeyValue{{Key: key, Value: v}}), key)
	}
	for key, v := range map[string]*common.AnyValue{
		"gen_ai.request.model": text("a text"), "gen_ai.response.finish_reasons": list("stop", "agwcanary"), "gen_ai.prompt": text("x"), "error.type": text("it failed"), "weir.tenant": text("other"),
	} {
		require.NotEmpty(t, checkSpan([]*common.KeyValue{{Key: key, Value: v}}), key)
	}
}
