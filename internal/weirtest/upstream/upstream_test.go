package upstream_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEchoesTellTheSecret shows that each echo repeats what it is to repeat:
// what never came back could not have leaked.
func TestEchoesTellTheSecret(t *testing.T) {
	t.Parallel()
	const secret = "Bearer s3cret-value-0123456789"
	for name, tt := range map[string]struct {
		behaviour upstream.Behaviour
		tells     string
	}{
		"json":       {upstream.EchoJSON(500), `"Authorization":"` + secret + `"`},
		"form":       {upstream.EchoURLEncoded(200), "Bearer+s3cret-value-0123456789"},
		"every byte": {upstream.EchoURLEncoded(200), "%42%65%61%72%65%72"},
		"header":     {upstream.EchoInHeader(200), "X-Echo: " + secret},
		"cookie":     {upstream.EchoInHeader(200), "Set-Cookie: session=Bearer_s3cret"},
		"gzip":       {upstream.EchoGzip(200), "\x1f\x8b"},
		"chunks":     {upstream.EchoChunked(200, 7), "7\r\n"},
		"cut":        {upstream.EchoAt(200, 512, 12), strings.Repeat("A", 500) + secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstream.New(t, tt.behaviour)
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nAuthorization: "+secret+"\r\nConnection: close\r\n\r\n")
			require.NoError(t, err)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			assert.Contains(t, string(answer), tt.tells)
			assert.Equal(t, int64(len(answer)), s.Written())
		})
	}
}
