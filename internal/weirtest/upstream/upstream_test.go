package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *upstream.Server) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends text and reads until the end of the connection.
func ask(t *testing.T, s *upstream.Server, text string) (string, error) {
	t.Helper()
	conn := dial(t, s)
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func TestLedgerHasWhatTheWireHad(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	answer, err := ask(t, s, "POST /a%2Fb?x=1&&y HTTP/1.1\r\nhost: h\r\nX-Two: 1\r\nx-two:  2 \r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody")
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}", answer)
	require.Equal(t, 1, s.Hits())
	r := s.Ledger()[0]
	assert.Equal(t, []string{"POST", "/a%2Fb?x=1&&y", "HTTP/1.1", "body"}, []string{r.Method, r.Target, r.Proto, string(r.Body)})
	assert.Equal(t, []string{"1", "2"}, r.Values("X-TWO"))
	assert.Equal(t, "X-Two", r.Headers[1].Name)
	assert.Equal(t, "h", r.Header("Host"))
	assert.Empty(t, r.Header("Absent"))
	assert.False(t, r.Time.IsZero())
}

func TestHalfARequestIsNone(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	conn := dial(t, s)
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf")
	require.NoError(t, err)
	half, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
	s.WaitAccepted(1)
	s.WaitIdle()
	assert.Zero(t, s.Hits())
}

func TestChunkedRequest(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	_, err := ask(t, s, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
	require.NoError(t, err)
	assert.Equal(t, "abcde", string(s.Ledger()[0].Body))
}

func TestScriptsBySequenceAndPath(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.ResetBeforeResponse(), upstream.Respond(503, "later"), upstream.OK()).
		Handle("/own", upstream.Respond(404, ""), upstream.Respond(204, "never sent"))
	get := func(target string) (string, error) {
		return ask(t, s, "GET "+target+" HTTP/1.1\r\nConnection: close\r\n\r\n")
	}
	_, err := get("/a")
	require.Error(t, err)
	for _, c := range []struct{ target, want string }{
		{"/own?q", "404"}, {"/b", "503"}, {"/own", "204"}, {"/c", "200"}, {"/own", "204"}, {"/d", "200"},
	} {
		answer, err := get(c.target)
		require.NoError(t, err)
		assert.Equal(t, c.want, strings.Fields(answer)[1], c.target)
		assert.NotContains(t, answer, "never sent")
	}
	assert.Equal(t, 7, s.Hits())
	assert.Equal(t, 7, s.Accepted())
}

func TestEntryIsWrittenBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := upstream.New(t, upstream.Hold(release, upstream.OK()))
	conn := dial(t, s)
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	s.WaitHits(1)
	close(release)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 200, resp.StatusCode)
}

// TestStandardClientSendsTwice shows that the kit can provoke what Weir must
// not do: on a reused connection net/http silently repeats a POST with a key.
func TestStandardClientSendsTwice(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{"Idempotency-Key": 3, "X-Idempotency-Key": 3, "X-Nothing": 2} {
		s := upstream.New(t, upstream.CloseReused())
		transport := &http.Transport{}
		post := func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader("{}"))
			require.NoError(t, err)
			req.Header.Set(key, "k")
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			return err
		}
		require.NoError(t, post())
		err := post()
		assert.Equal(t, want == 3, err == nil, key)
		transport.CloseIdleConnections()
		s.WaitIdle()
		assert.Equal(t, want, s.Hits(), key)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority := upstream.NewAuthority(t)
	s := upstream.NewTLS(t, authority.Config("api.example.com", "127.0.0.1"))
	for _, name := range []string{"api.example.com", "127.0.0.1"} {
		d := tls.Dialer{Config: &tls.Config{RootCAs: authority.Pool(), ServerName: name}}
		conn, err := d.DialContext(t.Context(), "tcp", s.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err, "ends with a goodbye")
		assert.Contains(t, string(answer), "200 OK")
		require.NoError(t, conn.Close())
	}
	for _, cfg := range []*tls.Config{
		{RootCAs: authority.Pool(), ServerName: "other.example.com"},
		{ServerName: "api.example.com"},
	} {
		_, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", s.Addr().String())
		require.Error(t, err)
	}
	assert.Equal(t, 2, s.Hits())
}

func TestCloseEndsWhatHangs(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.AcceptHang(), upstream.Hang())
	first := dial(t, s)
	s.WaitAccepted(1)
	second := dial(t, s)
	_, err := io.WriteString(second, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	s.WaitHits(1)
	s.Close()
	s.Close()
	for _, c := range []net.Conn{first, second} {
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
	}
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
	require.Error(t, err)
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	s := upstream.New(t)
	n := upstream.NewNetwork(s.Addr(), map[string][][]string{
		"a.example.com":    {{"93.184.216.34"}, {"169.254.169.254"}},
		"gone.example.com": {{upstream.NXDomain}},
		"fail.example.com": {{upstream.ServFail}},
		"none.example.com": {{upstream.EmptyAnswer}},
		"here.example.com": {{upstream.CNAME + "localhost"}},
		"hang.example.com": {{upstream.DNSTimeout}},
		"localhost":        upstream.Answers("127.0.0.1", "::1"),
	})
	n.Refuse = []string{"93.184.216.99"}
	look := func(host string) []netip.Addr {
		addrs, err := n.LookupNetIP(t.Context(), "ip", host)
		require.NoError(t, err)
		return addrs
	}
	assert.Equal(t, []netip.Addr{netip.MustParseAddr("93.184.216.34")}, look("a.example.com."))
	for range 2 {
		assert.Equal(t, []netip.Addr{netip.MustParseAddr("169.254.169.254")}, look("a.example.com."))
	}
	assert.Empty(t, look("none.example.com"))
	assert.Len(t, look("here.example.com"), 2)
	for _, host := range []string{"gone.example.com", "fail.example.com", "unknown.example.com"} {
		_, err := n.LookupNetIP(t.Context(), "ip", host)
		require.Error(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := n.LookupNetIP(ctx, "ip", "hang.example.com")
	require.Error(t, err)

	conn, err := n.Dial(t.Context(), "tcp4", "93.184.216.34:443")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = n.Dial(t.Context(), "tcp4", "93.184.216.99:443")
	require.Error(t, err)
	assert.Equal(t, []string{"93.184.216.34", "93.184.216.99"}, n.Dialed())
	assert.Equal(t, []string{"a.example.com", "a.example.com"}, n.Lookups()[:2])
}
