package direct_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/guard"
	"weir/schemas"
)

const secret = "AGWCANARY-SECRET-0123456789abcdef"

// bench is an adapter over the real client, and an entry for one upstream.
type bench struct {
	adapter *direct.Adapter
	guard   *guard.Guard
	url     string
}

func newBench(t *testing.T, base string) *bench {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{
		Name: "up", URLPrefix: base + "/", Methods: []string{"GET", "POST", "HEAD"}, Network: policy.NetworkLoopback, Redirects: 1,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
	}}})
	require.NoError(t, err)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { return secret, name == "WEIR_SECRET_TOKEN" }})
	return &bench{
		adapter: direct.New(client, store, redact.New([]string{"X-Internal"})),
		guard:   guard.New(func() *policy.Policy { return p }, nil), url: base,
	}
}

func (b *bench) pass(t *testing.T, c schemas.HTTPCall) guard.Pass {
	t.Helper()
	c.URL, c.AllowlistKey = b.url+c.URL, "up"
	p, d := b.guard.Check(c, guard.Scope{})
	require.True(t, p.Valid(), "%+v", d)
	return p
}

func (b *bench) send(t *testing.T, p guard.Pass) (call.Reply, error) {
	t.Helper()
	ex, err := b.adapter.Open(t.Context(), p)
	require.NoError(t, err)
	defer ex.Close()
	return ex.Do(t.Context())
}

func header(headers []schemas.Header, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 600)
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	tests := map[string]struct {
		method  string
		sent    upstream.Behaviour
		body    string
		isJSON  bool
		snippet string
	}{
		"JSON keeps its bytes":      {sent: upstream.Respond(200, ` {"n":1.50,"big":12345678901234567890} `), body: `{"n":1.50,"big":12345678901234567890}`, isJSON: true, snippet: ` {"n":1.50,"big":12345678901234567890} `},
		"text becomes a string":     {sent: upstream.Respond(200, "plain \"words\""), body: `"plain \"words\""`, snippet: `plain "words"`},
		"HTML becomes a string":     {sent: upstream.Respond(503, "<b>busy</b>"), body: `"\u003cb\u003ebusy\u003c/b\u003e"`, snippet: "<b>busy</b>"},
		"trailing data is not JSON": {sent: upstream.Respond(200, `{"a":1} x`), body: `"{\"a\":1} x"`, snippet: `{"a":1} x`},
		"invalid UTF-8":             {sent: upstream.Respond(200, "a\xffb"), body: "\"a\ufffdb\"", snippet: "ab"},
		"nothing":                   {sent: upstream.Respond(200, ""), body: "null"},
		"HEAD":                      {method: "HEAD", sent: upstream.Respond(200, `{"a":1}`), body: "null"},
		"nested too deep to keep":   {sent: upstream.Respond(200, deep), body: `"` + deep + `"`, snippet: deep[:512]},
		"nested, but in a string":   {sent: upstream.Respond(200, `"`+deep+`"`), body: `"` + deep + `"`, isJSON: true, snippet: `"` + deep[:511]},
		"cut on code points":        {sent: upstream.Respond(200, long), body: `"` + long + `"`, snippet: strings.Repeat("é", 512)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := upstream.New(t, tt.sent)
			b := newBench(t, up.URL())
			method := tt.method
			if method == "" {
				method = "GET"
			}
			reply, err := b.send(t, b.pass(t, schemas.HTTPCall{Method: method, URL: "/x"}))
			require.NoError(t, err)
			assert.Equal(t, tt.body, string(reply.Answer.Body))
			assert.Equal(t, tt.isJSON, reply.Answer.JSON)
			assert.Equal(t, tt.snippet, reply.Answer.Snippet)
			assert.Equal(t, 1, up.Hits())
		})
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	b := newBench(t, up.URL())
	for _, c := range []schemas.HTTPCall{
		{Method: "POST", URL: "/json", Body: []byte(`{"n":1.50}`)},
		{Method: "POST", URL: "/text", Body: []byte(`"a=1&b=\"2\""`), TextBody: true, Headers: []schemas.Header{{Name: "content-TYPE", Value: "text/plain"}}},
		{Method: "POST", URL: "/key", Body: []byte(`1`), IdempotencyKey: "k-1"},
	} {
		_, err := b.send(t, b.pass(t, c))
		require.NoError(t, err)
	}
	got := up.Ledger()
	require.Len(t, got, 3)
	assert.Equal(t, `{"n":1.50}`, string(got[0].Body))
	assert.Equal(t, "application/json", header(got[0].Headers, "Content-Type"))
	assert.Equal(t, "Bearer "+secret, header(got[0].Headers, "Authorization"))
	assert.Equal(t, `a=1&b="2"`, string(got[1].Body))
	assert.Equal(t, "text/plain", header(got[1].Headers, "Content-Type"))
	assert.Equal(t, "k-1", header(got[2].Headers, "Idempotency-Key"))
}

// TestSecretsDoNotComeBack: whatever an upstream does with the credential it was
// given, no form of it is kept.
func TestSecretsDoNotComeBack(t *testing.T) {
	t.Parallel()
	echoes := map[string]upstream.Behaviour{
		"body":          upstream.Respond(200, fmt.Sprintf(`{"you":"Bearer %s"}`, secret)),
		"name":          upstream.Respond(200, fmt.Sprintf(`{%q:1}`, secret)),
		"base64":        upstream.Respond(200, base64.StdEncoding.EncodeToString([]byte("x"+secret+"y"))),
		"query form":    upstream.Respond(200, url.QueryEscape("Bearer "+secret)),
		"header":        upstream.Respond(200, "{}", upstream.Header("X-Echo", secret)),
		"by name":       upstream.Respond(200, "{}", upstream.Header("Set-Cookie", secret), upstream.Header("X-Internal", secret)),
		"gzip":          upstream.Gzip(secret),
		"over the cut":  upstream.Respond(200, strings.Repeat("x", 500)+secret),
		"failed answer": upstream.Respond(500, secret),
	}
	for name, behaviour := range echoes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, upstream.New(t, behaviour).URL())
			reply, err := b.send(t, b.pass(t, schemas.HTTPCall{Method: "GET", URL: "/x"}))
			require.NoError(t, err)
			kept := fmt.Sprintf("%+v %s", reply.Answer, reply.Answer.Body)
			assert.NotContains(t, kept, secret)
			assert.NotContains(t, kept, secret[:20], "nor its beginning")
			assert.NotContains(t, kept, base64.StdEncoding.EncodeToString([]byte(secret))[:24])
		})
	}
}

func TestRedirectCarriesNoCredentials(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, secret))
	b := newBench(t, up.URL())
	p := b.pass(t, schemas.HTTPCall{Method: "GET", URL: "/from", Headers: []schemas.Header{{Name: "X-Own", Value: "1"}}})
	next, d := b.guard.Hop(p, up.URL()+"/to", 302, 1)
	require.True(t, next.Valid(), "%+v", d)
	reply, err := b.send(t, next)
	require.NoError(t, err)
	got := up.Ledger()
	require.Len(t, got, 1)
	assert.Equal(t, "/to", got[0].Target)
	assert.NotContains(t, string(reply.Answer.Body), secret, "it was not sent the secret, and may know it all the same")
	assert.Empty(t, header(got[0].Headers, "Authorization"))
}

func TestMissingSecretSendsNothing(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	b := newBench(t, up.URL())
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	none := secrets.New(secrets.Config{LookupEnv: func(string) (string, bool) { return "", false }})
	b.adapter = direct.New(client, none, redact.New(nil))
	_, err := b.send(t, b.pass(t, schemas.HTTPCall{Method: "POST", URL: "/x"}))
	var failed *fault.Call
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, schemas.SecretUnavailable, failed.Code)
	assert.False(t, failed.Sent)
	assert.Zero(t, up.Hits())
}

func TestZeroPassOpensNothing(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	b := newBench(t, up.URL())
	_, err := b.adapter.Open(t.Context(), guard.Pass{})
	require.ErrorIs(t, err, call.ErrNoPass)
	assert.Zero(t, up.Accepted())
}
