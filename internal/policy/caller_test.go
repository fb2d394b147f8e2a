package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// TestCallersBesideWhatAnEntryAdds: headers and parameters that choose as whom or for whom a call is made do not go out
// beside what an entry adds, unless it names them; every other entry lets them pass.
func TestCallersBesideWhatAnEntryAdds(t *testing.T) {
	t.Parallel()
	added := map[string]string{"X-Auth": "hunter2"}
	p := compile(t, policy.Config{Entries: []policy.Entry{
		{Name: "closed", URLPrefix: "https://a.test/", Headers: added},
		{Name: "query", URLPrefix: "https://a.test/", Query: map[string]string{"key": "1"}},
		{Name: "body", URLPrefix: "https://a.test/", Body: map[string]string{"key": "1"}},
		{Name: "named", URLPrefix: "https://a.test/", Headers: added, CallerHeaders: []string{"Sudo", "X-Ms-*", "*-Project", "X-Roles"}, CallerParams: []string{"page", "filter[*", "*_by"}},
		{Name: "all", URLPrefix: "https://a.test/", Headers: added, CallerHeaders: []string{"*"}, CallerParams: []string{"*"}},
		{Name: "bare", URLPrefix: "https://a.test/"},
	}})
	decide := func(key, query, header string) policy.Decision {
		r := policy.Request{Key: key, Method: "GET", URL: "https://a.test/" + query}
		if header != "" {
			r.Headers = []schemas.Header{{Name: header, Value: "1"}}
		}
		return p.Decide(r)
	}
	foreign := []string{
		"Sudo", "Stripe-Account", "X-Goog-User-Project", "X-Ms-Copy-Source", "X-Consumer-Username", "X-Roles",
		"Es-Security-Runas-User", "_method", "X-Anything", "X_Roles", "Sec-Fetch-Site",
	}
	for _, name := range foreign {
		for _, key := range []string{"closed", "query", "body"} {
			require.Equal(t, schemas.DenyHeader, decide(key, "", name).Code, "%s: %s", key, name)
		}
		require.True(t, decide("all", "", name).Allowed, name)
		require.True(t, decide("bare", "", name).Allowed, name)
	}
	for name, ok := range map[string]bool{"sudo": true, "X-MS-Copy-Source": true, "X-Goog-User-Project": true, "X_Roles": true, "X-Role": false, "Range": false} {
		require.Equal(t, ok, decide("named", "", name).Allowed, name)
	}
	for _, name := range []string{
		"Accept", "accept-language", "Content-Type", "Content-Language", "If-Match", "If-None-Match", "Prefer", "User-Agent", "X-Request-Id",
		"traceparent", "TraceState", "Anthropic-Version", "OpenAI-Beta", "X-Stainless-Lang", "Cache-Control", "Pragma", "Sec-Fetch-Mode",
	} {
		require.True(t, decide("closed", "", name).Allowed, name)
	}
	for _, query := range []string{"?sudo=root", "?_method=DELETE", "?access_token=x", "?a=1", "?a", "?%61=1", "?;a"} {
		for _, key := range []string{"closed", "query", "body"} {
			require.Equal(t, schemas.DenyURLInvalid, decide(key, query, "").Code, "%s: %s", key, query)
		}
		require.True(t, decide("all", query, "").Allowed, query)
		require.True(t, decide("bare", query, "").Allowed, query)
	}
	for query, ok := range map[string]bool{
		"": true, "?": true, "?page=1&page=2": true, "?%70age=1": true, "?filter[a]=1&sort_by=x&": true,
		"?Page=1": false, "?page[sudo]=1": false, "?page%00sudo=1": false, "?page=1;sudo=root": false, "?page=1&sudo=root": false, "?filter=1": false,
		"?sudo%00_by=1": false, "?sudo[]_by=1": false, "?=root": false,
	} {
		require.Equal(t, ok, decide("named", query, "").Allowed, query)
	}
}
