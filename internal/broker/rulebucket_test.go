package broker

import (
	"context"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// TestBucketKeepsHistory of each key, so many values and no more, forever.
func TestBucketKeepsHistory(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Rules()
	_, err := k.Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = k.Next(t.Context(), "a", 0)
	require.ErrorIs(t, err, fault.ErrNotFound)
	var revisions []uint64
	var last uint64
	for i := range ruleHistory + 2 {
		other, err := k.Put(t.Context(), "other"+strconv.Itoa(i), []byte("x"), 0)
		require.NoError(t, err)
		last, err = k.Put(t.Context(), "a", []byte(strconv.Itoa(i)), last)
		require.NoError(t, err)
		require.Greater(t, last, other, "revisions grow over all keys")
		revisions = append(revisions, last)
	}
	newest, err := k.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, schemas.Record{
		Stream: "KV_WEIR_RULES", Subject: "a", Seq: last, Time: newest.Time, Data: []byte(strconv.Itoa(ruleHistory + 1)),
	}, newest)
	for i, revision := range revisions[2 : len(revisions)-1] {
		next, err := k.Next(t.Context(), "a", revision)
		require.NoError(t, err)
		require.Equal(t, "a", next.Subject, "other keys were written in between")
		require.Equal(t, revisions[2+i+1], next.Seq)
	}
	_, err = k.Next(t.Context(), "a", last)
	require.ErrorIs(t, err, fault.ErrNotFound)
	oldest, err := k.Next(t.Context(), "a", 0)
	require.NoError(t, err)
	require.Equal(t, revisions[2], oldest.Seq, "what is behind it is not kept")
	s, err := n.js.Stream(t.Context(), "KV_"+schemas.RuleBucket)
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().Config.MaxAge)
	require.Equal(t, jetstream.FileStorage, s.CachedInfo().Config.Storage)
}

// TestBucketsAreApart: neither hears of the other's keys, nor reads them.
func TestBucketsAreApart(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	heard := make(chan schemas.Record, 10)
	stop, err := n.Rules().Watch(func(r schemas.Record) { heard <- r }, func() { t.Error("lost") })
	require.NoError(t, err)
	defer stop()
	_, err = n.Tokens().Put(t.Context(), "a", []byte("token"), 0)
	require.NoError(t, err)
	key := schemas.EscapeToken("acme.inc:1") // as a tenant may be called
	rev, err := n.Rules().Put(t.Context(), key, []byte("rules"), 0)
	require.NoError(t, err)
	r := <-heard
	require.Equal(t, "rules", string(r.Data))
	require.Equal(t, key, r.Subject)
	require.Equal(t, rev, r.Seq)
	_, err = n.Rules().Get(t.Context(), "a")
	require.ErrorIs(t, err, fault.ErrNotFound)
	for bucket, want := range map[*Bucket]string{n.Tokens(): "token", n.Rules(): "rules"} {
		all, err := bucket.Read(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, want, string(all[0].Data))
	}
}

// TestBucketsOfAFullLog: a write of rules was accepted as an action, and an operator must be able to sign in.
func TestBucketsOfAFullLog(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1})
	n.usage.bytes.Add(2)
	_, err := n.Rules().Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	_, err = n.Tokens().Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	_, err = n.Append(t.Context(), schemas.Append{Subject: layout.Subject(schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}, schemas.TailAccepted), Guarded: true})
	require.ErrorIs(t, err, fault.ErrFull)
}

func TestBucketGetIsTheLeaders(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	k := n.Rules()
	rev, err := k.Put(t.Context(), "a", []byte("1"), 0)
	require.NoError(t, err)
	kv, err := n.js.KeyValue(t.Context(), schemas.RuleBucket)
	require.NoError(t, err)
	require.NoError(t, kv.Delete(t.Context(), "a"))
	gone, err := k.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, gone.Data)
	require.Greater(t, gone.Seq, rev)
	_, err = k.Put(t.Context(), "a", []byte("2"), gone.Seq)
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
