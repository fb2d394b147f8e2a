package upstream_test

import (
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
