package executor_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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
	"weir/schemas"
)

const fixtures = "../../schemas/executor/testdata"

// policyDouble is a policy of two grants: the host localhost, and the key orders,
// whose target honours idempotency keys.
type policyDouble struct{}

func (policyDouble) MaxTimeout() time.Duration { return 30 * time.Second }

func (policyDouble) Evaluate(c schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	d := schemas.Decision{Version: "v1"}
	u, err := url.Parse(c.URL)
	switch {
	case c.AllowlistKey != "" && c.AllowlistKey != "orders":
		d.Code = schemas.DenyKeyUnknown
	case err != nil || u.Host == "" || strings.Contains(c.URL, " "):
		d.Code = schemas.DenyURLInvalid
		if err == nil && u.Scheme == "localhost" {
			d.Code = schemas.DenyScheme
		}
	case u.Scheme != "http":
		d.Code = schemas.DenyScheme
	case u.Hostname() != "localhost":
		d.Code = schemas.DenyHost
	}
	for _, h := range c.Headers {
		if d.Code == "" && (h.Name == "" || strings.EqualFold(h.Name, "host")) {
			d.Code = schemas.DenyHeader
		}
	}
	d.Allowed = d.Code == ""
	switch c.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return d, schemas.ClassSafe
	case http.MethodPut, http.MethodDelete:
		return d, schemas.ClassIdempotent
	}
	if c.IdempotencyKey != "" && c.AllowlistKey == "orders" {
		return d, schemas.ClassKeyed
	}
	return d, schemas.ClassOnce
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
	req, err := executor.Translate(body, policyDouble{}, new(jsonschema.Cache))
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

// compiled is the policy as a node has it.
type compiled struct {
	policyDouble
	*policy.Policy
}

func (r compiled) Evaluate(c schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	d := r.Decide(policy.Request{
		Key: c.AllowlistKey, Method: c.Method, URL: c.URL, Headers: c.Headers,
		IdempotencyKey: c.IdempotencyKey, HasBody: c.Body != nil, BodySize: len(c.Body),
	})
	permit, _ := d.Permit()
	return d.Decision, policy.Class(c.Method, c.IdempotencyKey != "", permit)
}

// TestAForeignParameterIsADenial of the entry that does not take it, so that it leaves evidence. A
// malformed URL is a mistake of the request.
func TestAForeignParameterIsADenial(t *testing.T) {
	t.Parallel()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "sec", URLPrefix: "http://h.example/", Methods: []string{"GET"}, Headers: map[string]string{"X-Key": "${secret:KEY}"},
	}}})
	require.NoError(t, err)
	translate := func(url string) (executor.Request, error) {
		return executor.Translate([]byte(`{"method":"GET","url":"http://h.example/`+url+`","allowlist_key":"sec"}`), compiled{Policy: p}, new(jsonschema.Cache))
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
	req, err := executor.Translate([]byte(`{"method":"POST","url":"http://evil.example/x","headers":{"X-A":5},"body":{"a":1}}`), policyDouble{}, new(jsonschema.Cache))
	require.NoError(t, err)
	require.True(t, req.Denied())
	later, err := policy.Compile(policy.Config{AllowedHosts: []string{"evil.example"}})
	require.NoError(t, err)
	d, _ := compiled{Policy: later}.Evaluate(req.Call)
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
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		req, err := executor.Translate(body, policyDouble{}, new(jsonschema.Cache))
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
		`{"method":"POST","url":"http://localhost/","allowlist_key":"orders","body":{"n":1.50}}`,
		`{"method":"PUT","url":"http://localhost/","headers":{"b":"2","C":"3","A":"1","a-b":"4"},"body":null}`,
		`{"method":"POST","url":"http://localhost/","body_text":"a"}`,
		`{"method":"POST","url":"http://localhost/","body_base64":"AP8="}`,
		`{"method":"POST","url":"http://localhost/","form":{"b":[1,"2"],"a":{"text":"t"}}}`,
	} {
		var req schemas.ExplainRequest
		require.NoError(t, json.Unmarshal([]byte(body), &req))
		got, err := executor.Translate([]byte(body), policyDouble{}, new(jsonschema.Cache))
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
