package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSecretsOfAnAgeFile: they reach the target in header, query and body, come
// back to nobody, and change with the file while Weir runs.
func TestSecretsOfAnAgeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, identity := filepath.Join(dir, "secrets.age"), filepath.Join(dir, "key.txt")
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(identity, []byte(key.String()), 0o600))
	put := func(value string) {
		var sealed bytes.Buffer
		w, err := age.Encrypt(&sealed, key.Recipient())
		require.NoError(t, err)
		_, err = fmt.Fprintf(w, "TOKEN: %s\n", value)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(file+".new", sealed.Bytes(), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	put("AGWCANARY-OLD-1234")

	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var heard, traced string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard = r.Header.Get("Authorization") + " " + r.URL.RawQuery + " " + string(body)
		traced = r.Header.Get("Traceparent")
		w.Header().Set("X-Echo", heard)
		_, _ = io.WriteString(w, heard)
	}))
	t.Cleanup(target.Close)

	var log bytes.Buffer
	a := newApp(t, fmt.Sprintf(`telemetry: {log_level: debug}
secrets: {age_file: %q, age_identity: %q}
policy:
  allowlist:
    - name: up
      url_prefix: %s/
      methods: [POST]
      network: loopback
      headers: {Authorization: "Bearer ${secret:TOKEN}", Traceparent: "${trace}"}
      query: {key: "${secret:TOKEN}"}
      caller_params: [q]
      body: {token: "${secret:TOKEN}"}
`, file, identity, target.URL), func(o *Options) { o.Log = &log })
	var told strings.Builder
	for _, value := range []string{"AGWCANARY-OLD-1234", "AGWCANARY-NEW-5678"} {
		put(value)
		call := fmt.Sprintf(`{"method":"POST","url":"%s/x?q=1","allowlist_key":"up","body":{"n":1.50}}`, target.URL)
		body, h := a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", call, "Traceparent", span)
		assert.Equal(t, fmt.Sprintf(`Bearer %[1]s q=1&key=%[1]s {"n":1.50,"token":"%[1]s"}`, value), heard)
		assert.Contains(t, body, "REDACTED q=1")
		assert.Equal(t, span, traced, "without a collector it is passed on")
		_, events, _ := a.ask(t, http.MethodGet, "/v1/actions/"+h.Get("Weir-Action-Id")+"/events", "", "Accept", "application/json")
		require.Contains(t, events, "settled")
		evidence := caller{App: a}.evidence(t, "", h.Get("Weir-Action-Id"))
		told.WriteString(body + events + evidence)
	}
	_, policy, _ := a.ask(t, http.MethodGet, "/v1/policy", "")
	told.WriteString(policy)
	require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) // which its cleanup does again
	told.Write(log.Bytes())
	assert.NotContains(t, told.String(), "AGWCANARY")
	assert.Empty(t, a.warnings(a.cfg))

	require.NoError(t, os.Remove(file))
	assert.Contains(t, strings.Join(a.warnings(a.cfg), "\n"), "secrets: the age file is not there")
	assert.NotContains(t, strings.Join(a.warnings(a.cfg), "\n"), dir)
}
