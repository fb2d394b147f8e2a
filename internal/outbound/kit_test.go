package outbound_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// client has limits that tests can wait for.
func client(t testing.TB, cfg outbound.Config) *outbound.Client {
	t.Helper()
	c := outbound.New(cfg)
	t.Cleanup(c.Close)
	return c
}

// names is a resolver and a wire that leads every public address to s.
func names(s *upstream.Server, answers map[string][][]string) (*upstream.Network, outbound.Config) {
	n := upstream.NewNetwork(s.Addr(), answers)
	return n, outbound.Config{Resolver: n, Dial: n.Dial}
}

// call is Open and Do of one request to a path of s.
func call(t testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request) (*outbound.Response, error) {
	t.Helper()
	return exchange(t.Context(), t, c, s, method, path, r)
}

func exchange(
	ctx context.Context, t testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request,
) (*outbound.Response, error) {
	t.Helper()
	conn, err := c.Open(ctx, loopback(t, method, s.URL()+path))
	require.NoError(t, err)
	defer conn.Close()
	return conn.Do(ctx, r)
}

// failed asserts that err is a failed call with this code.
func failed(t testing.TB, err error, code schemas.Code, sent bool) *fault.Call {
	t.Helper()
	var c *fault.Call
	require.ErrorAs(t, err, &c)
	require.Equal(t, code, c.Code, "cause: %v", c.Cause)
	require.Equal(t, sent, c.Sent, "cause: %v", c.Cause)
	require.Equal(t, string(code), c.Error(), "the text says nothing but the code")
	require.Error(t, c.Cause)
	return c
}

// moment is a limit that a test waits for in real time.
const moment = 60 * time.Millisecond

// permitAddr is where a Network leads that nobody dials through.
var permitAddr = netip.MustParseAddrPort("127.0.0.1:1")
