package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestLiveFollowsTheLog in its order, whoever writes.
func TestLiveFollowsTheLog(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	const writers, each = 8, 30
	got := make(chan schemas.Record, writers*each)
	stop := must(n.Live(schemas.LiveLog+".>", func(r schemas.Record) { got <- r }, func() { t.Error("lost") }))(t)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			var last uint64
			for i := range each {
				seq, err := n.Append(context.Background(), event(strconv.Itoa(w), strconv.Itoa(i), last))
				if err != nil {
					t.Error(err)
				}
				last = seq
			}
		})
	}
	all.Wait()
	stored := n.records(t, schemas.LogStream(0), "weir.log.>", 0, 2*writers*each)
	require.Len(t, stored, writers*each)
	for _, want := range stored {
		seen := <-got
		seen.Time = want.Time
		require.Equal(t, want, seen)
	}

	left := make(chan schemas.Record, 10)
	end := must(n.Live(schemas.LiveRoot+".evidence.t.>", func(r schemas.Record) { left <- r }, nil))(t)
	defer end()
	seq := n.put(t, schemas.Append{Subject: "weir.evidence.t.k.e.a", Data: []byte("x")})
	r := <-left
	require.Equal(t, []any{"weir.evidence.t.k.e.a", schemas.EvidenceStream, seq}, []any{r.Subject, r.Stream, r.Seq})

	stop()
	stop()
	n.put(t, claim("b", "x"))
	require.NoError(t, n.flush())
	require.Empty(t, got)
}

// TestLiveSaysWhatItLost: a feed buffers a bounded number of messages, and messages whose writer
// has given up are missing.
func TestLiveSaysWhatItLost(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	c := &call{request: &nats.Msg{Subject: layout.Subject(ref("a"), schemas.SectionAccepted)}}
	reply := &nats.Msg{Data: []byte(`{"stream":"S", "seq":1}`)}
	lost := make(chan struct{}, 100)
	begun, goOn := make(chan struct{}, livePendingMessages+2), make(chan struct{})
	stop := must(n.Live(schemas.LiveLog+".>", func(schemas.Record) { begun <- struct{}{}; <-goOn }, func() { lost <- struct{}{} }))(t)
	defer stop()
	n.acked(c, reply)
	<-begun
	for range livePendingMessages + 1 {
		n.acked(c, reply)
	}
	close(goOn)
	<-lost
	require.Len(t, begun, livePendingMessages)
	n.acked(nil, reply)
	<-lost
}

func TestLiveSaysItReconnected(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	lost := make(chan struct{}, 10)
	got := make(chan schemas.Record, 10)
	stop := must(n.Live(schemas.LiveLog+".>", func(r schemas.Record) { got <- r }, func() { lost <- struct{}{} }))(t)
	defer stop()
	require.NoError(t, n.nc.ForceReconnect())
	<-lost
	require.NoError(t, n.flush()) // it is said before the server has heard of it
	n.put(t, claim("a", "x"))
	require.Equal(t, "x", string((<-got).Data))
}

func TestNudges(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	got := make(chan string, 10)
	stop := must(n.Listen(schemas.CancelRoot+".>", func(subject string, data []byte) { got <- subject + " " + string(data) }))(t)
	require.NoError(t, n.Notify(schemas.CancelRoot+".t.a", []byte("now")))
	require.Equal(t, "weir.cancel.t.a now", <-got)
	stop()
	require.NoError(t, n.Notify(schemas.CancelRoot+".t.b", nil))
	require.NoError(t, n.flush())
	require.Empty(t, got)
	n.shut()
	require.ErrorIs(t, n.Notify("x", nil), fault.ErrUnavailable)
	_, err := n.Listen("x", nil)
	require.Error(t, err)
	_, err = n.Live("x", nil, nil)
	require.Error(t, err)
}

func TestBarrier(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	require.Equal(t, schemas.DurabilityDisk, n.Durability())
	n.put(t, claim("a", "x"))
	require.NoError(t, n.Barrier(t.Context()))
	require.Equal(t, 1, n.metrics.get(&n.metrics.barriers))

	broken := errors.New("broken disk")
	n = open(t, embedded.Config{Sync: func() error { return broken }}, Config{})
	require.NoError(t, n.Ready(t.Context()))
	require.ErrorIs(t, n.Barrier(t.Context()), broken)
	require.ErrorIs(t, n.Ready(t.Context()), fault.ErrUnavailable)
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	for says, cfg := range map[string]Config{
		"not both":                       {Layout: layout},
		"the url of a cluster, not both": {Layout: layout, Server: n.server, URL: "nats://127.0.0.1:1"},
		"the broker cannot be reached":   {URL: "nats://127.0.0.1:1", Layout: layout},
	} {
		_, err := Open(t.Context(), cfg)
		require.ErrorContains(t, err, says)
	}
	// A log on a server says itself how it is cut.
	b := &Broker{cfg: Config{Layout: schemas.Layout{Partitions: 3}}, js: n.js}
	require.ErrorContains(t, b.checkLayout(t.Context()), `has "1" partitions and 3 are configured`)
	// And what wrote it. The first generation did not.
	for version, says := range map[string]string{"": "has version 1, and this Weir reads version 3: use another data directory", "4": "has version 4, and"} {
		s := must(n.js.Stream(t.Context(), schemas.LogStream(0)))(t)
		written := s.CachedInfo().Config
		if delete(written.Metadata, metaVersion); version != "" {
			written.Metadata[metaVersion] = version
		}
		must(n.js.UpdateStream(t.Context(), written))(t)
		_, err := Open(t.Context(), Config{Server: n.server, Layout: layout})
		require.ErrorContains(t, err, says)
	}
}

// TestARestartKeeps records, wake-ups that are due and those that were missed, keys and buckets,
// whatever else is configured now; and a log may be opened twice.
func TestARestartKeeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := open(t, embedded.Config{Dir: dir}, Config{})
	n.put(t, claim("a", "x"))
	n.second(t).Close(t.Context())
	key := must(n.SealKey(t.Context()))(t)
	must(n.Bucket(schemas.TokenBucket).Put(t.Context(), "a", []byte("1"), 0))(t)
	require.NoError(t, n.Wake(t.Context(), ref("missed"), time.Now()))
	require.NoError(t, n.Wake(t.Context(), ref("due"), time.Now().Add(2*time.Second)))
	n.shut()
	require.NoError(t, n.server.Stop())

	n = open(t, embedded.Config{Dir: dir}, Config{History: time.Hour, AckWait: time.Second})
	_, err := n.Append(t.Context(), claim("a", "y"))
	require.ErrorIs(t, err, fault.ErrFenced)
	after := must(n.SealKey(t.Context()))(t)
	require.Equal(t, key, after)
	require.Len(t, contents(t, n.Bucket(schemas.TokenBucket), 0), 1)
	out := n.wakes(t)
	for missing := map[string]bool{"missed": true, "due": true}; len(missing) > 0; { // in any order
		m := next(t, out)
		rec, _ := RecordOf(m)
		m.Ack()
		woken, _, err := schemas.ParseSubject(rec.Subject)
		require.NoError(t, err)
		delete(missing, woken.ID)
	}
}

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
		if string(data) == "large" {
			return make([]byte, n.nc.MaxPayload()+1)
		}
		return []byte(subject + " " + string(data))
	})
	require.NoError(t, err)
	defer stop()
	require.NoError(t, nc.Publish(schemas.AgentAPISubject("t"), []byte("to nobody")))
	m := must(nc.Request(schemas.AgentAPISubject("a.b"), []byte("hello"), 5*time.Second))(t)
	require.Equal(t, "weir.rpc.agent-api.a%2Eb hello", string(m.Data))
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
