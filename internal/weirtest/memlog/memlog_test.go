package memlog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

var _ ledger.Log = (*memlog.Log)(nil)

func layout() schemas.Layout { return schemas.Layout{Partitions: 2} }

func at() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func newLog() *memlog.Log { return memlog.New(layout(), at, memlog.Hooks{}) }

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		filter, subject string
		want            bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.b.c", false},
		{"a.b.c", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"a.*.c", "a.b.c", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a", true},
		{"*.b", "a.b", true},
		{"a.>.c", "a.b.c", false},
		{"a", "b", false},
	} {
		require.Equal(t, tc.want, memlog.Match(tc.filter, tc.subject), "%s %s", tc.filter, tc.subject)
	}
}

func TestLiveKeepsTheOrderWhenAListenerAppends(t *testing.T) {
	t.Parallel()
	log, l := newLog(), layout()
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "x"}
	var seen []string
	_, err := log.Live("weir.live.>", func(r schemas.Record) {
		seen = append(seen, r.Subject)
		if len(seen) == 1 {
			_, err := log.Append(t.Context(), schemas.Append{Subject: l.Subject(ref, schemas.SectionEvent)})
			require.NoError(t, err)
			require.Len(t, seen, 1, "delivered only after this one")
		}
	}, nil)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), schemas.Append{Subject: l.Subject(ref, schemas.SectionAccepted)})
	require.NoError(t, err)
	require.Equal(t, []string{l.Subject(ref, schemas.SectionAccepted), l.Subject(ref, schemas.SectionEvent)}, seen)
}

func TestWakeIsReplacedAndFiresOnce(t *testing.T) {
	t.Parallel()
	log, l := newLog(), layout()
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "x"}
	require.NoError(t, log.Wake(t.Context(), ref, at().Add(time.Second)))
	require.NoError(t, log.Wake(t.Context(), ref, at().Add(time.Minute)))
	next, ok := log.NextWake()
	require.True(t, ok)
	require.Equal(t, at().Add(time.Minute), next)
	n, err := log.Due(t.Context(), at().Add(time.Second))
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = log.Due(t.Context(), at().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, ok = log.NextWake()
	require.False(t, ok)
	r, err := log.Last(t.Context(), schemas.LogStream(l.Partition("t", "x")), l.All(ref))
	require.NoError(t, err)
	require.Equal(t, l.Subject(ref, schemas.SectionWake), r.Subject)
}
