package app

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHealthCommand(t *testing.T) {
	t.Parallel()
	const good = `{"ready":true,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"ok"}}`
	const bad = `{"ready":false,"durability":"disk","partitions":1,"policy_version":"v","checks":{"log":"failed"},"reasons":["log is not ready"]}`
	node := func(alive, ready int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			assert.Empty(t, r.Header.Get("Authorization"), "health needs no token")
			switch r.URL.Path {
			case "/healthz":
				w.WriteHeader(alive)
			case "/readyz":
				w.WriteHeader(ready)
				_, _ = w.Write([]byte(body))
			}
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	well, busy, other := node(200, 200, good), node(200, 503, bad), node(200, 200, "hello")
	const gone = "http://127.0.0.1:1"
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
		errs string
	}{
		{"alive", []string{well}, exitOK, "alive\n", ""},
		{"ready", []string{"--ready", well}, exitOK, "ready\n", ""},
		{"ready as JSON", []string{"--ready", "--json", well}, exitOK, `{"url":"` + well + `","healthy":true,"status":200,"readiness":` + good + "}\n", ""},
		{"alive and not ready", []string{busy}, exitOK, "alive\n", ""},
		{"not ready", []string{"--ready", busy}, exitFailed, "", "log is not ready"},
		{"not ready as JSON", []string{"--ready", "--json", busy}, exitFailed, `{"url":"` + busy + `","healthy":false,"status":503,"readiness":` + bad + `,"error":"log is not ready"}` + "\n", ""},
		{"another program", []string{"--ready", other}, exitFailed, "", "what answers is no Weir"},
		{"nobody", []string{gone}, exitFailed, "", "nobody answers at " + gone},
		{"no URL", []string{"127.0.0.1"}, exitUsage, "", `"127.0.0.1" is not an http or https URL`},
		{"two", []string{well, well}, exitUsage, "", "takes one URL at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := Main(t.Context(), append([]string{"health", "--timeout", "1m"}, c.args...), []string{"WEIR_TOKEN=weir1_x"}, Streams{Out: &out, Err: &errs})
			require.Equal(t, c.code, code, errs.String())
			require.Equal(t, c.out, out.String())
			if c.errs == "" {
				require.Empty(t, errs.String())
			}
			require.Contains(t, errs.String(), c.errs)
		})
	}
}
