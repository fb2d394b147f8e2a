package broker

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/access"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// second opens another node's broker on the same server.
func (n *node) second(t *testing.T) *Broker {
	t.Helper()
	b := must(Open(t.Context(), Config{Server: n.server, Layout: layout, AttemptTimeout: embeddedAttemptTimeout}))(t)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func fencesBuckets(t *testing.T, n *node) {
	t.Helper()
	k := n.Bucket(schemas.TokenBucket)
	first := must(k.Put(t.Context(), "a", []byte("1"), 0))(t)
	_, err := k.Put(t.Context(), "a", []byte("2"), 0)
	require.ErrorIs(t, err, fault.ErrFenced)
	_, err = k.Put(t.Context(), "b", []byte("2"), first)
	require.ErrorIs(t, err, fault.ErrFenced, "revisions are each key's own")
	next := must(k.Put(t.Context(), "a", []byte("2"), first))(t)
	require.Greater(t, next, first)
	_, err = k.Put(t.Context(), "a", []byte("3"), first)
	require.ErrorIs(t, err, fault.ErrFenced)
	require.NoError(t, k.Barrier(t.Context()))
	set := must(k.Set(t.Context(), "a", []byte("4")))(t)
	_, err = k.Put(t.Context(), "a", []byte("5"), next)
	require.ErrorIs(t, err, fault.ErrFenced, "a guarded put sees what was set")
	r := must(k.Get(t.Context(), "a"))(t)
	require.WithinDuration(t, time.Now(), r.Time, time.Minute, "the server says when")
	require.Equal(t, schemas.Record{Stream: "KV_WEIR_TOKENS", Subject: "a", Seq: set, Time: r.Time, Data: []byte("4")}, r)
	require.Equal(t, []schemas.Record{r}, contents(t, k, 0), "only the newest value of a key is kept")
}

// forgetsKeys one key, up to a revision, and leaves no mark of it.
func forgetsKeys(t *testing.T, n *node) {
	t.Helper()
	k := n.Bucket(schemas.LeaseBucket)
	put := func(key string, last uint64) uint64 {
		rev := must(k.Put(t.Context(), key, []byte(key), last))(t)
		return rev
	}
	keys := func() (all []string) {
		for _, r := range contents(t, k, 0) {
			all = append(all, r.Subject)
		}
		return all
	}
	a, b := put("a", 0), put("b", 0)
	next := put("a", a)
	require.NoError(t, k.Forget(t.Context(), "a", a))
	require.Equal(t, []string{"b", "a"}, keys(), "somebody wrote it since")
	require.NoError(t, k.Forget(t.Context(), "a", next))
	require.NoError(t, k.Forget(t.Context(), "a", next))
	require.Equal(t, []string{"b"}, keys())
	require.NoError(t, k.Forget(t.Context(), "b", b))
	require.Empty(t, keys())
	_, err := k.Put(t.Context(), "b", nil, b)
	require.ErrorIs(t, err, fault.ErrFenced, "who has not heard of it looks again")
	require.Greater(t, put("b", 0), next, "revisions go on")
}

// keepsHistory of each key, so many values and no more.
func keepsHistory(t *testing.T, n *node) {
	t.Helper()
	k := n.Bucket(schemas.RuleBucket)
	_, err := k.Next(t.Context(), "a", 0)
	require.ErrorIs(t, err, fault.ErrNotFound)
	var revisions []uint64
	var last uint64
	for i := range jetstream.KeyValueMaxHistory + 2 {
		other := must(k.Put(t.Context(), "other"+strconv.Itoa(i), []byte("x"), 0))(t)
		last = must(k.Put(t.Context(), "a", []byte(strconv.Itoa(i)), last))(t)
		require.Greater(t, last, other, "revisions grow over all keys")
		revisions = append(revisions, last)
	}
	newest := must(k.Get(t.Context(), "a"))(t)
	require.Equal(t, schemas.Record{
		Stream: "KV_WEIR_RULES", Subject: "a", Seq: last, Time: newest.Time, Data: []byte(strconv.Itoa(jetstream.KeyValueMaxHistory + 1)),
	}, newest)
	after := uint64(0)
	for _, revision := range revisions[2:] { // the oldest two are gone
		next := must(k.Next(t.Context(), "a", after))(t)
		require.Equal(t, []any{"a", revision}, []any{next.Subject, next.Seq}, "other keys were written in between")
		after = revision
	}
	_, err = k.Next(t.Context(), "a", last)
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestBuckets: how long each keeps how many values, and whether changes can be followed.
func TestBuckets(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{History: 2 * time.Hour})
	age := map[string]time.Duration{
		schemas.LeaseBucket: 2 * time.Hour, schemas.DestinationBucket: time.Hour, schemas.ModelBucket: 7 * 24 * time.Hour, schemas.UsageBucket: 90 * 24 * time.Hour,
	}
	for _, listed := range access.Buckets() {
		cfg := must(n.js.Stream(t.Context(), listed.Stream()))(t).CachedInfo().Config
		require.Equal(t, jetstream.FileStorage, cfg.Storage, listed.Name)
		if listed.Object {
			continue
		}
		require.Equal(t, age[listed.Name], cfg.MaxAge, listed.Name)
		require.EqualValues(t, max(listed.History, 1), cfg.MaxMsgsPerSubject, listed.Name)
		require.Equal(t, listed.Live != "", cfg.RePublish != nil, listed.Name)
		if listed.Live == "" {
			_, err := n.Bucket(listed.Name).Watch(func(schemas.Record) {}, nil)
			require.ErrorIs(t, err, errUnwatched)
		}
	}
}

// TestBucketIsSharedByNodes, and apart from the others. What another tool deletes arrives as a
// record without data, and can be written again.
func TestBucketIsSharedByNodes(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	here, there := n.Bucket(schemas.RuleBucket), n.second(t).Bucket(schemas.RuleBucket)
	got := make(chan schemas.Record, 10)
	stop := must(there.Watch(func(r schemas.Record) { got <- r }, func() { t.Error("lost") }))(t)
	defer stop()
	must(n.Bucket(schemas.TokenBucket).Put(t.Context(), "a", []byte("token"), 0))(t)
	const key = "acme"
	rev := must(here.Put(t.Context(), key, []byte("1"), 0))(t)
	r := <-got
	require.Equal(t, []any{key, rev, "1"}, []any{r.Subject, r.Seq, string(r.Data)})
	kv := must(n.js.KeyValue(t.Context(), schemas.RuleBucket))(t)
	value := must(kv.Get(t.Context(), key))(t)
	require.Equal(t, "1", string(value.Value()), "any tool can read it")
	require.NoError(t, kv.Delete(t.Context(), key))
	gone := <-got
	require.Equal(t, key, gone.Subject)
	require.Empty(t, gone.Data)
	all := contents(t, there, rev)
	require.Len(t, all, 1)
	require.Empty(t, all[0].Data)
	r = must(here.Get(t.Context(), key))(t)
	require.Equal(t, []any{gone.Seq, 0}, []any{r.Seq, len(r.Data)})
	must(here.Put(t.Context(), key, []byte("2"), gone.Seq))(t)
	_, err := here.Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestBucketOutOfReach: a store that is gone is not an empty one.
func TestBucketOutOfReach(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Bucket(schemas.RuleBucket)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(ctx context.Context) error{
		"get":    func(ctx context.Context) error { _, err := k.Get(ctx, "a"); return err },
		"read":   func(ctx context.Context) error { _, err := k.Read(ctx, 0, nil); return err },
		"put":    func(ctx context.Context) error { _, err := k.Put(ctx, "a", nil, 0); return err },
		"set":    func(ctx context.Context) error { _, err := k.Set(ctx, "a", nil); return err },
		"forget": func(ctx context.Context) error { return k.Forget(ctx, "a", 9) },
	} {
		require.ErrorIs(t, do(ended), fault.ErrUnavailable, name)
	}
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.RuleBucket))
	_, err := k.Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = k.Read(t.Context(), 0, nil)
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestBucketsOfAFullLog take what they are given: a write of rules was accepted as an action, an
// operator must be able to sign in, leases and budgets are part of what was accepted, and a node
// must start, to tell what it holds.
func TestBucketsOfAFullLog(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1})
	n.usage.bytes.Add(2)
	for _, k := range []*Bucket{n.Bucket(schemas.RuleBucket), n.Bucket(schemas.TokenBucket), n.Bucket(schemas.RepoBucket), n.Bucket(schemas.LeaseBucket), n.Bucket(schemas.BudgetBucket)} {
		must(k.Put(t.Context(), "a", []byte("1"), 0))(t)
	}
	must(n.Bucket(schemas.LeaseBucket).Set(t.Context(), "a", []byte("2")))(t)
	must(n.SealKey(t.Context()))(t)
	require.ErrorIs(t, n.Accepting(), fault.ErrFull)
	_, err := n.Append(t.Context(), claim("a", "x"))
	require.ErrorIs(t, err, fault.ErrFull)
}

func TestLacks(t *testing.T) {
	t.Parallel()
	need := access.Of(access.Ingress, 1)
	grant := func(publish, subscribe *side, replies bool) *granted {
		g := &granted{Publish: publish, Subscribe: subscribe}
		if replies {
			g.Responses = &struct{}{}
		}
		return g
	}
	all := &side{Allow: access.Subjects(need.Publish)}
	hear := &side{Allow: access.Subjects(need.Subscribe)}
	require.Nil(t, (*granted)(nil).lacks(need), "no permissions are all permissions")
	require.Nil(t, grant(all, hear, true).lacks(need))
	require.Nil(t, grant(&side{Allow: []string{">"}}, &side{}, false).lacks(need))
	require.Equal(t, "weir.cancel.>", grant(&side{Allow: []string{">"}, Deny: []string{"weir.cancel.>"}}, hear, true).lacks(need).Subject)
	e := grant(all, &side{Allow: []string{"_INBOX.>"}}, true).lacks(need)
	e.Role = access.Ingress
	require.Equal(t, "the NATS user of this node may not subscribe to weir.live.log.> (to follow the log as it is written): "+
		"give it what the role ingress needs, as `weir nats init` writes it, and reload the servers", e.Error())
	require.ErrorContains(t, grant(all, hear, false).lacks(need), "allow_responses grants it")
}

// TestKeyIsDurableBeforeUse: nobody gets it, whether they have made it or found it, before it would
// survive what the durability promises.
func TestKeyIsDurableBeforeUse(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	for range 2 {
		before := n.metrics.get(&n.metrics.barriers)
		must(n.SealKey(t.Context()))(t)
		require.Equal(t, before+1, n.metrics.get(&n.metrics.barriers))
	}
	broken := errors.New("the disk is gone")
	n = open(t, embedded.Config{Sync: func() error { return broken }}, Config{})
	key, err := n.SealKey(t.Context())
	require.ErrorIs(t, err, broken)
	require.Nil(t, key)
}

// TestDamagedKey is refused: another in its place would go unnoticed.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	kv := must(n.js.KeyValue(t.Context(), schemas.KeyBucket))(t)
	for _, damage := range []func() error{
		func() error { _, err := kv.Put(t.Context(), "evidence", []byte("short")); return err },
		func() error { return kv.Delete(t.Context(), "evidence") },
	} {
		require.NoError(t, damage())
		key, err := n.SealKey(t.Context())
		require.ErrorIs(t, err, errKeyDamaged)
		require.Nil(t, key)
	}
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.KeyBucket))
	_, err := n.SealKey(t.Context())
	require.Error(t, err, "a store that is gone is not an empty one")
}
