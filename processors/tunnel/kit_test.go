package tunnel_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/telemetry"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/processors/guard"
	"weir/processors/tunnel"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a node's tunnels to one target.
type bench struct {
	*tunnel.Tunnels
	log       *memlog.Log
	err       error // of every record
	authority string
	accepted  chan *net.TCPConn // by the target
}

func newBench(t *testing.T, cfg tunnel.Config, rules ...guard.Rules) *bench {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	b := &bench{authority: "localhost:" + port, accepted: make(chan *net.TCPConn, 16)}
	b.log = memlog.New(harness.Layout(), time.Now, memlog.Hooks{Before: func(schemas.Append) error { return b.err }})
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
	t.Cleanup(func() { _ = l.Close(); <-done })
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{
		{Name: "here", URLPrefix: "https://localhost:" + port + "/", Network: policy.NetworkLoopback, Connect: policy.ConnectTunnel},
	}})
	require.NoError(t, err)
	cfg.Barrier, cfg.Metrics = harness.NoBarrier, telemetry.NewMetrics()
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	b.Tunnels = tunnel.New(guard.New(func() *policy.Policy { return p }, append(rules, nil)[0]), client, harness.Recorder(b.log), cfg)
	return b
}

// last is the newest record and its payload.
func (b *bench) last(t *testing.T) (schemas.Evidence, schemas.TunnelAudit) {
	t.Helper()
	all := harness.Evidence(t, b.log, "")
	require.NotEmpty(t, all)
	e := all[len(all)-1]
	return e, fixture.Decode[schemas.TunnelAudit](t, e.Payload)
}

// carried is a tunnel with both of its ends.
type carried struct {
	client, target *net.TCPConn
	done           chan struct{} // closed when the tunnel has ended
}

// carry opens a tunnel and carries it. The client has sent early before.
func (b *bench) carry(t *testing.T, early string) *carried {
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
func pair(t *testing.T) (dialled, accepted *net.TCPConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", l.Addr().String())
	require.NoError(t, err)
	other, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(); _ = other.Close() })
	dialled, one := conn.(*net.TCPConn)
	accepted, two := other.(*net.TCPConn)
	require.True(t, one && two)
	return dialled, accepted
}

// ends waits for the end of the tunnel.
func (c *carried) ends(t *testing.T) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Fatal("the tunnel did not end")
	}
}

func write(t *testing.T, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	require.NoError(t, err)
}

func read(t *testing.T, from io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_, err := io.ReadFull(from, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}
