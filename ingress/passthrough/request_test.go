package passthrough

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/ingress"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/token"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

const (
	ours  = "weir1_aaaaaaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	tasks = "weirt1_abc"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// TestToken: a Weir token is found where an API has its key, and goes nowhere else.
func TestToken(t *testing.T) {
	t.Parallel()
	require.True(t, token.Is(ours))
	long := ours + strings.Repeat("A", maxCredential)
	for name, tt := range map[string]struct {
		given, rest http.Header
		token       string
	}{
		"none":                     {http.Header{"Accept": {"*/*"}}, http.Header{"Accept": {"*/*"}}, ""},
		"bearer":                   {http.Header{"Authorization": {"Bearer " + ours}}, http.Header{}, ours},
		"of GitHub's clients":      {http.Header{"Authorization": {"token " + ours}}, http.Header{}, ours},
		"user of Basic":            {http.Header{"Authorization": {basic(ours, "")}}, http.Header{}, ours},
		"password of Basic":        {http.Header{"Authorization": {basic("x", ours)}}, http.Header{}, ours},
		"a key":                    {http.Header{"X-Api-Key": {ours}}, http.Header{}, ours},
		"a key, and the caller's":  {http.Header{"X-Api-Key": {ours}, "Authorization": {"Bearer theirs"}}, http.Header{"Authorization": {"Bearer theirs"}}, ours},
		"bearer, and a key":        {http.Header{"X-Api-Key": {"theirs"}, "Authorization": {"Bearer " + ours}}, http.Header{"X-Api-Key": {"theirs"}}, ours},
		"a task's":                 {http.Header{"Authorization": {"Bearer " + tasks}}, http.Header{}, tasks},
		"both":                     {http.Header{"X-Api-Key": {ours}, "Authorization": {"Bearer " + tasks}}, http.Header{}, tasks},
		"only the caller's":        {http.Header{"Authorization": {"Bearer theirs"}}, http.Header{"Authorization": {"Bearer theirs"}}, ""},
		"text around is no token":  {http.Header{"X-Api-Key": {"x" + ours}}, http.Header{"X-Api-Key": {"x" + ours}}, ""},
		"Basic that is not base64": {http.Header{"Authorization": {"Basic !"}}, http.Header{"Authorization": {"Basic !"}}, ""},
		"too long":                 {http.Header{"X-Api-Key": {long}}, http.Header{"X-Api-Key": {long}}, ""},
	} {
		before := tt.given.Clone()
		assert.Equal(t, tt.token, Token(tt.given), name)
		assert.Equal(t, tt.rest, withoutTokens(tt.given), name)
		assert.Equal(t, before, tt.given, "%s: the request is not changed", name)
	}
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, errors.Join(err, w.Close()))
	return b.String()
}

// TestHeaders: fields of the connection, of Weir and of load balancers stay here.
func TestHeaders(t *testing.T) {
	t.Parallel()
	got := headers(http.Header{
		"Host": {"h"}, "Connection": {"keep-alive, X-Own", "x-two"}, "X-Own": {"1"}, "X-Two": {"2"}, "Content-Length": {"3"}, "Transfer-Encoding": {"chunked"},
		"Expect": {"100-continue"}, "Accept-Encoding": {"br"}, "Prefer": {"wait=1"}, "Idempotency-Key": {"k"}, "Weir-Delay": {"1s"}, "Traceparent": {"t"},
		"Forwarded": {"for=x"}, "X-Forwarded-For": {"x"}, "X-Forwarded-Proto": {"https"}, "Proxy-Authorization": {"x"}, "Te": {"trailers"}, "Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABkAAQAAP__"},
		"Accept": {"a", "b"}, "Cookie": {"a=1; weir_console=secret", "__Host-weir_console=secret; b=2"}, "X-Request-Id": {"r"}, "User-Agent": {"sdk"}, "Content-Type": {"text/plain"},
	})
	require.Equal(t, []schemas.Header{
		{Name: "Accept", Value: "a, b"},
		{Name: "Content-Type", Value: "text/plain"},
		{Name: "Cookie", Value: "a=1; b=2"},
		{Name: "User-Agent", Value: "sdk"},
		{Name: "X-Request-Id", Value: "r"},
	}, got)
	require.Empty(t, headers(http.Header{"Cookie": {"weir_console=secret"}}))
	for prefer, want := range map[string]string{
		"resolution=merge-duplicates,return=representation":                       "resolution=merge-duplicates,return=representation",
		`Wait = 5; x=y, handling=lenient; a="b, wait=1" , respond-async, , waits`: `handling=lenient; a="b, wait=1" , waits`,
		"respond-async": "", ",": "",
	} {
		list := headers(http.Header{"Prefer": {prefer}})
		require.Equal(t, want != "", len(list) == 1, prefer)
		if want != "" {
			require.Equal(t, want, list[0].Value)
		}
	}
}

// TestSplit: path and query are the caller's, byte for byte.
func TestSplit(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string][2]string{
		"/via/t": {"t", "/"}, "/via/t/": {"t", "/"}, "/via/t?a": {"t", "/?a"}, "/via/t/a%2fb//c/../%41?x=%20+&&": {"t", "/a%2fb//c/../%41?x=%20+&&"},
		"/via/a%3Ab/x": {"a:b", "/x"}, "/via/": {"", "/"}, "/via/%zz/": {"%zz", "/"},
	} {
		entry, target := split(uri)
		assert.Equal(t, want, [2]string{entry, target}, uri)
	}
}

// TestRoute: a key is of an entry and an origin, wherever the request came from.
func TestRoute(t *testing.T) {
	t.Parallel()
	assert.Equal(t, route("https://H.example:8443/a?b", "e"), route("https://h.example:8443?c", "e"))
	assert.NotEqual(t, route("https://h.example/a", "e"), route("https://h.example:8443/a", "e"))
	assert.NotEqual(t, route("https://h.example/a", "e"), route("https://h.example/a", ""))
	assert.NotEqual(t, route("https://h.example/a", "e"), route("http://h.example/a", "e"))
}

// TestBodies: every body is stored so that its bytes can be sent again.
func TestBodies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "body")
		c := call(&http.Request{Method: http.MethodPost, Header: http.Header{}}, body)
		answer := schemas.Answer{Body: c.Body, Base64: c.Base64Body}
		got, ok := answer.Bytes()
		if !ok || string(got) != string(body) || c.Base64Body == c.TextBody && len(body) > 0 {
			t.Fatalf("%q became %q, %v", body, c.Body, ok)
		}
	})
}

// watched is a body that reports when it is read.
type watched struct {
	io.Reader
	read func()
}

func (w watched) Read(p []byte) (int, error) {
	w.read()
	return w.Reader.Read(p)
}

// TestMemoryOfABody: a large body is read once there is memory for it, which is free again when the
// action is stored.
func TestMemoryOfABody(t *testing.T) {
	t.Parallel()
	const large = schemas.InlineLimit + 1
	for name, tt := range map[string]struct {
		size                    int
		chunked, encoded, never bool
		held                    int64
	}{
		"small":     {size: large - 1},
		"large":     {size: large, held: large},
		"larger":    {size: 8 << 20, held: schemas.SpoolMemory},
		"chunked":   {size: 1, chunked: true, held: schemas.SpoolMemory},
		"gzip":      {size: 8 << 20, encoded: true},
		"no memory": {size: large, never: true},
	} {
		layout := schemas.Layout{Partitions: 1}
		log := memlog.New(layout, time.Now, memlog.Hooks{})
		led := ledger.New(log, layout, nil)
		var now, read int64
		answered := int64(-1)
		door := New(ingress.NewServer(led, ingress.Config{MaxBody: 64 << 20, Memory: func(_ context.Context, tenant string, n int64) (func(), error) {
			require.Equal(t, "a", tenant)
			if tt.never {
				return nil, context.DeadlineExceeded
			}
			now += n
			return sync.OnceFunc(func() { now -= n }), nil
		}}), Config{
			Policy: func(grant.Caller) executor.Policy { return allows(true) }, Bodies: log,
			Answer: func(http.ResponseWriter, *http.Request, schemas.Ref, schemas.Receipt, time.Duration, func()) {
				answered = now
			},
		})
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		ingress.SetTenant(c, "a")
		body := strings.Repeat("x", tt.size)
		if tt.encoded {
			body = zip(t, body)
		}
		c.Request = httptest.NewRequest(http.MethodPost, "/via/e/x", watched{strings.NewReader(body), func() { read = now }})
		if c.Request.ContentLength = int64(len(body)); tt.chunked {
			c.Request.ContentLength = -1
		}
		if tt.encoded {
			c.Request.Header.Set("Content-Encoding", "gzip")
		}
		err := door.Serve(c, ingress.Identity{Token: schemas.Token{Tenant: "a"}}, "http://h.example/x", "e")
		if public, ok := errors.AsType[*fault.Error](err); ok {
			require.True(t, tt.never, name)
			require.Equal(t, schemas.Unavailable, public.Code)
			require.Equal(t, int64(-1), answered)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, []int64{tt.held, 0}, []int64{read, answered}, name)
	}
}

// allows is a policy that permits, or denies, every call.
type allows bool

func (allows) MaxTimeout() time.Duration { return time.Minute }

func (a allows) Evaluate(schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	if !a {
		return schemas.Decision{Code: schemas.DenyHost}, schemas.ClassOnce
	}
	return schemas.Decision{Allowed: true}, schemas.ClassOnce
}

// TestStored: a repeat under a key joins the call that has not ended, and of a denied call neither
// headers nor body are kept.
func TestStored(t *testing.T) {
	t.Parallel()
	for _, permits := range []allows{true, false} {
		layout := schemas.Layout{Partitions: 1}
		led := ledger.New(memlog.New(layout, time.Now, memlog.Hooks{}), layout, nil)
		var got []schemas.Receipt
		door := New(ingress.NewServer(led, ingress.Config{}), Config{
			Policy: func(grant.Caller) executor.Policy { return permits },
			Answer: func(_ http.ResponseWriter, _ *http.Request, _ schemas.Ref, receipt schemas.Receipt, _ time.Duration, _ func()) {
				got = append(got, receipt)
			},
		})
		for range 2 {
			c, _ := gin.CreateTestContext(httptest.NewRecorder())
			c.Request = httptest.NewRequest(http.MethodPost, "/via/e/x", strings.NewReader("secret-body"))
			c.Request.Header = http.Header{"Idempotency-Key": {"k"}, "X-A": {"secret-header"}}
			require.NoError(t, door.Serve(c, ingress.Identity{Token: schemas.Token{Tenant: "a"}}, "http://h.example/x", "e"))
		}
		require.Equal(t, []bool{false, true}, []bool{got[0].Duplicate, got[1].Duplicate})
		st, err := led.Find(t.Context(), "a", got[0].ID)
		require.NoError(t, err)
		require.Equal(t, bool(permits), strings.Contains(string(st.Action.Payload), "secret-body"))
		require.Equal(t, bool(permits), strings.Contains(string(st.Action.Payload), "secret-header"))
	}
}

// TestRepeatsAreRecognised by all but what clients change when they try again.
func TestRepeatsAreRecognised(t *testing.T) {
	t.Parallel()
	first := schemas.HTTPCall{Method: "POST", URL: "https://a.example/", Headers: []schemas.Header{{Name: "Accept", Value: "*/*"}, {Name: "Stripe-Account", Value: "a"}}}
	want, err := recognised(first)
	require.NoError(t, err)
	for _, name := range []string{"User-Agent", "X-Request-Id", "X-Stainless-Retry-Count", "amz-sdk-request", "Baggage"} {
		again := first
		again.Headers = append(slices.Clone(first.Headers), schemas.Header{Name: name, Value: "2"})
		got, err := recognised(again)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), name)
		require.Len(t, again.Headers, 3, "the call keeps it")
	}
	for name, change := range map[string]func(*schemas.HTTPCall){
		"account": func(c *schemas.HTTPCall) {
			c.Headers = []schemas.Header{c.Headers[0], {Name: "Stripe-Account", Value: "b"}}
		},
		"body":   func(c *schemas.HTTPCall) { c.BodyBlob, c.BodyBytes = "ab", 1 },
		"method": func(c *schemas.HTTPCall) { c.Method = "PUT" },
	} {
		other := first
		change(&other)
		got, err := recognised(other)
		require.NoError(t, err)
		require.NotEqual(t, string(want), string(got), name)
	}
}
