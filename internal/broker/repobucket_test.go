package broker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// TestBucketIsSet whatever a key has: the last one counts, and only that is kept.
func TestBucketIsSet(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1})
	n.usage.bytes.Add(2) // a log that is full takes no lease away
	k, there := n.Leases(), n.second(t).Leases()
	begun := time.Now()
	first, err := k.Set(t.Context(), "t.a", []byte("1"))
	require.NoError(t, err)
	next, err := there.Set(t.Context(), "t.a", []byte("2"))
	require.NoError(t, err)
	require.Greater(t, next, first)
	_, err = k.Set(t.Context(), "t.b", []byte("3"))
	require.NoError(t, err)
	r, err := k.Get(t.Context(), "t.a")
	require.NoError(t, err)
	require.WithinDuration(t, begun, r.Time, time.Minute, "the server says when")
	require.Equal(t, schemas.Record{Stream: "KV_WEIR_LEASES", Subject: "t.a", Seq: next, Time: r.Time, Data: []byte("2")}, r)
	all, err := k.Read(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	_, err = k.Put(t.Context(), "t.a", []byte("4"), first)
	require.ErrorIs(t, err, fault.ErrFenced, "a guarded put sees it")
	_, err = k.Get(t.Context(), "t.c")
	require.ErrorIs(t, err, fault.ErrNotFound)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Set(ctx, "t.a", nil)
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestBucketsOfTasks: repositories are there for good and however full the log is,
// leases as long as the log's own events, and neither is told to anybody.
func TestBucketsOfTasks(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{MaxBytes: 1, History: time.Hour})
	n.usage.bytes.Add(2)
	heard := make(chan string, 10)
	stop, err := n.Listen(schemas.LiveRoot+".>", func(subject string, _ []byte) { heard <- subject })
	require.NoError(t, err)
	defer stop()
	rev, err := n.Repos().Put(t.Context(), "t.r", []byte("1"), 0)
	require.NoError(t, err)
	_, err = n.Repos().Put(t.Context(), "t.r", []byte("2"), 0)
	require.ErrorIs(t, err, fault.ErrFenced)
	r, err := n.Repos().Get(t.Context(), "t.r")
	require.NoError(t, err)
	require.Equal(t, rev, r.Seq)
	_, err = n.Leases().Set(t.Context(), "t.a", []byte("1"))
	require.NoError(t, err)
	for bucket, age := range map[string]time.Duration{schemas.RepoBucket: 0, schemas.LeaseBucket: time.Hour} {
		s, err := n.js.Stream(t.Context(), "KV_"+bucket)
		require.NoError(t, err)
		cfg := s.CachedInfo().Config
		require.Equal(t, age, cfg.MaxAge, bucket)
		require.EqualValues(t, 1, cfg.MaxMsgsPerSubject)
		require.Nil(t, cfg.RePublish)
	}
	for _, k := range []*Bucket{n.Repos(), n.Leases()} {
		_, err = k.Watch(func(schemas.Record) {}, nil)
		require.ErrorIs(t, err, errUnwatched)
	}
	require.NoError(t, n.flush())
	require.Empty(t, heard)
}
