package outbound_test

import (
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// tunnelTo permits a CONNECT.
func tunnelTo(tb testing.TB, authority string) *policy.Permit {
	tb.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{{Name: "t", URLPrefix: "https://" + authority + "/", Connect: policy.ConnectTunnel}}})
	require.NoError(tb, err)
	permit, ok := p.Decide(policy.Request{Connect: true, URL: authority}).Permit()
	require.True(tb, ok)
	return &permit
}

// TestConnect: a tunnel goes to an address that policy has checked, and carries what its owner writes.
func TestConnect(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	n, cfg := names(s, map[string][][]string{
		"good.example": {{"93.184.216.34"}}, "inner.example": {{"10.1.2.3"}}, "mixed.example": {{"93.184.216.34", "169.254.169.254"}},
	})
	c := client(t, cfg)
	conn, addrs, err := c.Connect(t.Context(), tunnelTo(t, "good.example:443"))
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("93.184.216.34")}, addrs)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 ")
	require.NoError(t, conn.Close())
	dialled := len(n.Dialed())
	type testCase struct {
		permit *policy.Permit
		code   schemas.Code
	}
	table.Run(t, map[string]testCase{
		"private":        {tunnelTo(t, "inner.example:443"), schemas.DenyAddress},
		"one of two":     {tunnelTo(t, "mixed.example:443"), schemas.DenyAddress},
		"no name":        {tunnelTo(t, "none.example:443"), schemas.UpstreamDNS},
		"nothing":        {new(policy.Permit), schemas.DenyAddress},
		"another method": {public(t, "GET", "https://good.example/"), schemas.DenyAddress},
	}, func(t *testing.T, tc testCase) {
		_, _, err := c.Connect(t.Context(), tc.permit)
		failed(t, err, tc.code, false)
		require.Len(t, n.Dialed(), dialled)
	})
}
