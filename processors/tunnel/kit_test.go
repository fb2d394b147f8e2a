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
func (k *kept) last(t testing.TB) (e schemas.Evidence, a schemas.TunnelAudit) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.NotEmpty(t, k.all)
	e = k.all[len(k.all)-1]
	require.NoError(t, json.Unmarshal(e.Payload, &a))
	return e, a
}

// bench is a node's tunnels to one target.
type bench struct {
	*tunnel.Tunnels
	kept      *kept
	authority string
	accepted  chan *net.TCPConn // by the target
}

func newBench(t testing.TB, cfg tunnel.Config) *bench {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	b := &bench{kept: &kept{}, authority: "localhost:" + port, accepted: make(chan *net.TCPConn, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.accepted <- c.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{
		{Name: "here", URLPrefix: "https://localhost:" + port + "/", Network: policy.NetworkLoopback, Connect: policy.ConnectTunnel},
	}})
	require.NoError(t, err)
	cfg.Barrier, cfg.Metrics = func(context.Context) error { return nil }, telemetry.NewMetrics()
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	b.Tunnels = tunnel.New(guard.New(func() *policy.Policy { return p }, nil), client, settle.NewRecorder(b.kept, b.kept, telemetry.NewMetrics()), cfg)
	return b
}

// carried is a tunnel with both of its ends.
type carried struct {
	client, target *net.TCPConn
	done           chan struct{} // closed when the tunnel has ended
}

// carry opens a tunnel and carries it. The client has sent early before.
func (b *bench) carry(t testing.TB, early string) *carried {
	t.Helper()
	x, err := b.Open(t.Context(), tunnel.Caller{Tenant: "t", Principal: "p"}, b.authority)
	require.NoError(t, err)
	c := &carried{target: <-b.accepted, done: make(chan struct{})}
	client, served := pair(t)
	c.client = client
	go func() {
		defer close(c.done)
		x.Carry(served, []byte(early))
		_ = served.Close()
	}()
	t.Cleanup(func() { _ = c.client.Close(); _ = c.target.Close(); <-c.done })
	return c
}

// pair are the two ends of a connection.
func pair(t testing.TB) (dialled, accepted *net.TCPConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", l.Addr().String())
	require.NoError(t, err)
	other, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); _ = other.Close() })
	return conn.(*net.TCPConn), other.(*net.TCPConn)
}

// ends waits for the end of the tunnel.
func (c *carried) ends(t testing.TB) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Fatal("the tunnel did not end")
	}
}

func write(t testing.TB, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	require.NoError(t, err)
}

func read(t testing.TB, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(from, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}
