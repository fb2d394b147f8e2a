package app

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
)

// TestOwnPortsAreNoTarget: what the node listens on is refused under every name
// of this machine, though everything that can be granted was.
func TestOwnPortsAreNoTarget(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := newSite(t, "nats: {listen: '127.0.0.1:0'}\npolicy: {allowed_hosts: [localhost, .localhost, 127.0.0.1, 127.9.9.9, '::1']}\n", false)
	status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	require.Equal(t, http.StatusOK, status, body)
	for _, own := range []string{s.http.addr(), s.NATS()} {
		for _, host := range []string{"127.0.0.1", "localhost", "weir.localhost", "127.9.9.9", "[::1]"} {
			url := "http://" + host + ":" + strconv.Itoa(int(portOf(own))) + "/healthz"
			status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", get(url))
			assert.Equal(t, http.StatusForbidden, status, url)
			assert.Contains(t, body, `"code":"DENY_ADDRESS"`, url)
		}
	}
}

// TestAnAddressOfIPv4OpensNoOther: who writes 0.0.0.0 has not asked for [::].
func TestAnAddressOfIPv4OpensNoOther(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:0": "tcp4", "127.0.0.1:0": "tcp4", ":0": "tcp", "[::]:0": "tcp", "[::ffff:127.0.0.1]:0": "tcp", "localhost:0": "tcp",
	} {
		assert.Equal(t, want, family(listen), listen)
	}
	a := &App{cfg: config.Config{Listen: "0.0.0.0:0"}}
	require.NoError(t, a.listen(t.Context()))
	defer func() { require.NoError(t, a.teardown.unwind(t.Context())) }()
	assert.Regexp(t, `^0\.0\.0\.0:`, a.http.addr())
}
