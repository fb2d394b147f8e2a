package upstream_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

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
