package broker

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = schemas.Layout{Partitions: 1}

// node is an embedded server and a broker on it, as one process has them.
type node struct {
	*Broker
	server  *embedded.Server
	metrics *counts
}

// open starts a node that the test's end stops.
func open(t *testing.T, sc embedded.Config, bc Config) *node {
	t.Helper()
	if sc.Dir == "" {
		sc.Dir = t.TempDir()
	}
	sc.Layout = layout
	server := must(embedded.Start(sc))(t)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	n := &node{server: server, metrics: &counts{}}
	bc.Server, bc.Layout, bc.Metrics = server, layout, n.metrics
	if bc.AttemptTimeout == 0 {
		bc.AttemptTimeout = 5 * time.Second // a shared machine stalls
	}
	n.Broker = must(Open(t.Context(), bc))(t)
	t.Cleanup(n.shut)
	return n
}

func (n *node) shut() { n.Close(context.Background()) }

// counts is what the broker told its metrics.
type counts struct {
	mu                                        sync.Mutex
	missed, redelivered, barriers, overflowed int
}

func (c *counts) HeartbeatMissed()         { c.add(&c.missed) }
func (c *counts) Redelivered(schemas.Kind) { c.add(&c.redelivered) }
func (c *counts) Barrier(time.Duration)    { c.add(&c.barriers) }

func (c *counts) Overflowed(schemas.Kind) { c.add(&c.overflowed) }

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counts) get(n *int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *n
}

func ref(id string) schemas.Ref {
	return schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: id}
}

// claim is the append that makes an id ours.
func claim(id, data string) schemas.Append { return claimOf(ref(id), data) }

func claimOf(r schemas.Ref, data string) schemas.Append {
	return schemas.Append{Subject: layout.Subject(r, schemas.SectionAccepted), Data: []byte(data), Guarded: true, Guard: layout.AnyKind(r.Tenant, r.ID)}
}

// event is a later append of the action, fenced by the sequence before it.
func event(id, data string, last uint64) schemas.Append {
	return schemas.Append{
		Subject: layout.Subject(ref(id), schemas.SectionEvent), Data: []byte(data),
		Guarded: true, Guard: layout.All(ref(id)), Last: last,
	}
}

func (n *node) put(t *testing.T, m schemas.Append) uint64 {
	t.Helper()
	seq := must(n.Append(t.Context(), m))(t)
	return seq
}

func (n *node) fill(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		n.put(t, claim("a"+strconv.Itoa(i), strconv.Itoa(i)))
	}
}

// records returns up to limit messages under filter from a sequence on.
func (n *node) records(t *testing.T, stream, filter string, from uint64, limit int) []schemas.Record {
	t.Helper()
	all, _, err := n.Page(t.Context(), stream, filter, from, limit, readBytes)
	require.NoError(t, err)
	return all
}

// contents is what a bucket has after a revision.
func contents(t *testing.T, k *Bucket, after uint64) (all []schemas.Record) {
	t.Helper()
	last := must(k.Read(t.Context(), after, func(r schemas.Record) { all = append(all, r) }))(t)
	if len(all) > 0 {
		after = all[len(all)-1].Seq
	}
	require.Equal(t, after, last)
	return all
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
