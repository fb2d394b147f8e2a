package broker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

const asked = schemas.AgentAPIRoot + ".*"

// service is a node, and a client beside it that asks.
func askable(t *testing.T) (*node, *nats.Conn) {
	t.Helper()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	nc := must(n.server.Connect())(t)
	t.Cleanup(nc.Close)
	return n, nc
}

func TestServeAnswers(t *testing.T) {
	t.Parallel()
	n, nc := askable(t)
	stop, err := n.Serve(asked, "q", func(_ context.Context, subject string, data []byte) []byte {
		switch string(data) {
		case "silence":
			return nil
		case "large":
			return make([]byte, n.nc.MaxPayload()+1)
		}
		return []byte(subject + " " + string(data))
	})
	require.NoError(t, err)
	defer stop()
	require.NoError(t, nc.Publish(schemas.AgentAPISubject("t"), []byte("to nobody")))
	m := must(nc.Request(schemas.AgentAPISubject("a.b"), []byte("hello"), 5*time.Second))(t)
	require.Equal(t, "weir.rpc.agent-api.a%2Eb hello", string(m.Data))
	_, err = nc.Request(schemas.AgentAPISubject("t"), []byte("silence"), 50*time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout)
	m = must(nc.Request(schemas.AgentAPISubject("t"), []byte("large"), 5*time.Second))(t)
	require.Equal(t, "413", m.Header.Get("Nats-Service-Error-Code"), "nobody waits in vain")
	require.Empty(t, m.Data)
	m = must(nc.Request(schemas.AgentAPISubject("t"), nil, 5*time.Second))(t)
	require.Equal(t, "weir.rpc.agent-api.t ", string(m.Data))
}

// TestServeIsBounded: one too many is told so while the others run, and there is room again when
// they have ended.
func TestServeIsBounded(t *testing.T) {
	t.Parallel()
	n, nc := askable(t)
	release, began := make(chan struct{}), make(chan struct{}, serveSlots)
	stop, err := n.Serve(asked, "q", func(ctx context.Context, _ string, data []byte) []byte {
		if ctx.Err() != nil {
			return []byte(context.Cause(ctx).Error())
		}
		began <- struct{}{}
		<-release
		return data
	})
	require.NoError(t, err)
	defer stop()
	answers := make(chan *nats.Msg, serveSlots)
	inbox := nc.NewInbox()
	must(nc.ChanSubscribe(inbox, answers))(t)
	for range serveSlots {
		require.NoError(t, nc.PublishRequest(schemas.AgentAPISubject("t"), inbox, []byte("slow")))
	}
	for range serveSlots {
		<-began
	}
	for range 3 {
		m := must(nc.Request(schemas.AgentAPISubject("t"), []byte("more"), 5*time.Second))(t)
		require.Equal(t, ErrBusy.Error(), string(m.Data))
	}
	close(release)
	for range serveSlots {
		require.Equal(t, "slow", string((<-answers).Data))
	}
	poll.Until(t, func() bool {
		m, err := nc.Request(schemas.AgentAPISubject("t"), []byte("again"), 5*time.Second)
		return err == nil && string(m.Data) == "again"
	})
}

// TestServeStops: what runs is answered, what comes is not taken.
func TestServeStops(t *testing.T) {
	t.Parallel()
	n, nc := askable(t)
	began, release := make(chan struct{}, serveSlots), make(chan struct{})
	stop, err := n.Serve(asked, "q", func(ctx context.Context, _ string, data []byte) []byte {
		began <- struct{}{}
		<-release
		if ctx.Err() != nil {
			return []byte("cut off")
		}
		return data
	})
	require.NoError(t, err)
	answered := make(chan string, 1)
	go func() {
		m, err := nc.Request(schemas.AgentAPISubject("t"), []byte("x"), 10*time.Second)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- string(m.Data)
	}()
	<-began
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	// Nobody listens any more, while the first still runs.
	poll.Until(t, func() bool {
		_, err := nc.Request(schemas.AgentAPISubject("t"), nil, 100*time.Millisecond)
		return err != nil && strings.Contains(err.Error(), nats.ErrNoResponders.Error())
	})
	select {
	case <-stopped:
		t.Fatal("it did not wait")
	default:
	}
	close(release)
	require.Equal(t, "x", <-answered)
	<-stopped
	stop()
}
