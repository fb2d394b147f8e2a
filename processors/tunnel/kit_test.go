package tunnel_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/processors/tunnel"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept are the records that were published.
type kept struct {
	mu  sync.Mutex
	all []schemas.Evidence
	err error
}

func (k *kept) Publish(_ string, messages ...*message.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		var e schemas.Evidence
		if err := json.Unmarshal(m.Payload, &e); err != nil {
			return err
		}
		k.all = append(k.all, e)
	}
	return k.err
}

func (k *kept) Close() error { return nil }

func (k *kept) Range(context.Context, string, string, uint64, int) ([]schemas.Record, error) {
	return nil, nil
}

// last is the newest record and its payload.
func (k *kept) last(tb testing.TB) (e schemas.Evidence, a schemas.TunnelAudit) {
	tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.NotEmpty(tb, k.all)
	e = k.all[len(k.all)-1]
	require.NoError(tb, json.Unmarshal(e.Payload, &a))
	return e, a
}

// bench is a node's tunnels to one target.
type bench struct {
	*tunnel.Tunnels
	kept      *kept
	authority string
	accepted  chan *net.TCPConn // by the target
}

func newBench(tb testing.TB, cfg tunnel.Config, rules ...guard.Rules) *bench {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(tb, err)
	b := &bench{kept: &kept{}, authority: "localhost:" + port, accepted: make(chan *net.TCPConn, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				b.accepted <- tcp
			}
		}
	}()
	tb.Cleanup(func() { _ = l.Close(); <-done })
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{
		{Name: "here", URLPrefix: "https://localhost:" + port + "/", Network: policy.NetworkLoopback, Connect: policy.ConnectTunnel},
	}})
	require.NoError(tb, err)
	cfg.Barrier, cfg.Metrics = func(context.Context) error { return nil }, telemetry.NewMetrics()
	client := outbound.New(outbound.Config{})
	tb.Cleanup(client.Close)
	b.Tunnels = tunnel.New(guard.New(func() *policy.Policy { return p }, append(rules, nil)[0]), client, settle.NewRecorder(b.kept, b.kept, telemetry.NewMetrics()), cfg)
	return b
}

// carried is a tunnel with both of its ends.
type carried struct {
	client, target *net.TCPConn
	done           chan struct{} // closed when the tunnel has ended
}

// carry opens a tunnel and carries it. The client has sent early before.
func (b *bench) carry(tb testing.TB, early string) *carried {
	tb.Helper()
	x, err := b.Open(tb.Context(), tunnel.Caller{Tenant: "t", Principal: "p"}, b.authority)
	require.NoError(tb, err)
	c := &carried{target: <-b.accepted, done: make(chan struct{})}
	client, served := pair(tb)
	c.client = client
	go func() {
		defer close(c.done)
		x.Carry(served, []byte(early))
		_ = served.Close()
	}()
	tb.Cleanup(func() { _ = c.client.Close(); _ = c.target.Close(); <-c.done })
	return c
}

// pair are the two ends of a connection.
func pair(tb testing.TB) (dialled, accepted *net.TCPConn) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp4", l.Addr().String())
	require.NoError(tb, err)
	other, err := l.Accept()
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(); _ = other.Close() })
	dialled, one := conn.(*net.TCPConn)
	accepted, two := other.(*net.TCPConn)
	require.True(tb, one && two)
	return dialled, accepted
}

// ends waits for the end of the tunnel.
func (c *carried) ends(tb testing.TB) {
	tb.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		tb.Fatal("the tunnel did not end")
	}
}

func write(tb testing.TB, to io.Writer, text string) {
	tb.Helper()
	_, err := io.WriteString(to, text)
	require.NoError(tb, err)
}

func read(tb testing.TB, from io.Reader, want string) {
	tb.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(from, got)
	require.NoError(tb, err)
	require.Equal(tb, want, string(got))
}
