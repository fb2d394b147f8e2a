package policy_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/schemas"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{{
		Name: "a", URLPrefix: "https://a.test/", Headers: map[string]string{"X-Tenant": "t", "Authorization": "Bearer ${secret:T}"},
		CallerHeaders: []string{"x*", "Proxyless", "Override", "Tea", "Contents"},
	}}})
	decide := func(hs ...schemas.Header) schemas.Code {
		return p.Decide(policy.Request{Key: "a", Method: "GET", URL: "https://a.test/", Headers: hs}).Code
	}
	for _, name := range []string{
		"Connection", "Proxy-Anything", "TE", "Trailer", "HTTP2-Settings", "Sec-WebSocket-Key", "CONTENT_LENGTH", "Content.Length", "content-encoding", "Accept-Encoding", "Content_Encoding", "Expect",
		"X-Host", "Via", "Forwarded", "X_Forwarded_Proto", "X-Real-IP", "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method", "X-Method-Override", "CF-Connecting-IP",
		"Authorization", "Set-Cookie", "x_api_key", "X-Auth-Token", "Private-Token", "Proxy", "X-Auth-Request-User", "X-Remote-Group", "impersonate_extra_scopes",
		"X-Amzn-Oidc-Data", "L5d-Dst-Override", "DD-API-KEY", "X_Session_Token", "Token", "DPoP", "SSL-Client-Verify", "Metadata-Flavor", "X-Google-Metadata-Request",
		"X-MS-CLIENT-PRINCIPAL-ID", "X-Goog-IAP-JWT-Assertion", "CF-Access-Client-Id", "Metadata", "X-aws-ec2-metadata-token-ttl-seconds",
		"idempotency_key", "X-Figma-Token", "Authentication", "X-Tenant", "X_TENANT", "If-Range", "range",
		"", " ", "X A", "X-A ", "X:", ":path", "X\r\nY", "X\x00", "\u00e9", strings.Repeat("x", 257),
	} {
		require.Equal(t, schemas.DenyHeader, decide(schemas.Header{Name: name, Value: "1"}), "%q", name)
	}
	for _, name := range []string{
		"Accept", "Content-Type", "If-Match", "If-None-Match", "User-Agent", "X-Request-ID", "Traceparent", "Prefer",
		"X-CSRF-Token", "X-User", "Proxyless", "X-Key", "X-Tokens", "Override",
		"X-Hostess", "X-Forward", "Tea", "Contents", strings.Repeat("x", 256),
	} {
		require.Empty(t, decide(schemas.Header{Name: name, Value: "1"}), "%q", name)
	}
	passed := policy.Request{Key: "a", Method: "GET", URL: "https://a.test/", Upload: true, Headers: []schemas.Header{{Name: "content-encoding", Value: "gzip"}}}
	require.Empty(t, p.Decide(passed).Code, "passthrough sends a body as it came")
	for value, ok := range map[string]bool{
		"": true, "a b\tc": true, `"x", y;q=0.5`: true, strings.Repeat("v", 8<<10): true, "$x {a}": true,
		strings.Repeat("v", 8<<10+1): false, "a\nb": false, "a\r": false, "\x00": false, "\x7f": false, "\u00e9": false,
		"${secret:T}": false, "{{ env.X }}": false,
	} {
		require.Equal(t, ok, decide(schemas.Header{Name: "X-A", Value: value}) == "", "%q", value)
	}
	require.Equal(t, schemas.DenyHeader, decide(schemas.Header{Name: "X-A"}, schemas.Header{Name: "x-a"}), "given twice")

	var many []schemas.Header
	for i := range 65 {
		many = append(many, schemas.Header{Name: fmt.Sprintf("X-%d", i)})
	}
	require.Empty(t, decide(many[:64]...))
	require.Equal(t, schemas.DenyHeader, decide(many...))
}

// No caller sends a Weir token to a target: not in a header, an idempotency key, a path or a query.
func TestWeirTokens(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{Entries: []policy.Entry{{Name: "a", URLPrefix: "https://a.test/", Methods: []string{"POST"}}}})
	const ours, tasks, session = "weir1_abcdefghijkmnpqr_c2VjcmV0", "weirt1_mfrggzdfmztwq2lk_c2VjcmV0", "weirc_abcdefghijkmnpqr_c2VjcmV0"
	for value, want := range map[string]schemas.Code{
		"Bearer " + ours: schemas.DenyHeader, tasks: schemas.DenyHeader, "a=b; weir=" + session: schemas.DenyHeader,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+ours)):    schemas.DenyHeader,
		"bASIC " + base64.RawStdEncoding.EncodeToString([]byte(tasks+":")): schemas.DenyHeader,
		"Bearer weir1_notes": "", "weird weir1_x_ weir2_abcdefghijkmnpqr_": "", "Basic weir1": "",
	} {
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Any"} {
			d := p.Decide(policy.Request{Method: "POST", URL: "https://a.test/", Headers: []schemas.Header{{Name: name, Value: value}}})
			require.Equal(t, want, d.Code, "%s: %s", name, value)
			require.NotContains(t, d.Reason, "weir1_")
		}
	}
	for _, key := range []string{ours, tasks} {
		require.Equal(t, schemas.DenyHeader, p.Decide(policy.Request{Method: "POST", URL: "https://a.test/", IdempotencyKey: key}).Code)
	}
	for target, want := range map[string]schemas.Code{
		"?key=" + ours: schemas.DenyURLInvalid, "?a=1&k=%77eirt1%5F" + tasks[7:]: schemas.DenyURLInvalid, "x/" + ours: schemas.DenyURLInvalid,
		"weir1_notes.txt?q=weir": "",
	} {
		require.Equal(t, want, p.Decide(policy.Request{Method: "POST", URL: "https://a.test/" + target}).Code, target)
	}
}

// Callers' own credentials pass where the entry adds nothing, or names them.
func TestOwnCredentials(t *testing.T) {
	t.Parallel()
	p := compile(t, policy.Config{
		Entries: []policy.Entry{
			{Name: "bare", URLPrefix: "https://a.test/"},
			{Name: "traced", URLPrefix: "https://a.test/", Headers: map[string]string{"Traceparent": "${trace}"}},
			{Name: "named", URLPrefix: "https://a.test/", Headers: map[string]string{"X-Team": "weir"}, CallerHeaders: []string{"Authorization", "x-api-key", "Cookie"}},
			{Name: "all", URLPrefix: "https://a.test/", Headers: map[string]string{"X-Team": "weir"}, CallerHeaders: []string{"*"}},
			{Name: "plain", URLPrefix: "https://a.test/", Headers: map[string]string{"X-Team": "weir"}},
			{Name: "header", URLPrefix: "https://a.test/", Headers: map[string]string{"X-Team": "${secret:A}"}},
			{Name: "literal", URLPrefix: "https://a.test/", Headers: map[string]string{"Authorization": "Basic YTpi"}},
			{Name: "query", URLPrefix: "https://a.test/", Query: map[string]string{"k": "${secret:A}"}},
			{Name: "body", URLPrefix: "https://a.test/", Body: map[string]string{"api_key": "x"}},
		},
		AllowedHosts: []string{"b.test"},
	})
	for key, ok := range map[string]bool{"bare": true, "traced": true, "named": true, "": true, "all": false, "plain": false, "header": false, "literal": false, "query": false, "body": false} {
		url := "https://a.test/"
		if key == "" {
			url = "https://b.test/"
		}
		decide := func(name, value string) schemas.Code {
			return p.Decide(policy.Request{Key: key, Method: "GET", URL: url, Headers: []schemas.Header{{Name: name, Value: value}}}).Code
		}
		for _, name := range []string{"Authorization", "authorization", "X-Api-Key", "COOKIE"} {
			require.Equal(t, ok, decide(name, "a=b") == "", "%s: %s", key, name)
			for _, value := range []string{"Bearer ${secret:T}", "{{ token }}", "REDACTED", "a\nb"} {
				require.Equal(t, schemas.DenyHeader, decide(name, value), "%s: %s", name, value)
			}
		}
		for _, name := range []string{"Proxy-Authorization", "Set-Cookie", "X_Api_Key", "X-Auth-Token", "X-Remote-User"} {
			require.Equal(t, schemas.DenyHeader, decide(name, "1"), "%s: %s", key, name)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	p := shop(t)
	for key, ok := range map[string]bool{
		"": true, "k1": true, `"a b"`: true, strings.Repeat("k", 255): true,
		strings.Repeat("k", 256): false, " ": false, "a\r\nb": false, "caf\u00e9": false, "\x00": false,
	} {
		d := p.Decide(policy.Request{Key: "shop", Method: "POST", URL: "https://shop.test/api/", IdempotencyKey: key})
		require.Equal(t, ok, d.Allowed, "%q", key)
	}
}

func FuzzHeaders(f *testing.F) {
	for _, s := range [][2]string{{"Host", "x"}, {"X-A", "b"}, {"Transfer_Encoding", "chunked"}, {"X-A\r\nB", ""}, {"X", "${secret:A}"}, {"\u212aeep-alive", ""}} {
		f.Add(s[0], s[1])
	}
	p := shop(f)
	f.Fuzz(func(t *testing.T, name, value string) {
		d := p.Decide(policy.Request{
			Key: "shop", Method: "GET", URL: "https://shop.test/api/", Headers: []schemas.Header{{Name: name, Value: value}},
		})
		if !d.Allowed {
			require.Equal(t, schemas.DenyHeader, d.Code)
			return
		}
		for _, c := range []byte(name + value) {
			require.True(t, c == '\t' || (c >= ' ' && c < 0x7f))
		}
		folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		require.NotContains(t, []string{"host", "content-length", "transfer-encoding", "connection", "proxy-authorization", "set-cookie", "idempotency-key"}, folded)
	})
}

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
