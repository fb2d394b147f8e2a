package ingress_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/session"
	"weir/internal/fault"
	"weir/schemas"
)

func fromBrowser(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://node.example:8092/v1/actions", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

const publicURL = "https://weir.example"

func TestOnlyTheConsolesOwnRequestsCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header []string
		own    bool
	}{
		"own":                  {[]string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}, true},
		"no header":            {[]string{"Sec-Fetch-Site", "same-origin"}, false},
		"twice":                {[]string{"Weir-Console", "1", "Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}, false},
		"another site":         {[]string{"Weir-Console", "1", "Sec-Fetch-Site", "cross-site"}, false},
		"another port":         {[]string{"Weir-Console", "1", "Sec-Fetch-Site", "same-site"}, false},
		"two sites":            {[]string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}, false},
		"old browser":          {[]string{"Weir-Console", "1", "Origin", "http://node.example:8092"}, true},
		"old, behind a proxy":  {[]string{"Weir-Console", "1", "Origin", publicURL}, true},
		"old, another origin":  {[]string{"Weir-Console", "1", "Origin", "http://evil.example"}, false},
		"old, no origin known": {[]string{"Weir-Console", "1", "Origin", "null"}, false},
		"no browser":           {[]string{"Weir-Console", "1"}, true},
		"the site goes first":  {[]string{"Weir-Console", "1", "Sec-Fetch-Site", "cross-site", "Origin", "http://node.example:8092"}, false},
	} {
		require.Equal(t, tc.own, session.Own(fromBrowser(tc.header...), publicURL), name)
		_, ok := session.Of(fromBrowser(append(tc.header, "Cookie", "__Host-weir_console=v")...), publicURL)
		require.Equal(t, tc.own, ok, name)
	}
}

func TestTheCookieIsReadOnce(t *testing.T) {
	t.Parallel()
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	value, ok := session.Of(fromBrowser(append(own, "Cookie", "a=b; __Host-weir_console=v-1; c=d")...), publicURL)
	require.True(t, ok)
	require.Equal(t, "v-1", value)
	for name, header := range map[string][]string{
		"none":         nil,
		"another":      {"Cookie", "weir=v"},
		"empty":        {"Cookie", "__Host-weir_console="},
		"two":          {"Cookie", "__Host-weir_console=a; __Host-weir_console=b"},
		"and a bearer": {"Cookie", "__Host-weir_console=v", "Authorization", "Bearer x"},
		"an empty one": {"Cookie", "__Host-weir_console=v", "Authorization", ""},
	} {
		_, ok := session.Of(fromBrowser(append(own, header...)...), publicURL)
		require.False(t, ok, name)
	}
}

func TestTheCookieIsOutOfReach(t *testing.T) {
	t.Parallel()
	for url, secure := range map[string]bool{publicURL: true, "http://127.0.0.1:8092": false} {
		w := httptest.NewRecorder()
		session.Set(w, url, "v-1", time.Now().Add(time.Hour))
		got := (&http.Response{Header: w.Header()}).Cookies()
		require.Len(t, got, 1)
		require.Equal(t, "v-1", got[0].Value)
		require.Equal(t, map[bool]string{true: "__Host-weir_console", false: "weir_console"}[secure], got[0].Name)
		require.Equal(t, "/", got[0].Path)
		require.True(t, got[0].HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, got[0].SameSite)
		require.Equal(t, secure, got[0].Secure)
		require.Empty(t, got[0].Domain)
		require.InDelta(t, 3600, got[0].MaxAge, 60)
		w = httptest.NewRecorder()
		session.Clear(w, url)
		require.Equal(t, -1, (&http.Response{Header: w.Header()}).Cookies()[0].MaxAge)
	}
}

// browsers remembers who signed in and out.
type browsers struct{ in, out string }

func (b *browsers) SignIn(_ context.Context, token string) (string, time.Time, error) {
	if token != "good" {
		return "", time.Time{}, fault.New(schemas.Unauthorized, "no")
	}
	b.in = token
	return "weirc_value", time.Now().Add(time.Hour), nil
}

func (b *browsers) SignOut(_ context.Context, value string) error {
	b.out = value
	return nil
}

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	known := &browsers{}
	w := setup(t, func(c *config) { c.Sessions = known })
	own := []string{"Weir-Console", "1", "Sec-Fetch-Site", "same-origin"}
	ask := func(method, body string, header ...string) answer {
		r := post(schemas.RouteConsoleSession, body, append(own, header...)...)
		r.Method = method
		return w.do(t, r)
	}
	require.Equal(t, http.StatusForbidden, w.do(t, post(schemas.RouteConsoleSession, `{"token":"good"}`)).Code, "another page's form")
	for body, status := range map[string]int{
		`{"token":"bad"}`: 401, `{}`: 401, `{"token":7}`: 422, `{"token":"good","x":1}`: 422, `{`: 400,
	} {
		a := ask(http.MethodPost, body)
		require.Equal(t, status, a.Code, body)
		require.Empty(t, a.Header().Values("Set-Cookie"), body)
	}
	require.Empty(t, known.in)
	a := ask(http.MethodPost, `{"token":"good"}`)
	require.Equal(t, http.StatusOK, a.Code)
	require.Contains(t, a.Header().Get("Set-Cookie"), "weir_console=weirc_value; Path=/; Max-Age=")
	require.Equal(t, "no-store", a.Header().Get("Cache-Control"))

	a = ask(http.MethodDelete, "", "Cookie", "weir_console=weirc_value")
	require.Equal(t, http.StatusOK, a.Code)
	require.Equal(t, "weirc_value", known.out)
	require.Contains(t, a.Header().Get("Set-Cookie"), "Max-Age=0")
	require.Equal(t, http.StatusOK, ask(http.MethodDelete, "").Code, "nobody signed in: nothing to do")
	require.NotContains(t, w.logs.String(), "weirc_")
	require.NotContains(t, w.logs.String(), "good")
	require.Contains(t, w.logs.String(), `"surface":"console"`)
}

func submit(id string) *http.Request {
	return post("/v1/execute", `{"method":"POST","url":"http://ok.example/x","request_id":"`+id+`"}`)
}

func bare(path string) *http.Request { return httptest.NewRequest(http.MethodPost, path, http.NoBody) }
