package direct_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

const (
	inQuery = "AGWCANARY-QUERY &=+/fedcba98"
	inBody  = `AGWCANARY-BODY "<>&\-76543210`
	inParts = "AGWCANARY-PART-1122334455"
)

var known = map[string]string{
	"WEIR_SECRET_TOKEN": secret, "WEIR_SECRET_QUERY": inQuery, "WEIR_SECRET_BODY": inBody, "WEIR_SECRET_PART": inParts,
	"WEIR_SECRET_BASIC": base64.StdEncoding.EncodeToString([]byte("user:AGWCANARY-PASS:word-99")),
	"WEIR_SECRET_LINES": "line one\nline two-AGWCANARY", "WEIR_SECRET_LATIN": "caf\xe9-AGWCANARY", "WEIR_SECRET_SHORT": "abc",
}

// full is an entry that adds to everything that can be added to.
func full(base string) policy.Entry {
	return policy.Entry{
		Name: "up", URLPrefix: base + "/", Methods: []string{"GET", "POST", "HEAD"}, Network: policy.NetworkLoopback, Redirects: 2,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}", "X-Plain": "plain"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
		Query: map[string]string{"api_key": "${secret:QUERY}", "v": "1"},
		Body:  map[string]string{"key": "${secret:BODY}", "a b": "pre-${secret:PART}-post"},
	}
}

func TestWhatAnEntryAdds(t *testing.T) {
	t.Parallel()
	const query = "api_key=AGWCANARY-QUERY%20%26%3D%2B%2Ffedcba98&v=1"
	const members = `"a b":"pre-AGWCANARY-PART-1122334455-post","key":"AGWCANARY-BODY \"<>&\\-76543210"`
	for _, c := range []struct{ method, target, body, wantTarget, wantBody string }{
		{"GET", "/x", "", "/x?" + query, ""},
		{"GET", "/x?q=%2f%20+&&a", "", "/x?q=%2f%20+&&a&" + query, ""},
		{"HEAD", "/x?", "", "/x?" + query, ""},
		{"POST", "/x", `{}`, "/x?" + query, "{" + members + "}"},
		{"POST", "/x", ` { } `, "/x?" + query, " { " + members + "} "},
		{"POST", "/x", "{\"n\":1.50,\"big\":12345678901234567890,\"e\":1E-7 ,\"s\":\"}\\u00e9\"\n}", "/x?" + query, "{\"n\":1.50,\"big\":12345678901234567890,\"e\":1E-7 ,\"s\":\"}\\u00e9\"\n," + members + "}"},
		{"POST", "/x", `{"inner":{"key":"theirs"}}`, "/x?" + query, `{"inner":{"key":"theirs"},` + members + "}"},
	} {
		up := upstream.New(t)
		h := newEnv(t, full(up.URL()))
		call := schemas.HTTPCall{Method: c.method, URL: up.URL() + c.target, AllowlistKey: "up"}
		if c.body != "" {
			call.Body = []byte(c.body)
		}
		h.ask(t, call)
		got := up.Ledger()
		require.Len(t, got, 1)
		assert.Equal(t, c.wantTarget, got[0].Target)
		assert.Equal(t, c.wantBody, string(got[0].Body))
		assert.Equal(t, []string{"Bearer " + secret}, got[0].Values("Authorization"))
		assert.Equal(t, []string{"plain"}, got[0].Values("X-Plain"))
		if c.body != "" {
			doc := fixture.Decode[map[string]any](t, got[0].Body)
			assert.Equal(t, inBody, doc["key"])
		}
		assert.Equal(t, c.body, string(call.Body), "what the caller gave is not written to")
	}
}

// TestKeyInTheHeaderOfTheEntry: a target that reads keys in another header gets them there alone.
func TestKeyInTheHeaderOfTheEntry(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"": "Idempotency-Key", "idempotency-key": "Idempotency-Key", "paypal-request-id": "Paypal-Request-Id"} {
		up := upstream.New(t)
		e := policy.Entry{
			Name: "up", URLPrefix: up.URL() + "/", Methods: []string{"POST"}, Network: policy.NetworkLoopback,
			UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour, Header: header},
		}
		newEnv(t, e).ask(t, schemas.HTTPCall{Method: "POST", URL: up.URL() + "/x", Body: []byte("{}"), IdempotencyKey: "k-1"})
		got := up.Ledger()[0]
		for _, name := range []string{"Idempotency-Key", "Paypal-Request-Id"} {
			assert.Equal(t, name == want, len(got.Values(name)) == 1 && got.Header(name) == "k-1", "%q: %s", header, name)
		}
	}
}

// TestWhatCannotBeAddedSendsNothing: a secret that is missing, or that does not
// fit where it is to go, fails the call before a byte of it left.
func TestWhatCannotBeAddedSendsNothing(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*policy.Entry){
		"header":            func(e *policy.Entry) { e.Headers = map[string]string{"X-A": "${secret:NONE}"} },
		"query":             func(e *policy.Entry) { e.Query = map[string]string{"a": "${secret:NONE}"} },
		"body":              func(e *policy.Entry) { e.Body = map[string]string{"a": "${secret:NONE}"} },
		"lines in a header": func(e *policy.Entry) { e.Headers = map[string]string{"X-A": "${secret:LINES}"} },
		"bytes in JSON":     func(e *policy.Entry) { e.Body = map[string]string{"a": "${secret:LATIN}"} },
	} {
		up := upstream.New(t)
		e := policy.Entry{Name: "up", URLPrefix: up.URL() + "/", Methods: []string{"POST"}, Network: policy.NetworkLoopback}
		add(&e)
		h := newEnv(t, e)
		_, err := h.send(t, h.pass(t, schemas.HTTPCall{Method: "POST", URL: up.URL() + "/x", AllowlistKey: "up", Body: []byte("{}")}))
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, schemas.SecretUnavailable, failed.Code, name)
		assert.False(t, failed.Sent, name)
		assert.NotContains(t, failed.Cause.Error(), "AGWCANARY", name)
		assert.Zero(t, up.Hits(), name)
	}
}

// TestSecretsStayWithTheirEntry: no call by another entry carries them, to the
// same host or to another, and no call by theirs goes to another host.
func TestSecretsStayWithTheirEntry(t *testing.T) {
	t.Parallel()
	up, other := upstream.New(t), upstream.New(t)
	mine := full(up.URL())
	mine.URLPrefix = up.URL() + "/mine"
	h := newEnv(
		t, mine,
		policy.Entry{Name: "bare", URLPrefix: up.URL() + "/bare", Methods: []string{"POST"}, Network: policy.NetworkLoopback},
		policy.Entry{Name: "other", URLPrefix: other.URL() + "/", Methods: []string{"POST"}, Network: policy.NetworkLoopback},
	)
	body := []byte(`{"a":"${secret:TOKEN}"}`)
	for _, c := range []schemas.HTTPCall{
		{AllowlistKey: "bare", URL: up.URL() + "/bare?a=$%7Bsecret:TOKEN%7D"},
		{AllowlistKey: "other", URL: other.URL() + "/mine"},
	} {
		c.Method, c.Body, c.Headers = "POST", body, []schemas.Header{{Name: "X-Own", Value: "$TOKEN"}}
		h.ask(t, c)
	}
	for _, got := range append(up.Ledger(), other.Ledger()...) {
		assert.NotContains(t, fmt.Sprint(got.Target, string(got.Body), got.Headers), "AGWCANARY")
		assert.Contains(t, string(got.Body), "${secret:TOKEN}", "callers' placeholders are their own text")
	}
	for _, c := range []schemas.HTTPCall{
		{AllowlistKey: "up", URL: other.URL() + "/mine"},
		{AllowlistKey: "up", URL: up.URL() + "/bare"},
		{AllowlistKey: "bare", URL: up.URL() + "/bare", Headers: []schemas.Header{{Name: "X-Own", Value: "${secret:TOKEN}"}}},
		{AllowlistKey: "up", URL: up.URL() + "/mine?api_key=own"},
		{AllowlistKey: "up", URL: up.URL() + "/mine", Headers: []schemas.Header{{Name: "X-Plain", Value: "own"}}},
	} {
		c.Method = "POST"
		c.Body = []byte("{}")
		p, d := h.guard.Check(c, evaluate.Scope{})
		assert.False(t, p.Valid(), "%+v", c)
		assert.NotEmpty(t, d.Code)
	}
	p, d := h.guard.Check(schemas.HTTPCall{AllowlistKey: "up", Method: "POST", URL: up.URL() + "/mine", Body: []byte(`{"key":"own"}`)}, evaluate.Scope{})
	assert.False(t, p.Valid())
	assert.Equal(t, schemas.DenyBody, d.Code)
	assert.Equal(t, 1, up.Hits())
	assert.Equal(t, 1, other.Hits())
}

// TestRedirectCarriesNothingOfTheEntry: not in headers, not in the query, and not
// where the target itself wrote a secret into the Location; its answer is
// scrubbed all the same.
func TestRedirectCarriesNothingOfTheEntry(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, "you were "+secret+" and "+inQuery+" and "+inParts))
	h := newEnv(t, full(up.URL()))
	p := h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/from", AllowlistKey: "up"})
	next, d := h.guard.Redirect(p, up.URL()+"/to?a=1", 302, 1)
	require.True(t, next.Valid(), "%+v", d)
	reply, err := h.send(t, next)
	require.NoError(t, err)
	got := up.Ledger()
	require.Len(t, got, 1)
	assert.Equal(t, "/to?a=1", got[0].Target)
	assert.Empty(t, got[0].Values("Authorization"))
	assert.Empty(t, got[0].Values("X-Plain"))
	assert.Equal(t, `"you were REDACTED and REDACTED and REDACTED"`, string(reply.Answer.Body))
}

// TestOwnCredentialsAreScrubbed: what a caller authenticates with is taken out of whatever
// its target echoes, by value and by name, as what an entry adds is.
func TestOwnCredentialsAreScrubbed(t *testing.T) {
	t.Parallel()
	for _, own := range []struct{ name, value, echo string }{
		{"Authorization", "Bearer AGWCANARY-own-1", `{"got":"AGWCANARY-own-1","all":"Bearer AGWCANARY-own-1"}`},
		{"authorization", "Basic dXNlcjpBR1dDQU5BUlktcHc=", `{"password":"AGWCANARY-pw","b64":"dXNlcjpBR1dDQU5BUlktcHc"}`},
		{"X-Api-Key", "AGWCANARY-key", `{"key":"AGWCANARY-key","hex":"41475743414e4152592d6b6579"}`},
		{"Cookie", `a=short; sid="AGWCANARY-session"`, `{"sid":"AGWCANARY-session","a":"short"}`},
	} {
		up := upstream.New(t, upstream.Respond(200, own.echo, schemas.Header{Name: "X-Echo", Value: own.value}))
		h := newEnv(t, policy.Entry{Name: "up", URLPrefix: up.URL() + "/", Network: policy.NetworkLoopback})
		answer := h.ask(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", Headers: []schemas.Header{{Name: own.name, Value: own.value}}})
		got := up.Ledger()
		require.Len(t, got, 1)
		assert.Equal(t, []string{own.value}, got[0].Values(own.name))
		shown := fmt.Sprint(string(answer.Body), answer.Snippet, answer.Headers)
		for _, secret := range []string{"AGWCANARY", "dXNlcj", "41475743", own.value} {
			assert.NotContains(t, shown, secret)
		}
		if own.name == "Cookie" {
			assert.JSONEq(t, `{"sid":"REDACTED","a":"short"}`, string(answer.Body), "short words stay")
		}
	}
}

func TestLocationWithASecretIsNotFollowed(t *testing.T) {
	t.Parallel()
	for location, kept := range map[string]string{
		"/to?a=1": "/to?a=1",
		"/to?api_key=AGWCANARY-QUERY%20%26%3D%2B%2Ffedcba98&v=1": "",
		"/to?api_key=agwcanary-query+%26%3d%2b/fedcba98":         "",
		"/" + secret + "/x": "",
	} {
		up := upstream.New(t, upstream.Redirect(302, location))
		h := newEnv(t, full(up.URL()))
		p := h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/from", AllowlistKey: "up"})
		reply, err := h.send(t, p)
		require.NoError(t, err)
		assert.Equal(t, kept, reply.Location)
		assert.NotContains(t, strings.ToUpper(header(reply.Answer.Headers, "location")), "AGWCANARY")
		_, d := h.guard.Redirect(p, reply.Location, 302, 1)
		if kept == "" {
			assert.Equal(t, schemas.DenyRedirect, d.Code)
		}
	}
}

// TestEveryAddedValueIsScrubbed, wherever the entry adds it and the target says it again: in the body, in
// a header, in a Location and across the end of the snippet. internal/redact has the forms of a secret.
func TestEveryAddedValueIsScrubbed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{secret, inQuery, inBody, inParts, "pre-" + inParts + "-post", "AGWCANARY-PASS:word-99", known["WEIR_SECRET_BASIC"]} {
		for said, pad := range map[string]int{value: 500, value[:9] + "\xff" + value[9:]: 400} { // a byte that the snippet drops
			up := upstream.New(t, upstream.Respond(200, strings.Repeat("é", pad)+said, upstream.Header("X-Echo", value), upstream.Header("Location", "/next?x="+url.QueryEscape(value))))
			e := full(up.URL())
			e.Headers["X-Basic"] = "Basic ${secret:BASIC}"
			answer := newEnv(t, e).ask(t, schemas.HTTPCall{Method: "POST", URL: up.URL() + "/x", AllowlistKey: "up", Body: []byte("{}")})
			kept := fmt.Sprint(answer.Snippet, answer.Headers)
			if said == value { // halves of it, apart, are in the body as they came
				kept += string(answer.Body)
			}
			for _, form := range []string{value[:min(len(value), 16)], url.QueryEscape(value)} {
				assert.NotContains(t, kept, form, "not even its beginning")
			}
		}
	}
}

func TestNamesAndNumbersOfSecrets(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, `{"pin":12345678,"AGWCANARY-SECRET-0123456789abcdef":[1.50]}`, upstream.Header("X-AGWCANARY-SECRET-0123456789ABCDEF", "1"), upstream.Header("X-Csrf-Token", "theirs"), upstream.Header("Signature", "theirs")))
	e := full(up.URL())
	e.Headers["X-Pin"] = "${secret:PIN}"
	h := newEnv(t, e)
	h.known = map[string]string{"WEIR_SECRET_PIN": "12345678"}
	maps.Copy(h.known, known)
	answer := h.ask(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"})
	assert.True(t, answer.JSON, "what was JSON stays JSON")
	assert.JSONEq(t, `{"pin":"REDACTED","REDACTED":[1.50]}`, string(answer.Body))
	assert.Contains(t, string(answer.Body), "[1.50]")
	assert.Equal(t, "1", header(answer.Headers, "x-redacted"))
	assert.Equal(t, "REDACTED", header(answer.Headers, "x-csrf-token"))
	assert.Equal(t, "REDACTED", header(answer.Headers, "signature"))
}

// TestShortSecretsWithTheirScheme: a secret too short to be looked for is found
// as part of what was sent.
func TestShortSecretsWithTheirScheme(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, `abc Bearer abc "YmVhcmVyOg=="`))
	h := newEnv(t, policy.Entry{
		Name: "up", URLPrefix: up.URL() + "/", Network: policy.NetworkLoopback,
		Headers: map[string]string{"Authorization": "Bearer ${secret:SHORT}"},
	})
	answer := h.ask(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"})
	assert.Equal(t, `abc REDACTED "YmVhcmVyOg=="`, answer.Snippet)
}

// TestRotationMidway: what a target was told before a rotation is scrubbed after
// it, and the next call carries the new secret.
func TestRotationMidway(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(503, "{}"), upstream.Respond(200, "first "+secret+", now AGWCANARY-NEW-9"))
	h := newEnv(t, policy.Entry{
		Name: "up", URLPrefix: up.URL() + "/", Network: policy.NetworkLoopback,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"},
	})
	h.known = map[string]string{"WEIR_SECRET_TOKEN": secret}
	p := h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"})
	_, err := h.send(t, p)
	require.NoError(t, err)
	h.known["WEIR_SECRET_TOKEN"] = "AGWCANARY-NEW-9"
	reply, err := h.send(t, p)
	require.NoError(t, err)
	assert.Equal(t, "first REDACTED, now REDACTED", reply.Answer.Snippet)
	got := up.Ledger()
	require.Len(t, got, 2)
	assert.Equal(t, "Bearer "+secret, got[0].Header("Authorization"))
	assert.Equal(t, "Bearer AGWCANARY-NEW-9", got[1].Header("Authorization"))
}
