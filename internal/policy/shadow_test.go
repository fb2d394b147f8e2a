package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

const shadow = policy.ModeShadow

// A shadow entry changes nothing but the word beside the decision.
func TestShadowPermitsAndDeniesNothing(t *testing.T) {
	t.Parallel()
	entries := []policy.Entry{
		{Name: "read", URLPrefix: "https://shop.test/api/"},
		{Name: "write", URLPrefix: "https://shop.test/api/", Methods: []string{"POST"}, Mode: shadow},
		{Name: "read", URLPrefix: "https://shop.test/api/v2/", Mode: shadow},
		{Name: "pay", URLPrefix: "https://pay.test/", Methods: []string{"POST"}},
		{Name: "same", URLPrefix: "https://pay.test/", Methods: []string{"POST"}, Mode: shadow},
	}
	p := compile(t, policy.Config{Entries: entries, AllowedHosts: []string{"shop.test"}})
	enforced := compile(t, policy.Config{Entries: []policy.Entry{entries[0], entries[3]}, AllowedHosts: []string{"shop.test"}})

	allow := func(entry string) *schemas.Shadow { return &schemas.Shadow{Allowed: true, Entry: entry} }
	for _, c := range []struct {
		key, method, url string
		code             schemas.Code
		entry            string
		shadow           *schemas.Shadow // its reason is not compared
	}{
		{"read", "GET", "https://shop.test/api/v2/x", allowed, "read", nil},
		{"read", "GET", "https://shop.test/api/v1/x", allowed, "read", &schemas.Shadow{Code: schemas.DenyPath, Entry: "read"}},
		{"read", "POST", "https://shop.test/api/v2/x", schemas.DenyMethod, "read", nil},
		{"read", "GET", "https://shop.test/", schemas.DenyPath, "read", nil},
		{"write", "POST", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", allow("write")},
		{"write", "GET", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", &schemas.Shadow{Code: schemas.DenyMethod, Entry: "write"}},
		{"nobody", "POST", "https://shop.test/api/x", schemas.DenyKeyUnknown, "", nil},
		{"pay", "POST", "https://pay.test/", allowed, "pay", nil},
		// without key
		{"", "POST", "https://shop.test/api/x", allowed, "host:shop.test", allow("write")},
		{"", "GET", "https://shop.test/api/v1/x", allowed, "read", allow("host:shop.test")},
		{"", "POST", "https://pay.test/", allowed, "pay", nil},
		{"", "GET", "https://other.test/", schemas.DenyHost, "", nil},
		{"", "GET", "nonsense", schemas.DenyURLInvalid, "", nil},
	} {
		r := policy.Request{Key: c.key, Method: c.method, URL: c.url}
		d := p.Decide(r)
		require.Equal(t, c.code, d.Code, "%+v", c)
		require.Equal(t, c.entry, d.Entry, "%+v", c)
		permit, ok := d.Permit()
		require.Equal(t, c.code == allowed, ok)
		require.Equal(t, ok, permit.Valid())
		if c.shadow == nil {
			require.Nil(t, d.Shadow, "%+v", c)
		} else {
			require.NotNil(t, d.Shadow, "%+v", c)
			require.Equal(t, d.Shadow.Allowed, d.Shadow.Reason == "")
			got := *d.Shadow
			got.Reason = ""
			require.Equal(t, *c.shadow, got, "%+v", c)
		}

		without := enforced.Decide(r)
		require.Equal(t, without.Allowed, d.Allowed)
		require.Equal(t, without.Code, d.Code)
		require.Equal(t, without.Entry, d.Entry)
		require.Nil(t, without.Shadow)
	}
	require.Contains(t, p.Decide(policy.Request{Key: "write", Method: "POST", URL: "https://shop.test/api/x"}).Reason, "shadow")
	require.NotContains(t, p.Decide(policy.Request{Key: "nobody", Method: "POST", URL: "https://shop.test/api/x"}).Reason, "shadow")
	require.NotEqual(t, enforced.Version(), p.Version(), "who reads a version knows that shadows stood beside")
}

// A request limited to some entries sees those alone, in either table.
func TestOnly(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{
		{Name: "a", URLPrefix: "https://a.test/"},
		{Name: "b", URLPrefix: "https://a.test/", Methods: []string{"GET", "POST"}},
		{Name: "c", URLPrefix: "https://c.test/", Mode: shadow},
	}, AllowedHosts: []string{"a.test", "localhost"}})
	ask := func(key, method, url string, only ...string) policy.Decision {
		return p.Decide(policy.Request{Key: key, Method: method, URL: url, Only: only})
	}
	require.Equal(t, "a", ask("", "GET", "https://a.test/").Entry)
	require.Equal(t, "b", ask("", "GET", "https://a.test/", "b").Entry)
	require.Equal(t, "b", ask("b", "GET", "https://a.test/", "a", "b").Entry)
	require.Equal(t, "host:a.test", ask("", "PUT", "https://a.test/").Entry)
	require.Equal(t, schemas.DenyMethod, ask("", "PUT", "https://a.test/", "a", "b").Code, "allowed hosts are not in the list")
	require.Equal(t, schemas.DenyHost, ask("", "GET", "https://localhost/", "a", "host:localhost").Code, "and cannot be put there")
	require.Equal(t, schemas.DenyHost, ask("", "GET", "https://a.test/", "gone").Code)
	require.Nil(t, ask("", "GET", "https://c.test/", "a").Shadow)
	require.Equal(t, "c", ask("", "GET", "https://c.test/", "c").Shadow.Entry)

	require.Equal(t, "the token is limited to entries, and none of them covers this host; use a token for an entry that does", ask("", "GET", "https://c.test/", "a").Reason)
	port := ask("", "GET", "https://a.test:8443/", "a")
	require.Equal(t, schemas.DenyPort, port.Code)
	require.Equal(t, "the token is limited to entries, and none of them has this port; use a token for an entry that does", port.Reason)

	unknown, foreign := ask("nobody", "GET", "https://a.test/", "a"), ask("b", "GET", "https://a.test/", "a")
	require.Equal(t, schemas.DenyKeyUnknown, foreign.Code)
	require.Contains(t, foreign.Reason, "the token may not use this entry")
	require.Equal(t, unknown, foreign, "whether an entry exists is not told")
	require.Equal(t, schemas.DenyKeyUnknown, ask("a", "GET", "https://a.test/", "").Code)
}
