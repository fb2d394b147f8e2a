package policy

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir/internal/redact"
	"weir/schemas"
)

// MaxHeaders is how many headers a caller may give.
const MaxHeaders = 64

const (
	maxHeaderName  = 256
	maxHeaderValue = 8 << 10
	maxKey         = 255
)

// headerKind is the reason why callers may not set a header.
type headerKind uint8

const (
	headerFree headerKind = iota
	headerFraming
	headerRouting
	headerCredential
	headerMetadata
	headerIdempotency
)

// checkHeaders holds the caller's headers against the closed list, and against
// the names that the entry sets itself.
func checkHeaders(e *entry, headers []schemas.Header) denial {
	if len(headers) > MaxHeaders {
		return deniedHeaderCount
	}
	for i, h := range headers {
		if f := checkHeader(e, h); f != nil {
			return f
		}
		if h.Value == redact.Mark {
			return deniedHeaderRedacted
		}
		for _, earlier := range headers[:i] {
			if len(earlier.Name) == len(h.Name) && strings.EqualFold(earlier.Name, h.Name) { // tokens: ASCII
				return deniedHeaderRepeated
			}
		}
	}
	return nil
}

// checkCoding refuses a coding of a body that Weir writes itself.
func checkCoding(r *Request) denial {
	if !r.Upload && slices.ContainsFunc(r.Headers, func(h schemas.Header) bool { return strings.EqualFold(h.Name, "Content-Encoding") }) {
		return deniedHeaderFraming
	}
	return nil
}

func checkHeader(e *entry, h schemas.Header) denial {
	if !headerToken(h.Name) {
		return deniedHeaderName
	}
	if len(h.Value) > maxHeaderValue {
		return deniedHeaderLength
	}
	if !redact.Printable(h.Value) {
		return deniedHeaderValue
	}
	var buf [maxHeaderName]byte
	name := foldName(buf[:0], h.Name)
	switch classify(name) {
	case headerFraming:
		// A coding is of the body, and the target's to undo, unless the entry adds members to the body.
		if !strings.EqualFold(h.Name, "Content-Encoding") || len(e.members) > 0 {
			return deniedHeaderFraming
		}
	case headerRouting:
		return deniedHeaderRouting
	case headerCredential:
		if !OwnCredential(h.Name) || e.credential && !e.namesCredential(string(name)) {
			return deniedHeaderCredential
		}
	case headerMetadata:
		return deniedHeaderMetadata
	case headerIdempotency:
		return deniedHeaderIdempotency
	case headerFree:
		if e.keyName != "" && e.keyName == string(name) {
			return deniedHeaderIdempotency
		}
	}
	if slices.Contains(e.owned, string(name)) {
		return deniedHeaderOwned
	}
	// A target that echoes its request would return it piece by piece, each too small to be known
	// for a part of a secret.
	if e.injects && (string(name) == "range" || string(name) == "if-range") && !matchAny(e.callerHeaders, string(name)) {
		return deniedHeaderPart
	}
	if e.injects && !e.callerHeader(string(name)) {
		return deniedHeaderCaller
	}
	if strings.Contains(h.Value, "${") || strings.Contains(h.Value, "{{") {
		return deniedHeaderTemplate
	}
	if holdsToken(h.Value) {
		return deniedHeaderToken
	}
	return nil
}

// weirToken is the form of the tokens and sessions that Weir issues, up to the secret.
var weirToken = regexp.MustCompile(`weir[1c]_[a-z0-9]{16}_|weirt1_[a-z2-7]{8,}_`)

// holdsToken reports whether the value of a header has such a token in it, also one in Basic.
func holdsToken(value string) bool {
	if scheme, rest, ok := strings.Cut(value, " "); ok && equalLower(scheme, "basic") {
		pair, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)) // as far as it can be decoded
		value = string(pair)
	}
	return strings.Contains(value, "weir") && weirToken.MatchString(value)
}

// checkToken refuses a path or a query with a token in it.
func checkToken(q *question) denial {
	var buf [512]byte
	if text := unescape(buf[:0], q.url.Target); bytes.Contains(text, []byte("weir")) && weirToken.MatchString(string(text)) {
		return deniedURLToken
	}
	return nil
}

// OwnCredential reports whether a header is one in which callers send credentials of
// their own. An entry that adds a credential refuses them. Such a header goes to the
// origin of the URL that it came with and to no other, and every view of the call hides
// its value.
func OwnCredential(name string) bool {
	return equalLower(name, "authorization") || equalLower(name, "x-api-key") || equalLower(name, "cookie")
}

// classify knows the names that frame, route, authenticate or are hop-by-hop.
// The name is folded.
func classify(name []byte) headerKind {
	switch string(name) {
	case "connection", "keep-alive", "te", "trailer", "trailers", "transfer-encoding", "upgrade", "http2-settings",
		"content-length", "content-encoding", "accept-encoding", "expect", "alt-used", "early-data":
		return headerFraming
	case "host", "x-host", "proxy", "via", "cdn-loop", "max-forwards", "forwarded", "x-forwarded", "forwarded-for",
		"x-http-method", "x-http-method-override", "x-method-override", "x-http-host-override", "x-override-url",
		"x-rewrite-url", "x-rewrite-uri", "x-backend-host", "x-proxy-host", "x-proxy-url",
		"x-real-ip", "x-client-ip", "client-ip", "x-remote-ip", "x-remote-addr", "x-remote-user", "remote-addr", "remote-user",
		"x-originating-ip", "x-cluster-client-ip", "true-client-ip", "x-true-client-ip", "fastly-client-ip", "cf-connecting-ip",
		"cf-connecting-ipv6",
		"x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-sendfile", "x-sendfile-type",
		"x-http-destinationurl", "x-istio-attributes":
		return headerRouting
	case "authorization", "authentication", "cookie", "cookie2", "set-cookie", "set-cookie2", "www-authenticate",
		"x-api-key", "api-key", "apikey", "x-apikey", "x-api-token", "x-auth", "auth-token", "dpop",
		"access-token", "x-authorization", "x-goog-iam-authorization-token", "token", "x-token", "x-secret", "x-password",
		"x-functions-key", "x-vault-token", "x-consul-token", "private-token", "job-token", "deploy-token",
		"x-github-token", "x-gitlab-token", "ocp-apim-subscription-key", "x-client-cert",
		"ssl-client-cert", "x-ssl-client-cert", "client-cert", "client-cert-chain":
		return headerCredential
	case "metadata", "metadata-flavor", "metadata-token", "metadata-token-expiry-seconds", "x-google-metadata-request":
		return headerMetadata
	case "idempotency-key", "x-idempotency-key":
		return headerIdempotency
	}
	return classifyFamily(string(name))
}

// families are the names by how they begin and end, in the order in which they are tried. Routing
// includes the user that a request is served as: servers believe what a proxy in front of them says
// about that.
var families = []struct { //nolint:gochecknoglobals // a constant
	kind         headerKind
	begins, ends []string
}{
	{headerFraming, []string{"proxy-", "sec-websocket-"}, nil},
	{headerRouting, []string{"impersonate-"}, []string{"-override"}},
	{headerCredential, []string{"cf-access-", "ssl-client-"}, nil},
	{headerRouting, []string{
		"x-forwarded-", "x-original-", "x-rewrite-", "x-envoy-", "x-accel-", "x-middleware-", "x-remote-",
		"x-authenticated-", "x-webauth-", "x-goog-authenticated-", "x-ms-client-principal", "x-amzn-oidc-",
	}, nil},
	{headerMetadata, []string{"x-aws-ec2-metadata-", "x-aliyun-ecs-metadata-"}, nil},
	{headerCredential, []string{"x-auth-", "x-ms-token-", "x-ssl-client-", "x-client-cert-"}, nil},
	{headerCredential, nil, []string{"-api-key", "-apikey", "-secret-key", "-access-key", "-jwt-assertion"}},
}

func classifyFamily(name string) headerKind {
	for _, f := range families {
		if begins(name, f.begins...) || ends(name, f.ends...) {
			return f.kind
		}
	}
	if strings.HasSuffix(name, "-token") && !strings.Contains(name, "csrf") && !strings.Contains(name, "xsrf") {
		return headerCredential
	}
	return headerFree
}

func begins(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func ends(name string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// foldName appends the name as the least careful reader sees it: lower case,
// and a hyphen for whatever is neither letter nor digit, as gateways that
// pass headers on in the environment do.
func foldName(dst []byte, name string) []byte {
	for i := range len(name) {
		c := lower(name[i])
		if !letter(c) && !digit(c) {
			c = '-'
		}
		dst = append(dst, c)
	}
	return dst
}

func headerToken(s string) bool { return len(s) <= maxHeaderName && httpguts.ValidHeaderFieldName(s) }

// checkKey checks a declared idempotency key. None is fine, unless the entry requires one.
func checkKey(e *entry, method, key string) denial {
	if key == "" && e.RequiresKey && once(method) {
		return deniedKeyRequired
	}
	if key != "" && (len(key) > maxKey || !redact.Printable(key) || strings.TrimSpace(key) == "") {
		return deniedIdempotencyKey
	}
	if holdsToken(key) {
		return deniedHeaderToken
	}
	return nil
}
