package githttp_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func basic(pair string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))
}

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	public, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "%v", err)
	require.NotEmpty(t, public.Message)
	return public.Code
}

func TestToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fields []string
		token  string
	}{
		"bearer":              {[]string{"Bearer t"}, "t"},
		"bearer, small":       {[]string{"bearer  t"}, "t"},
		"basic":               {[]string{basic("anybody:t")}, "t"},
		"basic, no user":      {[]string{basic(":t")}, "t"},
		"basic, colons":       {[]string{basic("u:t:t")}, "t:t"},
		"none":                {nil, ""},
		"two":                 {[]string{"Bearer t", "Bearer t"}, ""},
		"empty":               {[]string{""}, ""},
		"too long":            {[]string{"Bearer " + strings.Repeat("t", 1024)}, ""},
		"another scheme":      {[]string{"Digest t"}, ""},
		"basic, no password":  {[]string{basic("t:")}, ""},
		"basic, no colon":     {[]string{basic("t")}, ""},
		"basic, not encoded":  {[]string{"Basic u:t"}, ""},
		"basic, another code": {[]string{"Basic " + base64.URLEncoding.EncodeToString([]byte("\xfb\xff:t"))}, ""},
	} {
		token, ok := githttp.BearerToken(tc.fields, true)
		require.Equal(t, tc.token, token, name)
		require.Equal(t, tc.token != "", ok, name)
		if token, ok = githttp.BearerToken(tc.fields, false); len(tc.fields) > 0 && strings.HasPrefix(tc.fields[0], "Basic") {
			tc.token = ""
		}
		require.Equal(t, tc.token, token, "%s, without Basic", name)
		require.Equal(t, tc.token != "", ok, name)
	}
}

func FuzzToken(f *testing.F) {
	f.Add("Bearer t")
	f.Add(basic("u:t"))
	f.Fuzz(func(t *testing.T, field string) {
		token, ok := githttp.BearerToken([]string{field}, true)
		if ok != (token != "") {
			t.Fatalf("%q", field)
		}
		if len(token) > 700 { // encoded, it is longer than a header may be
			return
		}
		if again, _ := githttp.BearerToken([]string{basic("u:" + token)}, true); again != token {
			t.Fatalf("%q is %q again", token, again)
		}
	})
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fields   []string
		protocol int
		code     schemas.Code
	}{
		"none":   {nil, 0, ""},
		"zero":   {[]string{"version=0"}, 0, ""},
		"two":    {[]string{"version=2"}, 2, ""},
		"one":    {[]string{"version=1"}, 0, schemas.GitProtocolRequired},
		"three":  {[]string{"version=3"}, 0, schemas.GitProtocolRequired},
		"long":   {[]string{"version=" + strings.Repeat("2", 99)}, 0, schemas.InvalidRequest},
		"NUL":    {[]string{"version=2\x00;id"}, 0, schemas.InvalidRequest},
		"a list": {[]string{"version=2:x=1"}, 0, schemas.InvalidRequest},
		"empty":  {[]string{""}, 0, schemas.InvalidRequest},
		"twice":  {[]string{"version=2", "version=2"}, 0, schemas.InvalidRequest},
	} {
		protocol, err := githttp.Protocol(http.Header{"Git-Protocol": tc.fields})
		require.Equal(t, tc.protocol, protocol, name)
		if tc.code == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, tc.code, code(t, err), name)
	}
}

// A client that sends a lot hears why it is refused, however it asks for the connection.
func TestARefusalIsHeard(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		githttp.Refuse(w, r, func() { http.Error(w, "no", http.StatusRequestEntityTooLarge) })
	}))
	t.Cleanup(server.Close)
	data := make([]byte, 8<<20)
	for _, closing := range []bool{false, true} {
		transport := &http.Transport{DisableKeepAlives: closing}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		for _, body := range []func() io.Reader{
			func() io.Reader { return bytes.NewReader(data) },
			func() io.Reader { return io.MultiReader(bytes.NewReader(data)) },
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body())
			require.NoError(t, err)
			resp, err := client.Do(r)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		}
	}
}

func TestARefusalAsksForNothing(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 1<<20)))
	r.Header.Set("Expect", "100-continue")
	w := httptest.NewRecorder()
	githttp.Refuse(w, r, func() { w.WriteHeader(http.StatusForbidden) })
	left, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Len(t, left, 1<<20, "the client waits for leave to send")
}
