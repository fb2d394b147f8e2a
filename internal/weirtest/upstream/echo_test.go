package upstream_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/upstream"
)

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
			answer, err := ask(t, s, "GET / HTTP/1.1\r\nAuthorization: "+secret+"\r\nConnection: close\r\n\r\n")
			require.NoError(t, err)
			assert.Contains(t, answer, tt.tells)
			assert.Equal(t, int64(len(answer)), s.Written())
		})
	}
}

// TestHTTP2Floods end when nobody takes them, and not before.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	for _, b := range []upstream.Behaviour{
		upstream.H2ContinuationFlood(), upstream.H2PingFlood(), upstream.H2SettingsFlood(), upstream.H2RapidReset(),
	} {
		s := upstream.New(t, b)
		conn := dial(t, s)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, err)
		head := make([]byte, 1<<20)
		_, err = io.ReadFull(conn, head)
		require.NoError(t, err)
		assert.Equal(t, "\x00\x00\x00\x04\x00\x00\x00\x00\x00", string(head[:9]), "an empty frame of settings")
		require.NoError(t, conn.Close())
		s.WaitIdle()
		assert.Equal(t, 1, s.Hits())
	}
	for _, b := range []upstream.Behaviour{upstream.H2HpackBomb(), upstream.H2RefusedStream(), upstream.H2GoAway()} {
		answer, err := ask(t, upstream.New(t, b), "GET / HTTP/1.1\r\n\r\n")
		require.NoError(t, err)
		assert.Greater(t, len(answer), 18, base64.StdEncoding.EncodeToString([]byte(answer)))
	}
}

// TestHalfClose ends one direction and reads on.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	s := upstream.New(t, upstream.HalfClose())
	conn := dial(t, s)
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Empty(t, answer)
	_, err = io.WriteString(conn, "more")
	require.NoError(t, err, "the other direction is open")
}

func TestNetworkSwallowsAndFollowsAliases(t *testing.T) {
	t.Parallel()
	n := upstream.NewNetwork(upstream.New(t).Addr(), map[string][][]string{
		"a.example.com":    {{upstream.CNAME + "b.example.com"}},
		"b.example.com":    {{upstream.CNAME + "c.example.com"}},
		"c.example.com":    upstream.Answers("10.0.0.1"),
		"loop.example.com": {{upstream.CNAME + "loop.example.com"}},
	})
	addrs, err := n.LookupNetIP(t.Context(), "ip", "a.example.com.")
	require.NoError(t, err)
	require.Len(t, addrs, 1)
	assert.Equal(t, "10.0.0.1", addrs[0].String())
	assert.Equal(t, []string{"a.example.com"}, n.Lookups(), "aliases are the resolver's own affair")
	_, err = n.LookupNetIP(t.Context(), "ip", "loop.example.com.")
	require.Error(t, err)

	n.Swallow = []string{"10.0.0.1"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = n.Dial(ctx, "tcp4", net.JoinHostPort("10.0.0.1", "443"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
