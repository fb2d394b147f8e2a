package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

// adding is a policy whose one entry adds to query and body.
func adding(tb testing.TB) *policy.Policy {
	tb.Helper()
	return compile(tb, policy.Config{Entries: []policy.Entry{{
		Name: "a", URLPrefix: "https://a.test/", Methods: []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"},
		Query: map[string]string{"api_key": "${secret:KEY}", "filter[own]": "x"}, Body: map[string]string{"token": "${secret:T}", "User Id": "7"},
		Redirects: 1, CallerParams: []string{"*"},
	}, {Name: "plain", URLPrefix: "https://a.test/", Methods: []string{"GET", "POST"}}}})
}

func TestCallerMaySetNoParameterOfTheEntry(t *testing.T) {
	t.Parallel()
	p := adding(t)
	for query, ok := range map[string]bool{
		"": true, "a=1": true, "a=api_key": true, "key=1&xapi_key=1&api_keys=1&api__key=2": true, "filter=1&filter[other]=1": true, "&&": true, "a=%26api_key%3d1": true,
		"api%255fkey=1": true, // decoded once, as servers do

		"api_key": false, "api_key=": false, "api_key=1": false, "a=1&api_key=2": false, "a&api_key": false, "&api_key": false,
		"api%5fkey=1": false, "api%5Fkey=1": false, "%61%70%69_key=1": false, "API_KEY=1": false, "Api%5fKey": false,
		"api.key=1": false, "api+key=1": false, "api%20key=1": false, "+api_key=1": false, "%20api_key=1": false, "api_key%00=1": false, "api_key%00x=1": false,
		"api_key[]=1": false, "api[key=1": false, "api%5Bkey": false, "api_key%5B0%5D=1": false, "api_key[a][b]": false, "filter[own]=1": false, "filter%5bown%5D=1": false, "FILTER[OWN]": false,
		"a=1;api_key=2": false, "a;api_key": false, "api_%E2%84%AAey=1": false,
		strings.Repeat("a", 300) + "&api_key=1": false,
	} {
		r := policy.Request{Key: "a", Method: "GET", URL: "https://a.test/x?" + query}
		d := p.Decide(r)
		require.Equal(t, ok, d.Allowed, "%q", query)
		if !ok {
			require.Equal(t, schemas.DenyURLInvalid, d.Code, "%q", query)
			require.Equal(t, policy.CheckURL, d.Check)
			require.Equal(t, "a", d.Entry)
			require.NotContains(t, d.Reason, "key")
		}
		r.Key = "plain"
		require.True(t, p.Decide(r).Allowed, "an entry that adds nothing takes %q", query)
	}
}

// To follow such a Location would carry a credential on.
func TestRedirectMayHoldNoParameterOfTheEntry(t *testing.T) {
	t.Parallel()
	from := permit(t, adding(t), "a", "https://a.test/x")
	require.Equal(t, map[string]string{"api_key": "${secret:KEY}", "filter[own]": "x"}, from.Added().Query)
	require.Equal(t, map[string]string{"token": "${secret:T}", "User Id": "7"}, from.Added().Body)
	from.Added().Query["more"], from.Added().Body["more"] = "", ""
	require.NotContains(t, from.Added().Query, "more")
	require.NotContains(t, from.Added().Body, "more")

	require.Equal(t, schemas.DenyRedirect, from.Redirect("/y?a=1&api_key=leaked", 302, 1).Code)
	hop, ok := from.Redirect("/y?a=1", 302, 1).Permit()
	require.True(t, ok)
	require.Empty(t, hop.Added().Query)
	require.Empty(t, hop.Added().Body)
	require.Empty(t, new(policy.Permit).Added().Query)
	require.Empty(t, new(policy.Permit).Added().Body)
}

func TestCallerMaySetNoMemberOfTheEntry(t *testing.T) {
	t.Parallel()
	p := adding(t)
	for body, ok := range map[string]bool{
		`{}`: true, ` {"a":1} `: true, `{"a":{"token":1},"b":[{"token":2}],"c":"token"}`: true, `{"tokens":1,"tok":1}`: true, `{"n":1e400}`: true,
		`{"token":1}`: false, `{"a":1,"token":null}`: false, `{"\u0074oken":1}`: false, `{"TOKEN":1}`: false, `{"user id":1}`: false, `{"to\u212aen":1}`: false,
		`[]`: false, `[{"a":1}]`: false, `"text"`: false, `null`: false, `1`: false, ``: false, `{`: false, `{}{}`: false, `{"a":1} x`: false, `{"a"}`: false, `{'a':1}`: false,
	} {
		r := policy.Request{Key: "a", Method: "POST", URL: "https://a.test/x", HasBody: true, BodySize: len(body), Body: json.RawMessage(body)}
		d := p.Decide(r)
		require.Equal(t, ok, d.Allowed, "%s", body)
		if !ok {
			require.Equal(t, schemas.DenyBody, d.Code, "%s", body)
		}
		r.TextBody = true
		require.Equal(t, schemas.DenyBody, p.Decide(r).Code, "text is no object")
		r.Key = "plain"
		require.True(t, p.Decide(r).Allowed)
	}
	none := policy.Request{Key: "a", URL: "https://a.test/x"}
	for method, ok := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "DELETE": true, "POST": false, "PUT": false, "PATCH": false} {
		none.Method = method
		d := p.Decide(none)
		require.Equal(t, ok, d.Allowed, method)
		require.Equal(t, ok, d.Code == "", method)
	}
	unknown := policy.Request{Key: "a", Method: "POST", URL: "https://a.test/x", HasBody: true, BodySize: 2}
	require.Equal(t, schemas.DenyBody, p.Decide(unknown).Code, "a body that policy was not shown")
}
