package outbound_test

import (
	"context"
	"net/netip"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// client has limits that tests can wait for.
func client(tb testing.TB, cfg outbound.Config) *outbound.Client {
	tb.Helper()
	c := outbound.New(cfg)
	tb.Cleanup(c.Close)
	return c
}

// names is a resolver and a wire that leads every public address to s.
func names(s *upstream.Server, answers map[string][][]string) (*upstream.Network, outbound.Config) {
	n := upstream.NewNetwork(s.Addr(), answers)
	return n, outbound.Config{Resolver: n, Dial: n.Dial}
}

// call is Open and Do of one request to a path of s.
func call(tb testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request) (*outbound.Response, error) {
	tb.Helper()
	return exchange(tb.Context(), tb, c, s, method, path, r)
}

func exchange(
	ctx context.Context, tb testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request,
) (*outbound.Response, error) {
	tb.Helper()
	conn, err := c.Open(ctx, loopback(tb, method, s.URL()+path))
	require.NoError(tb, err)
	defer conn.Close()
	return conn.Do(ctx, r)
}

// failed asserts that err is a failed call with this code.
func failed(tb testing.TB, err error, code schemas.Code, sent bool) {
	tb.Helper()
	_ = failure(tb, err, code, sent)
}

// failure is the call that failed asserts.
func failure(tb testing.TB, err error, code schemas.Code, sent bool) *fault.Call {
	tb.Helper()
	var c *fault.Call
	require.ErrorAs(tb, err, &c)
	require.Equal(tb, code, c.Code, "cause: %v", c.Cause)
	require.Equal(tb, sent, c.Sent, "cause: %v", c.Cause)
	require.Equal(tb, string(code), c.Error(), "the text says nothing but the code")
	require.Error(tb, c.Cause)
	require.Regexp(tb, harmless, c.Cause.Error(), "nor does the cause's: no address, no host, nothing that was said")
	return c
}

// harmless is a text of Weir's own words.
var harmless = regexp.MustCompile(`^[A-Za-z_ ,;:'-]+$`)

// moment is a limit that a test waits for in real time: long enough that what is to come
// before it has come.
const moment = 3 * time.Second

// permitAddr is where a Network leads that nobody dials through.
var permitAddr = netip.MustParseAddrPort("127.0.0.1:1")
