package ingress_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

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
