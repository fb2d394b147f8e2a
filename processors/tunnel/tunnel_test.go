package tunnel_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/traffic"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/tunnel"
	"weir/schemas"
)

// TestNothingIsLost of what goes in both directions at once, and all of it is counted.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	b := newBench(t, tunnel.Config{})
	c := b.carry(t, "")
	send := func(to *net.TCPConn, data []byte) {
		_, err := to.Write(data)
		if err = errors.Join(err, to.CloseWrite()); err != nil {
			t.Error(err)
		}
	}
	up, down := make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(up)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(down)
	go send(c.client, up)
	go send(c.target, down)
	heard := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(c.target)
		heard <- got
	}()
	got, err := io.ReadAll(c.client)
	require.NoError(t, err)
	require.True(t, bytes.Equal(down, got) && bytes.Equal(up, <-heard))
	c.ends(t)
	_, a := b.last(t)
	require.Equal(t, []any{schemas.TunnelClosed, int64(size), int64(size)}, []any{a.End, a.BytesUp, a.BytesDown})
}

// TestHalfClose: after the end of one side, the other may go on for as long as it sends.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	b := newBench(t, tunnel.Config{})
	c := b.carry(t, "SSH-2.0-x")
	read(t, c.target, "SSH-2.0-x")
	require.NoError(t, c.client.CloseWrite())
	rest, err := io.ReadAll(c.target)
	require.NoError(t, err)
	require.Empty(t, rest)
	write(t, c.target, "answer")
	read(t, c.client, "answer")
	require.NoError(t, c.target.Close())
	c.ends(t)
	_, a := b.last(t)
	require.Equal(t, schemas.TunnelClosed, a.End)
}

// TestEndsByTime lists the ways in which a clock ends a tunnel.
func TestEndsByTime(t *testing.T) {
	t.Parallel()
	flood := func(to, from *net.TCPConn) {
		defer from.Close() // neither reads
		_, _ = io.Copy(to, rand.NewChaCha8([32]byte{}))
	}
	table.Run(t, map[string]struct {
		cfg  tunnel.Config
		do   func(t *testing.T, c *carried)
		want schemas.TunnelEnd
	}{
		"silent from the first": {tunnel.Config{Idle: 50 * time.Millisecond}, func(*testing.T, *carried) {}, schemas.TunnelIdle},
		"silent later": {tunnel.Config{Idle: 50 * time.Millisecond}, func(t *testing.T, c *carried) {
			t.Helper()
			write(t, c.client, "hello")
			read(t, c.target, "hello")
		}, schemas.TunnelIdle},
		"a client that never reads": {tunnel.Config{Idle: 100 * time.Millisecond}, func(_ *testing.T, c *carried) { go flood(c.target, c.target) }, schemas.TunnelIdle},
		"a target that never reads": {tunnel.Config{Idle: 100 * time.Millisecond}, func(_ *testing.T, c *carried) { go flood(c.client, c.client) }, schemas.TunnelIdle},
		"half of a ClientHello": {tunnel.Config{Idle: 50 * time.Millisecond}, func(t *testing.T, c *carried) {
			t.Helper()
			write(t, c.client, "\x16\x03\x01\x02")
		}, schemas.TunnelIdle},
		"too long": {tunnel.Config{Longest: 50 * time.Millisecond}, func(*testing.T, *carried) {}, schemas.TunnelTooLong},
	}, func(t *testing.T, tc struct {
		cfg  tunnel.Config
		do   func(t *testing.T, c *carried)
		want schemas.TunnelEnd
	},
	) {
		b := newBench(t, tc.cfg)
		c := b.carry(t, "")
		tc.do(t, c)
		c.ends(t)
		_, a := b.last(t)
		require.Equal(t, tc.want, a.End)
	})
}

// TestOneSideKeepsATunnelOpen, however silent the other is.
func TestOneSideKeepsATunnelOpen(t *testing.T) {
	t.Parallel()
	const idle = 2 * time.Second
	b := newBench(t, tunnel.Config{Idle: idle})
	c := b.carry(t, "")
	tick := time.NewTicker(idle / 8)
	defer tick.Stop()
	for range 12 {
		<-tick.C
		write(t, c.target, "x")
		read(t, c.client, "x")
	}
	c.ends(t)
	_, a := b.last(t)
	require.Equal(t, []any{schemas.TunnelIdle, int64(12)}, []any{a.End, a.BytesDown})
}

// hello is the ClientHello for a name.
func hello(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}).Handshake()
	}()
	buf := make([]byte, 16<<10)
	n, err := server.Read(buf)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	<-done
	return buf[:n]
}

// TestServerNames: a ClientHello goes on as it came if it names the tunnel's host or none, in whatever
// pieces it comes; for any other the target gets nothing.
func TestServerNames(t *testing.T) {
	t.Parallel()
	right, other, none := hello(t, "LOCALHOST"), hello(t, "victim.example"), hello(t, "")
	longer := append(append([]byte{}, right...), "and more"...)
	// The handshake message in two records.
	cut := append(append([]byte{}, right[:3]...), 0, 10)
	cut = append(append(cut, right[5:15]...), right[:3]...)
	cut = append(cut, byte((len(right)-15)>>8), byte(len(right)-15))
	cut = append(cut, right[15:]...)
	table.Run(t, map[string]struct {
		early, sent []byte
		refused     bool
	}{
		"sent":             {nil, right, false},
		"early":            {right, nil, false},
		"in two":           {right[:1], right[1:], false},
		"in two records":   {nil, cut, false},
		"with more":        {nil, longer, false},
		"without a name":   {nil, none, false},
		"no TLS":           {nil, []byte("GET / HTTP/1.1\r\n"), false},
		"another":          {nil, other, true},
		"another, early":   {other, nil, true},
		"another in two":   {other[:20], other[20:], true},
		"no ClientHello":   {nil, []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), true},
		"an alert before":  {nil, append([]byte{0x15, 3, 1, 0, 2, 1, 90}, other...), true},
		"a ping before":    {[]byte{0x18}, nil, false}, // no TLS library reads a hello after it
		"of SSL 2.0":       {nil, []byte("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"), true},
		"a high byte":      {[]byte("\x80\x2e\x02"), []byte("more"), false},
		"not TLS after it": {nil, []byte("\x16\xff\xff\xff\xff\xff\xff\xff"), true},
	}, func(t *testing.T, tc struct {
		early, sent []byte
		refused     bool
	},
	) {
		b := newBench(t, tunnel.Config{})
		c := b.carry(t, string(tc.early))
		for _, one := range tc.sent {
			if _, err := c.client.Write([]byte{one}); err != nil {
				break // it was cut already
			}
		}
		if !tc.refused {
			read(t, c.target, string(tc.early)+string(tc.sent))
			return
		}
		c.ends(t)
		got, _ := io.ReadAll(c.target)
		require.Empty(t, got)
		e, a := b.last(t)
		require.Equal(t, []any{schemas.TunnelName, schemas.DenyHost}, []any{a.End, e.Code})
	})
}

// lateRule is a set of rules that changes after it was read once.
type lateRule struct {
	rulebook.Book
	put func(*rulebook.Book)
}

func (l *lateRule) InForce(tenant string) (*traffic.Set, <-chan struct{}, error) {
	set, changed, err := l.Book.InForce(tenant)
	if l.put != nil {
		l.put(&l.Book)
		l.put = nil
	}
	return set, changed, err
}

// TestARuleDuringTheDial refuses the tunnel, as one before it does.
func TestARuleDuringTheDial(t *testing.T) {
	t.Parallel()
	b := newBench(t, tunnel.Config{}, &lateRule{put: func(b *rulebook.Book) { b.Put(t, rulebook.Mock("m", "*", 200, "")) }})
	_, err := b.Open(t.Context(), tunnel.Caller{Tenant: "t", Principal: "p"}, b.authority)
	public, ok := errors.AsType[*problem.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, schemas.DenyRule, public.Code)
	require.NoError(t, (<-b.accepted).Close())
	e, a := b.last(t)
	require.Equal(t, []any{schemas.DenyRule, schemas.TunnelRefused}, []any{e.Code, a.State})
}

// TestNoTunnelWithoutARecord: if the record of a tunnel cannot be stored, it does not open.
func TestNoTunnelWithoutARecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, tunnel.Config{})
	b.err = errors.New("private")
	for _, authority := range []string{b.authority, "other.example:443"} {
		_, err := b.Open(t.Context(), tunnel.Caller{}, authority)
		public, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, schemas.Unavailable, public.Code)
	}
	target := <-b.accepted
	_, err := target.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, target.Close())
	require.NoError(t, b.Stop(t.Context()))
}

// TestStop cuts what is open, and nothing opens after it.
func TestStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, tunnel.Config{})
	c := b.carry(t, "")
	require.NoError(t, b.Stop(t.Context()))
	c.ends(t)
	_, a := b.last(t)
	require.Equal(t, schemas.TunnelStopped, a.End)
	_, err := b.Open(t.Context(), tunnel.Caller{}, b.authority)
	require.ErrorContains(t, err, "this node is stopping")
}
