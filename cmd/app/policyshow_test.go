package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestPolicyShow: the local policy and the one in force are listed alike, with all that is left to callers.
func TestPolicyShow(t *testing.T) {
	t.Parallel()
	const text = `policy:
  allowed_hosts: [wiki.example]
  allowlist:
    - {name: hub, url_prefix: "https://hub.example/", headers: {X-Auth: "${secret:HUB}"}, caller_headers: ["*"], caller_params: [page]}
    - {name: near, url_prefix: "http://127.0.0.1:3000/", methods: [GET, POST], network: loopback}
models: {gpt: {url: "https://models.example/v1", pass: "*"}}
`
	file := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	show := func(args ...string) string {
		var out, errs bytes.Buffer
		code := Main(t.Context(), append([]string{"policy", "show"}, args...), []string{"HOME=/nowhere"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		require.Equal(t, exitOK, code, errs.String())
		return out.String()
	}
	local := show("--config", file)
	for _, line := range []string{
		`hub +enforce +GET +https://hub\.example/ +public +headers: X-Auth +headers: \*; params: page`,
		`near +enforce +GET POST +http://127\.0\.0\.1:3000/ +loopback +- +-`,
		`model:gpt .* members: \*`, `allowed hosts: wiki\.example`,
	} {
		require.Regexp(t, line+"\n", local)
	}
	a := newApp(t, text)
	entries, _, _ := strings.Cut(local, "version:") // it covers the ports that the node has, too
	inForce, _, _ := strings.Cut(show("--server", a.URL()), "version:")
	require.Equal(t, entries, inForce)
	var v schemas.PolicyView
	require.NoError(t, json.Unmarshal([]byte(show("--server", a.URL(), "--json")), &v))
	require.Equal(t, []string{"*"}, v.Entries[0].CallerHeaders)
}
