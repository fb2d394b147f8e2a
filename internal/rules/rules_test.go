package rules

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

func TestNoSet(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	set, replaced, err := k.InForce("t")
	require.NoError(t, err)
	require.Nil(t, set)
	require.Nil(t, replaced)
	first, err := k.Newest(t.Context(), "t")
	require.NoError(t, err)
	require.Zero(t, first.Revision)
	require.Regexp(t, "^etag-0-", first.Etag)
	require.Equal(t, schemas.RuleSet{V: 1, Tenant: "t", GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{}}, first.Doc)
	require.Equal(t, first.Etag, first.Set.Etag(), "it can be asked what a rule would do")
	require.Empty(t, k.force(t, "t"), "to have been asked for makes no set")
	_, err = k.After(t.Context(), "t", 0)
	require.ErrorIs(t, err, fault.ErrNotFound)
	revision, ok := Revision(first.Etag)
	require.True(t, ok)
	require.Equal(t, uint64(1), k.put(t, "t", doc(rule("a")), revision).Revision)
}

// TestPut is in force, would survive, and is what anybody reads, when it returns.
func TestPut(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	s.Set(func(s *bucket.Bucket) { s.Deaf = true })
	one := k.put(t, "t", doc(rule("a")), 0)
	require.Equal(t, one.Etag, k.force(t, "t"))
	require.Equal(t, 1, s.Barriers)
	require.Equal(t, uint64(0), one.Doc.Previous)
	require.Equal(t, "action", one.Doc.By)
	require.Equal(t, doc().At, one.Doc.At)
	_, replaced, err := k.InForce("t")
	require.NoError(t, err)
	_, untouched, err := k.InForce("u")
	require.NoError(t, err)

	two := k.put(t, "t", schemas.RuleSet{GlobalActive: false, Rules: one.Doc.Rules}, one.Revision)
	<-replaced
	require.Nil(t, untouched)
	require.Equal(t, two.Etag, k.force(t, "t"))
	require.Equal(t, one.Revision, two.Doc.Previous)
	require.NotZero(t, two.Doc.At)
	require.False(t, two.Doc.GlobalActive)
	_, replaced, err = k.InForce("t")
	require.NoError(t, err)

	for range 2 {
		_, err = k.Put(t.Context(), "t", doc(), one.Revision)
		require.ErrorIs(t, err, fault.ErrFenced)
	}
	_, err = k.Put(t.Context(), "t", doc(), 0)
	require.ErrorIs(t, err, fault.ErrFenced)
	require.Equal(t, two.Etag, k.force(t, "t"))
	newest, err := k.Newest(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, two, newest)
	select {
	case <-replaced:
		require.Fail(t, "an equal revision is not taken over again")
	default:
	}
}

// TestPutWithoutAnEnd: whether it was written is what After tells.
func TestPutWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	broken := errors.New("the disk is gone")
	s.Set(func(s *bucket.Bucket) { s.Broken = broken })
	_, err := k.Put(t.Context(), "t", doc(rule("a")), 0)
	require.ErrorIs(t, err, broken)
	next, err := k.After(t.Context(), "t", 0)
	require.NoError(t, err)
	require.Equal(t, "action", next.Doc.By)
	require.Zero(t, next.Doc.Previous)
	require.Equal(t, next.Etag, k.force(t, "t"))
	s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
	_, err = k.Put(t.Context(), "t", doc(), next.Revision)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = k.Newest(t.Context(), "t")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = k.After(t.Context(), "t", 0)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Equal(t, next.Etag, k.force(t, "t"), "memory alone is asked")
}

// TestAfter gives the successor, as long as it is kept.
func TestAfter(t *testing.T) {
	t.Parallel()
	s := newShelf()
	s.Keep = 16
	k := node(t, s, Config{})
	var all []Snapshot
	var last uint64
	for i := range 20 {
		d := doc(many(i % 3)...)
		d.By = strconv.Itoa(i)
		all = append(all, k.put(t, "t", d, last))
		k.put(t, "other"+strconv.Itoa(i), doc(), 0)
		last = all[i].Revision
	}
	for i, was := range all[4:19] {
		next, err := k.After(t.Context(), "t", was.Revision)
		require.NoError(t, err)
		require.Equal(t, all[4+i+1], next)
		require.Equal(t, was.Revision, next.Doc.Previous)
	}
	next, err := k.After(t.Context(), "t", all[0].Revision)
	require.NoError(t, err)
	require.NotEqual(t, all[0].Revision, next.Doc.Previous, "its own is no longer kept")
	_, err = k.After(t.Context(), "t", last)
	require.ErrorIs(t, err, fault.ErrNotFound)
	require.Equal(t, all[19].Etag, k.force(t, "t"), "an old set is not put in force")
}

// TestReset: what cannot be read is replaced by the empty set and in force at once;
// what can be is not touched.
func TestReset(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	_, err := k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrFenced, "no set is the empty one")
	was := k.put(t, "t", doc(rule("a")), 0)
	_, err = k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrFenced)
	require.Equal(t, was.Etag, k.force(t, "t"))

	s.Set(func(s *bucket.Bucket) { s.Deaf = true; s.Store("t", []byte(`{"v":99}`)) }) // this node has not heard of it
	now, err := k.Reset(t.Context(), "t", "action")
	require.NoError(t, err)
	require.Equal(t, uint64(3), now.Revision)
	require.Equal(t, schemas.RuleSet{
		V: schemas.RuleSetVersion, Tenant: "t", GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{},
		By: "action", Previous: 2, At: now.Doc.At,
	}, now.Doc)
	require.False(t, now.Doc.At.IsZero())
	require.Equal(t, now.Etag, k.force(t, "t"))

	s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
	_, err = k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrUnavailable)
}
