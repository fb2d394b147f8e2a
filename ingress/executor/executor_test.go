package executor_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	"weir/ingress/strict"
	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/permit"
	"weir/schemas"
)

const fixtures = "../../schemas/executor/testdata"

// granted is a policy of two grants: the host localhost, and the key orders, whose target honours idempotency keys.
func granted(tb testing.TB) permit.Policy {
	tb.Helper()
	return permit.Compile(tb, policy.Config{AllowedHosts: []string{"localhost"}, Entries: []policy.Entry{{
		Name: "orders", URLPrefix: "http://localhost:8080/", Network: policy.NetworkLoopback, Methods: []string{"POST", "PATCH"},
		UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour},
	}}})
}

// outcome is what a fixture expects: an action, or an error.
type outcome struct {
	ID      string            `json:"id,omitempty"`
	Class   schemas.Class     `json:"class,omitempty"`
	Denied  schemas.Code      `json:"denied,omitempty"`
	Call    *schemas.HTTPCall `json:"call,omitempty"`
	Status  int               `json:"status,omitempty"`
	Variant string            `json:"variant,omitempty"`
	Message string            `json:"message,omitempty"`
	Code    schemas.Code      `json:"code,omitempty"`
}

func translate(t *testing.T, body []byte) outcome {
	t.Helper()
	require.NoError(t, strict.Check(body, strict.Limits{}))
	req, err := executor.Translate(body, granted(t), new(jsonschema.Cache))
	if err != nil {
		var e *executor.Error
		require.ErrorAs(t, err, &e)
		require.Zero(t, req, "nothing comes with an error")
		return outcome{Status: executor.Status(e.Variant), Variant: e.Variant, Message: e.Message, Code: e.Code}
	}
	return outcome{ID: req.ID, Class: req.Class, Denied: req.Decision.Code, Call: &req.Call}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	set := fixture.Set{Dir: fixtures, Valid: "action.json", Invalid: "error.json"}
	set.Run(t, func(t *testing.T, _ string, body []byte) (any, bool) {
		t.Helper()
		got := translate(t, body)
		return got, got.Call != nil
	})
}

// TestAForeignParameterIsADenial of the entry that does not take it, so that it leaves evidence. A
// malformed URL is a mistake of the request.
func TestAForeignParameterIsADenial(t *testing.T) {
	t.Parallel()
	p := permit.Compile(t, policy.Config{Entries: []policy.Entry{{
		Name: "sec", URLPrefix: "http://h.example/", Methods: []string{"GET"}, Headers: map[string]string{"X-Key": "${secret:KEY}"},
	}}})
	translate := func(url string) (executor.Request, error) {
		return executor.Translate([]byte(`{"method":"GET","url":"http://h.example/`+url+`","allowlist_key":"sec"}`), p, new(jsonschema.Cache))
	}
	req, err := translate("x?b=1")
	require.NoError(t, err)
	require.Equal(t, schemas.DenyURLInvalid, req.Decision.Code)
	_, err = translate("x#b")
	var e *executor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, schemas.VariantInvalidURL, e.Variant)
}

func TestWhatCouldNotBeReadIsNeverPermitted(t *testing.T) {
	t.Parallel()
	req, err := executor.Translate([]byte(`{"method":"POST","url":"http://evil.example/x","headers":{"X-A":5},"body":{"a":1}}`), granted(t), new(jsonschema.Cache))
	require.NoError(t, err)
	require.True(t, req.Denied())
	d, _ := permit.Hosts(t, "evil.example").Evaluate(req.Call)
	require.Equal(t, schemas.DenyHeader, d.Code, "a policy that has changed meanwhile sends no half of a request")
}

func TestMessagesAreBoundedAndPrintable(t *testing.T) {
	t.Parallel()
	got := translate(t, []byte(`{"method":"`+strings.Repeat("é", 5000)+`\u001b[2J","url":"http://localhost/"}`))
	require.Equal(t, schemas.VariantInvalidMethod, got.Variant)
	require.Less(t, len(got.Message), 200)
	got = translate(t, []byte(`{"method":"\u001b[2J\u202e","url":"http://localhost/"}`))
	require.NotContains(t, got.Message, "\x1b")
	require.NotContains(t, got.Message, "\u202e")
}

func FuzzTranslate(f *testing.F) {
	fixture.Seed(f, fixtures)
	p := granted(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		req, err := executor.Translate(body, p, new(jsonschema.Cache))
		if err != nil {
			var e *executor.Error
			if !errors.As(err, &e) || e.Variant == "" || e.Message == "" || executor.Status(e.Variant) >= 500 {
				t.Fatalf("not an error of the door: %v", err)
			}
			return
		}
		if req.ID != "" && !schemas.ValidID(req.ID) {
			t.Fatal("an id that may not reach a subject")
		}
		payload, err := ledger.Encode(req.Call)
		if err != nil {
			t.Fatalf("a call that cannot be stored: %v", err)
		}
		if _, err := strict.Fingerprint(payload); err != nil {
			t.Fatalf("a call without a fingerprint: %v", err)
		}
	})
}

// TestAskedIsWhatTranslateGives: a question is about the very call that would
// be made.
func TestAskedIsWhatTranslateGives(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"method":"get","url":"http://localhost/"}`,
		`{"method":"POST","url":"http://localhost:8080/","allowlist_key":"orders","body":{"n":1.50}}`,
		`{"method":"PUT","url":"http://localhost/","headers":{"b":"2","C":"3","A":"1","a-b":"4"},"body":null}`,
		`{"method":"POST","url":"http://localhost/","body_text":"a"}`,
		`{"method":"POST","url":"http://localhost/","body_base64":"AP8="}`,
		`{"method":"POST","url":"http://localhost/","form":{"b":[1,"2"],"a":{"text":"t"}}}`,
	} {
		var req schemas.ExplainRequest
		require.NoError(t, json.Unmarshal([]byte(body), &req))
		got, err := executor.Translate([]byte(body), granted(t), new(jsonschema.Cache))
		require.NoError(t, err, body)
		asked, err := executor.Asked(req)
		require.NoError(t, err, body)
		require.Equal(t, got.Call, asked, body)
	}
	asked, err := executor.Asked(schemas.ExplainRequest{URL: "u"})
	require.NoError(t, err)
	require.Equal(t, schemas.HTTPCall{Method: "GET", URL: "u"}, asked)
	asked, err = executor.Asked(schemas.ExplainRequest{Method: "\u017fend"})
	require.NoError(t, err)
	require.Equal(t, "\u017fEND", asked.Method, "a letter of another alphabet stays one")
	_, err = executor.Asked(schemas.ExplainRequest{URL: "u", Body: []byte("1"), Form: []byte("{}")})
	require.EqualError(t, err, "VALIDATION_ERROR: at /form: is a second form of the body, beside 'body'; send one of body, body_text, body_base64 and form")
}
