package ingress_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/session"
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
