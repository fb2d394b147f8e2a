package direct_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/guard"
	"weir/schemas"
)

const secret = "AGWCANARY-SECRET-0123456789abcdef"

// house is an adapter over the real client, with entries of the test's own.
type house struct {
	adapter *direct.Adapter
	guard   *guard.Guard
	known   map[string]string // the secrets
}

func newHouse(t *testing.T, entries ...policy.Entry) *house {
	t.Helper()
	return newHouseUnder(t, nil, entries...)
}

// newHouseUnder is newHouse with traffic rules.
func newHouseUnder(t *testing.T, rules guard.Rules, entries ...policy.Entry) *house {
	t.Helper()
	var p harness.Policy
	p.Enforce(t, entries...)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	h := &house{known: known, guard: guard.New(p.InForce, rules)}
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { v, ok := h.known[name]; return v, ok }})
	h.adapter = direct.New(client, store, redact.New([]string{"X-Internal"}))
	return h
}

// plain is an entry that adds one secret.
func plain(base string) policy.Entry {
	return policy.Entry{
		Name: "up", URLPrefix: base + "/", Methods: []string{"GET", "POST", "HEAD"}, Network: policy.NetworkLoopback, Redirects: 1,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
	}
}

func (h *house) pass(t *testing.T, c schemas.HTTPCall) guard.Pass {
	t.Helper()
	p, d := h.guard.Check(c, guard.Scope{})
	require.True(t, p.Valid(), "%+v", d)
	return p
}

func (h *house) send(t *testing.T, p guard.Pass) (call.Reply, error) {
	t.Helper()
	ex, err := h.adapter.Open(t.Context(), p)
	require.NoError(t, err)
	defer ex.Close()
	return ex.Do(t.Context())
}

// ask makes a call that has an answer.
func (h *house) ask(t *testing.T, c schemas.HTTPCall) schemas.Answer {
	t.Helper()
	reply, err := h.send(t, h.pass(t, c))
	require.NoError(t, err)
	return reply.Answer
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
	type testCase struct {
		method  string
		sent    upstream.Behaviour
		body    string
		isJSON  bool
		snippet string
	}
	table.Run(t, map[string]testCase{
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
	}, func(t *testing.T, tt testCase) {
		up := upstream.New(t, tt.sent)
		a := newHouse(t, plain(up.URL())).ask(t, schemas.HTTPCall{Method: cmp.Or(tt.method, "GET"), URL: up.URL() + "/x"})
		assert.Equal(t, []any{tt.body, tt.isJSON, tt.snippet}, []any{string(a.Body), a.JSON, a.Snippet})
		assert.Equal(t, 1, up.Hits())
	})
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	h := newHouse(t, plain(up.URL()))
	for _, c := range []schemas.HTTPCall{
		{Method: "POST", URL: "/json", Body: []byte(`{"n":1.50}`)},
		{Method: "POST", URL: "/text", Body: []byte(`"a=1&b=\"2\""`), TextBody: true, Headers: []schemas.Header{{Name: "content-TYPE", Value: "text/plain"}}},
		{Method: "POST", URL: "/key", Body: []byte(`1`), IdempotencyKey: "k-1"},
	} {
		c.URL = up.URL() + c.URL
		h.ask(t, c)
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

// TestSecretsDoNotComeBack: whatever an upstream does with the credential it was given, no form of it is
// kept. TestEverySecretComesBackScrubbed has the forms.
func TestSecretsDoNotComeBack(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]upstream.Behaviour{
		"by name":       upstream.Respond(200, "{}", upstream.Header("Set-Cookie", secret), upstream.Header("X-Internal", secret)),
		"gzip":          upstream.Gzip(secret),
		"failed answer": upstream.Respond(500, secret),
	}, func(t *testing.T, b upstream.Behaviour) {
		up := upstream.New(t, b)
		a := newHouse(t, plain(up.URL())).ask(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x"})
		assert.NotContains(t, fmt.Sprintf("%+v %s", a, a.Body), secret[:20], "nor its beginning")
	})
}

func TestZeroPassOpensNothing(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	_, err := newHouse(t, plain(up.URL())).adapter.Open(t.Context(), guard.Pass{})
	require.ErrorIs(t, err, call.ErrNoPass)
	assert.Zero(t, up.Accepted())
}
