package broker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

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

func TestBucketIsFenced(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{}, Config{}).Bucket(schemas.TokenBucket)
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
	all := must(k.Read(t.Context(), 0, 10))(t)
	require.Len(t, all, 1, "only the newest value of a key is kept")
	require.Equal(t, "a", all[0].Subject)
	require.Equal(t, "2", string(all[0].Data))
	require.Equal(t, next, all[0].Seq)
}

func TestBucketIsReadInPages(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{}).Bucket(schemas.TokenBucket)
	empty := must(k.Read(t.Context(), 0, 10))(t)
	require.Empty(t, empty)
	const count = 25
	for i := range count {
		must(k.Put(t.Context(), fmt.Sprintf("k%02d", i), []byte{byte(i)}, 0))(t)
	}
	var after uint64
	var got []byte
	for _, want := range []int{10, 10, 5, 0} {
		page := must(k.Read(t.Context(), after, 10))(t)
		require.Len(t, page, want)
		for _, r := range page {
			require.Equal(t, fmt.Sprintf("k%02d", len(got)), r.Subject)
			got, after = append(got, r.Data...), r.Seq
		}
	}
	require.Len(t, got, count)
}

// TestBucketIsSharedByNodes also has what another tool deletes arrive as a record without data.
func TestBucketIsSharedByNodes(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	other := n.second(t)
	got := make(chan schemas.Record, 10)
	stop := must(other.Bucket(schemas.TokenBucket).Watch(func(r schemas.Record) { got <- r }, func() { t.Error("lost") }))(t)
	defer stop()
	rev := must(n.Bucket(schemas.TokenBucket).Put(t.Context(), "a", []byte("1"), 0))(t)
	r := <-got
	require.Equal(t, "a", r.Subject)
	require.Equal(t, rev, r.Seq)
	require.Equal(t, "1", string(r.Data))
	kv := must(n.js.KeyValue(t.Context(), schemas.TokenBucket))(t)
	value, err := kv.Get(t.Context(), "a")
	require.NoError(t, err, "any tool can read it")
	require.Equal(t, "1", string(value.Value()))
	require.NoError(t, kv.Delete(t.Context(), "a"))
	r = <-got
	require.Equal(t, "a", r.Subject)
	require.Empty(t, r.Data)
	all := must(other.Bucket(schemas.TokenBucket).Read(t.Context(), rev, 10))(t)
	require.Len(t, all, 1)
	require.Empty(t, all[0].Data)
}

func TestBucketOutOfReach(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Bucket(schemas.TokenBucket)
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.TokenBucket))
	_, err := k.Read(t.Context(), 0, 10)
	require.Error(t, err, "a store that is gone is not an empty one")
	_, err = k.Put(t.Context(), "a", []byte("1"), 0)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Read(ctx, 0, 10)
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestBucketForgets one key, up to a revision, and leaves no mark of it.
func TestBucketForgets(t *testing.T) {
	t.Parallel()
	k := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{}).Bucket(schemas.TokenBucket)
	put := func(key string, last uint64) uint64 {
		rev := must(k.Put(t.Context(), key, []byte(key), last))(t)
		return rev
	}
	keys := func() (all []string) {
		records := must(k.Read(t.Context(), 0, 10))(t)
		for _, r := range records {
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
	require.Greater(t, put("c", 0), next, "revisions go on")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, k.Forget(ctx, "c", 99), fault.ErrUnavailable)
}

// TestBucketOfBudgets: it is there for good, tells nobody, and a key that was forgotten begins
// anew, whatever was known of it.
func TestBucketOfBudgets(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Bucket(schemas.BudgetBucket)
	const key = "acme%2Einc.team.%.%.openai%2Fgpt-4%2E1"
	one := must(k.Put(t.Context(), key, []byte("1"), 0))(t)
	two := must(k.Put(t.Context(), key, []byte("2"), one))(t)
	_, err := k.Put(t.Context(), key, []byte("3"), one)
	require.ErrorIs(t, err, fault.ErrFenced)
	require.NoError(t, k.Forget(t.Context(), key, one))
	r := must(k.Get(t.Context(), key))(t)
	require.Equal(t, key, r.Subject)
	require.Equal(t, two, r.Seq, "a write that came in between stays")

	require.NoError(t, k.Forget(t.Context(), key, two))
	_, err = k.Get(t.Context(), key)
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = k.Put(t.Context(), key, []byte("3"), two)
	require.ErrorIs(t, err, fault.ErrFenced, "who has not heard of it looks again")
	three := must(k.Put(t.Context(), key, []byte("3"), 0))(t)
	require.Greater(t, three, two)
	require.NoError(t, k.Barrier(t.Context()))

	s := must(n.js.Stream(t.Context(), "KV_"+schemas.BudgetBucket))(t)
	cfg := s.CachedInfo().Config
	require.Zero(t, cfg.MaxAge)
	require.EqualValues(t, 1, cfg.MaxMsgsPerSubject)
	require.Nil(t, cfg.RePublish)
	_, err = k.Watch(func(schemas.Record) {}, nil)
	require.ErrorIs(t, err, errUnwatched)
}

// TestBucketIsSet whatever a key has: the last one counts, and only that is kept.
func TestBucketIsSet(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k, there := n.Bucket(schemas.LeaseBucket), n.second(t).Bucket(schemas.LeaseBucket)
	begun := time.Now()
	first := must(k.Set(t.Context(), "t.a", []byte("1")))(t)
	next := must(there.Set(t.Context(), "t.a", []byte("2")))(t)
	require.Greater(t, next, first)
	must(k.Set(t.Context(), "t.b", []byte("3")))(t)
	r := must(k.Get(t.Context(), "t.a"))(t)
	require.WithinDuration(t, begun, r.Time, time.Minute, "the server says when")
	require.Equal(t, schemas.Record{Stream: "KV_WEIR_LEASES", Subject: "t.a", Seq: next, Time: r.Time, Data: []byte("2")}, r)
	all := must(k.Read(t.Context(), 0, 10))(t)
	require.Len(t, all, 2)
	_, err := k.Put(t.Context(), "t.a", []byte("4"), first)
	require.ErrorIs(t, err, fault.ErrFenced, "a guarded put sees it")
	_, err = k.Get(t.Context(), "t.c")
	require.ErrorIs(t, err, fault.ErrNotFound)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Set(ctx, "t.a", nil)
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestBucketsOfTasks: repositories are there for good, leases as long as the log's own events, and
// neither is told to anybody.
func TestBucketsOfTasks(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{History: time.Hour})
	heard := make(chan string, 10)
	stop := must(n.Listen(schemas.LiveRoot+".>", func(subject string, _ []byte) { heard <- subject }))(t)
	defer stop()
	rev := must(n.Bucket(schemas.RepoBucket).Put(t.Context(), "t.r", []byte("1"), 0))(t)
	_, err := n.Bucket(schemas.RepoBucket).Put(t.Context(), "t.r", []byte("2"), 0)
	require.ErrorIs(t, err, fault.ErrFenced)
	r := must(n.Bucket(schemas.RepoBucket).Get(t.Context(), "t.r"))(t)
	require.Equal(t, rev, r.Seq)
	must(n.Bucket(schemas.LeaseBucket).Set(t.Context(), "t.a", []byte("1")))(t)
	for bucket, age := range map[string]time.Duration{schemas.RepoBucket: 0, schemas.LeaseBucket: time.Hour} {
		s := must(n.js.Stream(t.Context(), "KV_"+bucket))(t)
		cfg := s.CachedInfo().Config
		require.Equal(t, age, cfg.MaxAge, bucket)
		require.EqualValues(t, 1, cfg.MaxMsgsPerSubject)
		require.Nil(t, cfg.RePublish)
	}
	for _, k := range []*Bucket{n.Bucket(schemas.RepoBucket), n.Bucket(schemas.LeaseBucket)} {
		_, err = k.Watch(func(schemas.Record) {}, nil)
		require.ErrorIs(t, err, errUnwatched)
	}
	require.NoError(t, n.flush())
	require.Empty(t, heard)
}

// TestBucketKeepsHistory of each key, so many values and no more, forever.
func TestBucketKeepsHistory(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Bucket(schemas.RuleBucket)
	_, err := k.Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = k.Next(t.Context(), "a", 0)
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
	for i, revision := range revisions[2 : len(revisions)-1] {
		next := must(k.Next(t.Context(), "a", revision))(t)
		require.Equal(t, "a", next.Subject, "other keys were written in between")
		require.Equal(t, revisions[2+i+1], next.Seq)
	}
	_, err = k.Next(t.Context(), "a", last)
	require.ErrorIs(t, err, fault.ErrNotFound)
	oldest := must(k.Next(t.Context(), "a", 0))(t)
	require.Equal(t, revisions[2], oldest.Seq, "what is behind it is not kept")
	s := must(n.js.Stream(t.Context(), "KV_"+schemas.RuleBucket))(t)
	require.Zero(t, s.CachedInfo().Config.MaxAge)
	require.Equal(t, jetstream.FileStorage, s.CachedInfo().Config.Storage)
}

// TestBucketsAreApart: neither hears of the other's keys, nor reads them.
func TestBucketsAreApart(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	heard := make(chan schemas.Record, 10)
	stop := must(n.Bucket(schemas.RuleBucket).Watch(func(r schemas.Record) { heard <- r }, func() { t.Error("lost") }))(t)
	defer stop()
	must(n.Bucket(schemas.TokenBucket).Put(t.Context(), "a", []byte("token"), 0))(t)
	key := schemas.EscapeToken("acme.inc:1") // as a tenant may be called
	rev := must(n.Bucket(schemas.RuleBucket).Put(t.Context(), key, []byte("rules"), 0))(t)
	r := <-heard
	require.Equal(t, "rules", string(r.Data))
	require.Equal(t, key, r.Subject)
	require.Equal(t, rev, r.Seq)
	_, err := n.Bucket(schemas.RuleBucket).Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrNotFound)
	for bucket, want := range map[*Bucket]string{n.Bucket(schemas.TokenBucket): "token", n.Bucket(schemas.RuleBucket): "rules"} {
		all := must(bucket.Read(t.Context(), 0, 10))(t)
		require.Len(t, all, 1)
		require.Equal(t, want, string(all[0].Data))
	}
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

func TestBucketGetIsTheLeaders(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Bucket(schemas.RuleBucket)
	rev := must(k.Put(t.Context(), "a", []byte("1"), 0))(t)
	kv := must(n.js.KeyValue(t.Context(), schemas.RuleBucket))(t)
	require.NoError(t, kv.Delete(t.Context(), "a"))
	gone := must(k.Get(t.Context(), "a"))(t)
	require.Empty(t, gone.Data)
	require.Greater(t, gone.Seq, rev)
	_, err := k.Put(t.Context(), "a", []byte("2"), gone.Seq)
	require.NoError(t, err, "a deleted key can be written again")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Get(ctx, "a")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), schemas.RuleBucket))
	_, err = k.Get(t.Context(), "a")
	require.Error(t, err)
	require.NotErrorIs(t, err, fault.ErrNotFound, "a store that is gone is not an empty one")
}
