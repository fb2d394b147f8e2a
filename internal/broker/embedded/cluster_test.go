package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"weir/internal/broker"
	"weir/internal/fault"
	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// External servers are started here because only this folder may know the server's package; what is
// tested is the broker on them.

var layout = schemas.Layout{Partitions: 2}

func serve(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.NoLog = "127.0.0.1", true, true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s := must(server.NewServer(o))(t)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(60*time.Second))
	return s
}

// routes are where as many nodes reach each other.
func routes(t *testing.T, n int) []*url.URL {
	t.Helper()
	free := must(cluster.FreePorts(t.Context(), n))(t)
	all := make([]*url.URL, 0, n)
	for _, at := range free {
		all = append(all, &url.URL{Scheme: "nats", Host: at})
	}
	return all
}

func portOf(t *testing.T, u *url.URL) int {
	t.Helper()
	n := must(strconv.Atoi(u.Port()))(t)
	return n
}

func dial(t *testing.T, at string, replicas int) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{
		URL: at, Layout: layout, Replicas: replicas, AttemptTimeout: 20 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func claim(id string) (schemas.Append, string) {
	r := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: id}
	return schemas.Append{
		Subject: layout.Subject(r, schemas.SectionAccepted), Data: []byte(id),
		Guarded: true, Guard: layout.AnyKind("t", id),
	}, schemas.LogStream(layout.Partition("t", id))
}

func TestExternalServer(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), routes(t, 1)[0]
	s := serve(t, &server.Options{StoreDir: dir, Port: portOf(t, at)})
	b := dial(t, at.String(), 1)
	require.Equal(t, schemas.DurabilityProcess, b.Durability(), "one copy is no replica")
	require.NoError(t, b.Barrier(t.Context()))
	require.NoError(t, b.Ready(t.Context()))
	lost := make(chan struct{}, 10)
	got := make(chan schemas.Record, 10)
	stop := must(b.Live(schemas.LiveLog+".>", func(r schemas.Record) { got <- r }, func() { lost <- struct{}{} }))(t)
	defer stop()
	k := b.Bucket(schemas.TokenBucket)
	heard, unheard := make(chan schemas.Record, 10), make(chan struct{}, 10)
	unwatch := must(k.Watch(func(r schemas.Record) { heard <- r }, func() { unheard <- struct{}{} }))(t)
	defer unwatch()
	rev := must(k.Put(t.Context(), "a", []byte("1"), 0))(t)
	require.Equal(t, rev, (<-heard).Seq)
	m, stream := claim("a")
	seq := must(b.Append(t.Context(), m))(t)
	require.Equal(t, seq, (<-got).Seq)

	sub := broker.NewSubscriber(b, broker.SubscriberConfig{})
	defer func() { require.NoError(t, sub.Close()) }()
	topics := broker.Topics(layout.Partition("t", "a"))
	out := must(sub.Subscribe(t.Context(), topics[0]))(t)
	wakes := must(sub.Subscribe(t.Context(), topics[1]))(t)
	(<-out).Ack()

	// The server goes away and comes back at its address.
	s.Shutdown()
	s.WaitForShutdown()
	_, err := b.Append(t.Context(), m)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = k.Read(t.Context(), 0, nil)
	require.ErrorIs(t, err, fault.ErrUnavailable, "not an empty store")
	serve(t, &server.Options{StoreDir: dir, Port: portOf(t, at)})
	<-lost
	poll.Until(t, func() bool {
		_, err := b.Append(t.Context(), m)
		return errors.Is(err, fault.ErrFenced) // its record is still there
	})
	last := must(b.Last(t.Context(), stream, m.Guard))(t)
	require.Equal(t, seq, last.Seq)

	// The subscriptions go on where they were, and watches say that they have lost their place.
	<-unheard
	_, err = k.Read(t.Context(), 0, func(schemas.Record) {}) // behind what it listens to
	require.NoError(t, err)
	next := must(k.Put(t.Context(), "a", []byte("2"), rev))(t)
	require.Equal(t, next, (<-heard).Seq)
	r := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	require.NoError(t, b.Wake(t.Context(), r, time.Now()))
	msg := <-wakes
	rec, _ := broker.RecordOf(msg)
	require.Equal(t, layout.Subject(r, schemas.SectionWake), rec.Subject)
	msg.Ack()

	// A log that is there is not cut another way.
	_, err = broker.Open(t.Context(), broker.Config{URL: at.String(), Layout: schemas.Layout{Partitions: 3}, Replicas: 1})
	require.ErrorContains(t, err, `has "2" partitions and 3 are configured`)
}

// TestCopiesOfAServerThatIsAlone are refused at once, and no waiting helps: whoever asks is told
// what to do.
func TestCopiesOfAServerThatIsAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, &server.Options{StoreDir: t.TempDir()})
	_, err := broker.Open(t.Context(), broker.Config{URL: s.ClientURL(), Layout: layout})
	require.ErrorContains(t, err, "set log.replicas to 1")
	require.NotErrorIs(t, err, fault.ErrUnavailable)
	_, err = broker.Provision(t.Context(), broker.Config{URL: s.ClientURL(), Layout: layout}, nil)
	require.ErrorContains(t, err, "`weir nats init`")

	var told strings.Builder
	b := must(broker.Open(t.Context(), broker.Config{URL: s.ClientURL(), Layout: layout, Replicas: 1, Logger: slog.New(slog.NewTextHandler(&told, nil))}))(t)
	b.Close(context.Background())
	require.Contains(t, told.String(), `msg=log_unreplicated`)
}

// three starts three servers that have found each other.
func three(t *testing.T) []*server.Server {
	t.Helper()
	all := routes(t, 3)
	nodes := make([]*server.Server, len(all))
	for i, u := range all {
		nodes[i] = serve(t, &server.Options{
			ServerName: fmt.Sprint("n", i), StoreDir: t.TempDir(), Routes: all,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: portOf(t, u)},
		})
	}
	poll.Until(t, func() bool {
		return slices.ContainsFunc(nodes, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(nodes)
		})
	})
	return nodes
}

// TestReplicated runs on one cluster what a cluster does differently from a server alone.
func TestReplicated(t *testing.T) {
	t.Parallel()
	nodes := three(t)
	for name, test := range map[string]func(*testing.T, []*server.Server){"log": replicatedLog, "key": replicatedKey, "tokens": replicatedTokens} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, nodes)
		})
	}
}

// replicatedLog: on a cluster a guard is checked before the record is agreed on: the refusals
// differ, and what they promise must not.
func replicatedLog(t *testing.T, nodes []*server.Server) {
	t.Helper()
	brokers := []*broker.Broker{dial(t, nodes[0].ClientURL(), 3), dial(t, nodes[1].ClientURL(), 3)}

	for round := range 20 {
		id := strconv.Itoa(round)
		m, stream := claim(id)
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				seq, err := brokers[i%2].Append(context.Background(), m)
				switch {
				case err == nil && !won.CompareAndSwap(0, int64(seq)):
					t.Errorf("%s was claimed twice", id)
				case err != nil && !errors.Is(err, fault.ErrFenced):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, b := range brokers { // the leader is not
			first := must(b.Next(t.Context(), stream, m.Guard, 0))(t)
			require.EqualValues(t, won.Load(), first.Seq)
			_, err := b.Next(t.Context(), stream, m.Guard, first.Seq+1)
			require.ErrorIs(t, err, fault.ErrNotFound)
		}
		poll.Until(t, func() bool { // a replica may be behind
			all, _, err := brokers[0].Page(t.Context(), stream, m.Guard, 0, 10, 1<<20)
			return err == nil && len(all) == 1 && int64(all[0].Seq) == won.Load()
		})
	}
}

// replicatedTokens: what one node has stored is what another reads next, whichever replica each is
// connected to.
func replicatedTokens(t *testing.T, nodes []*server.Server) {
	t.Helper()
	here, there := dial(t, nodes[0].ClientURL(), 3).Bucket(schemas.TokenBucket), dial(t, nodes[1].ClientURL(), 3).Bucket(schemas.TokenBucket)
	var last uint64
	for i := range 20 {
		key := "k" + strconv.Itoa(i%5)
		var before uint64
		must(there.Read(t.Context(), 0, func(r schemas.Record) {
			if r.Subject == key {
				before = r.Seq
			}
		}))(t)
		rev, err := here.Put(t.Context(), key, []byte(strconv.Itoa(i)), before)
		require.NoError(t, err, "what was read is the newest")
		got := must(there.Get(t.Context(), key))(t)
		require.Equal(t, rev, got.Seq)
		last = must(there.Read(t.Context(), last, func(r schemas.Record) {
			require.Equal(t, []any{rev, strconv.Itoa(i)}, []any{r.Seq, string(r.Data)})
		}))(t)
		require.Equal(t, rev, last)
	}
}

// replicatedKey: nodes that start at once, each on a replica of its own, have one key.
func replicatedKey(t *testing.T, nodes []*server.Server) {
	t.Helper()
	keys, errs := make([]string, len(nodes)), make([]error, len(nodes))
	brokers := make([]*broker.Broker, len(nodes))
	for i, s := range nodes {
		brokers[i] = dial(t, s.ClientURL(), 3)
	}
	var all sync.WaitGroup
	for i, b := range brokers {
		all.Go(func() {
			key, err := b.SealKey(t.Context())
			keys[i], errs[i] = string(key), err
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, keys[0], broker.SealKeyLen)
	for _, key := range keys {
		require.Equal(t, keys[0], key)
	}
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
