package policy_test

import (
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
		"Connection", "Proxy-Anything", "TE", "Trailer", "HTTP2-Settings", "Sec-WebSocket-Key", "CONTENT_LENGTH", "Content.Length", "Accept-Encoding", "Expect",
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
