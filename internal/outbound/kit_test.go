package outbound_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/policy"
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

// open opens a connection.
func open(ctx context.Context, tb testing.TB, c *outbound.Client, p *policy.Permit) *outbound.Conn {
	tb.Helper()
	conn, err := c.Open(ctx, p, "", outbound.Fresh)
	require.NoError(tb, err)
	return conn
}

// do makes the request of a connection, and reads its whole answer.
func do(ctx context.Context, conn *outbound.Conn, r outbound.Request) (*outbound.Response, error) {
	s, err := conn.Stream(ctx, r, outbound.StreamLimits{Whole: true, Keep: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answer := s.Response
	answer.Body, err = s.ReadAllBy(s, 0)
	return &answer, err
}

// call is Open and do of one request to a path of s.
func call(tb testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request) (*outbound.Response, error) {
	tb.Helper()
	return exchange(tb.Context(), tb, c, s, method, path, r)
}

func exchange(
	ctx context.Context, tb testing.TB, c *outbound.Client, s *upstream.Server, method, path string, r outbound.Request,
) (*outbound.Response, error) {
	tb.Helper()
	conn := open(ctx, tb, c, loopback(tb, method, s.URL()+path))
	defer conn.Close()
	return do(ctx, conn, r)
}

// failed asserts that err is a failed call with this code.
func failed(tb testing.TB, err error, code schemas.Code, sent bool) {
	tb.Helper()
	_ = failure(tb, err, code, sent)
}

// failure is the call that failed asserts. Whatever went wrong, no rendering of it shows an address, a port, a host, a
// certificate, or a word of the upstream's.
func failure(tb testing.TB, err error, code schemas.Code, sent bool) *fault.Call {
	tb.Helper()
	var c *fault.Call
	require.ErrorAs(tb, err, &c)
	require.Equal(tb, code, c.Code, "cause: %v", c.Cause)
	require.Equal(tb, sent, c.Sent, "cause: %v", c.Cause)
	require.Equal(tb, string(code), c.Error(), "the text says nothing but the code")
	require.Error(tb, c.Cause)
	for _, e := range []error{err, c.Cause, &fault.RetryAfter{Cause: c.Cause}} {
		require.Regexp(tb, harmless, e.Error())
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Error("x", "err", e)
		slog.New(slog.NewTextHandler(&out, nil)).Error("x", "err", e)
		for _, text := range []string{fmt.Sprintf("%+v", e), fmt.Sprintf("%s", e), strings.Trim(fmt.Sprintf("%q", e), `"`)} {
			require.Equal(tb, e.Error(), text)
		}
		require.Equal(tb, 2, strings.Count(out.String(), e.Error()), out.String())
	}
	return c
}

// harmless is a text of Weir's own words.
var harmless = regexp.MustCompile(`^[A-Za-z_ ,;:'-]+$`)

// moment is a limit that a test waits for in real time: long enough that what is to come
// before it has come.
const moment = 3 * time.Second

// permitAddr is where a Network leads that nobody dials through.
var permitAddr = netip.MustParseAddrPort("127.0.0.1:1")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var everyMethod = []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH"}

// decide permits one call under one entry.
func decide(tb testing.TB, e policy.Entry, method, target string) *policy.Permit {
	tb.Helper()
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
	require.NoError(tb, err)
	permit, ok := p.Decide(policy.Request{Key: e.Name, Method: method, URL: target}).Permit()
	require.True(tb, ok, "%+v", p.Decide(policy.Request{Key: e.Name, Method: method, URL: target}))
	return &permit
}

// origin is a URL up to its path.
func origin(target string) string {
	slashes := 0
	for i := range target {
		if target[i] == '/' {
			if slashes++; slashes == 3 {
				return target[:i]
			}
		}
	}
	return target
}

// loopback permits one call to a server of this test.
func loopback(tb testing.TB, method, target string) *policy.Permit {
	tb.Helper()
	return decide(tb, policy.Entry{Name: "local", URLPrefix: origin(target), Methods: everyMethod, Network: policy.NetworkLoopback}, method, target)
}

// public permits one call to a public host.
func public(tb testing.TB, method, target string) *policy.Permit {
	tb.Helper()
	return decide(tb, policy.Entry{Name: "api", URLPrefix: origin(target), Methods: everyMethod}, method, target)
}
