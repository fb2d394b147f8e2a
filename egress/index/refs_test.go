package index_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/index"
	"weir/schemas"
)

// named are the ids of all pages, and how many pages there were.
func (s *shop) named(tenant string, ended []schemas.Outcome, open bool, limit int) (ids []string, pages int) {
	s.t.Helper()
	for cursor := ""; ; pages++ {
		q, err := index.Of(tenant, schemas.KindTask, ended, open, limit, cursor)
		require.NoError(s.t, err)
		refs, next, fresh, err := s.x.Refs(context.Background(), q)
		require.NoError(s.t, err)
		require.Zero(s.t, fresh.Behind)
		require.False(s.t, fresh.AsOf.IsZero())
		require.LessOrEqual(s.t, len(refs), limit)
		for _, r := range refs {
			require.Equal(s.t, schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: r.ID}, r.Ref)
			ids = append(ids, r.ID)
		}
		if next == "" {
			return ids, pages + 1
		}
		cursor = next
	}
}

// TestRefs: of one tenant and one kind, the newest first, whichever way leads there.
func TestRefs(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want struct{ open, done, any []string }
	for i := range 9 {
		id := fmt.Sprintf("t-%d", i)
		s.claim("acme", schemas.KindHTTP, "call-"+id)
		s.claim("other", schemas.KindTask, id)
		st := s.claim("acme", schemas.KindTask, id)
		switch i % 3 {
		case 0:
			want.open = append([]string{id}, want.open...)
		case 1:
			s.settle(st, schemas.OutcomeSucceeded, "")
			want.done = append([]string{id}, want.done...)
		default: // whose record does not say how it ended
			s.settle(st, schemas.OutcomeFailed, schemas.Poison)
			want.done = append([]string{id}, want.done...)
		}
		want.any = append([]string{id}, want.any...)
	}
	for limit, pages := range map[int]int{1: 3, 2: 2, 3: 1, 50: 1} {
		ids, n := s.named("acme", nil, true, limit)
		require.Equal(t, want.open, ids)
		require.Equal(t, pages, n, limit)
	}
	ids, _ := s.named("acme", []schemas.Outcome{schemas.OutcomeSucceeded}, false, 4)
	require.Equal(t, want.done, ids)
	ids, _ = s.named("acme", []schemas.Outcome{schemas.OutcomeSucceeded}, true, 4)
	require.Equal(t, want.any, ids)
	ids, _ = s.named("acme", nil, false, 4)
	require.Equal(t, want.any, ids)
	ids, _ = s.named("nobody", nil, true, 4)
	require.Empty(t, ids)
	_, err := index.Of("acme", schemas.KindTask, nil, true, 4, "No!")
	require.Error(t, err)
}

// TestRefsAmongMany: however many others are open, those of a kind are found at once; and
// a page that has looked at as many as it may says where to go on.
func TestRefsAmongMany(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.x.Close()
	s.x = index.New(s.log, s.led, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute, Looks: 5})
	t.Cleanup(s.x.Close)
	s.claim("acme", schemas.KindTask, "old")
	s.settle(s.claim("acme", schemas.KindTask, "over"), schemas.OutcomeCanceled, schemas.Canceled)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("call-%d", i))
		s.settle(s.claim("acme", schemas.KindTask, fmt.Sprintf("done-%d", i)), schemas.OutcomeSucceeded, "")
	}
	ids, pages := s.named("acme", nil, true, 50)
	require.Equal(t, []string{"old"}, ids)
	require.Equal(t, 1, pages)
	ids, pages = s.named("acme", []schemas.Outcome{schemas.OutcomeCanceled}, true, 50)
	require.Equal(t, []string{"over", "old"}, ids)
	require.Greater(t, pages, 5)
}
