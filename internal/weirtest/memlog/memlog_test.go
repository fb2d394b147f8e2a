package memlog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

var _ ledger.Log = (*memlog.Log)(nil)

func layout() schemas.Layout { return schemas.Layout{Partitions: 2, Lanes: 8} }

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

func TestRangeLastBoundsAndPurge(t *testing.T) {
	t.Parallel()
	log := newLog()
	for _, s := range []string{"weir.evidence.t.k.e.1", "weir.evidence.t.k.e.2", "weir.evidence.u.k.e.1"} {
		_, err := log.Append(t.Context(), schemas.Append{Subject: s, Data: []byte(s)})
		require.NoError(t, err)
	}
	got, err := log.Range(t.Context(), schemas.EvidenceStream, "weir.evidence.t.>", 1, 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	got, err = log.Range(t.Context(), schemas.EvidenceStream, "weir.evidence.*.*.*.1", 2, 10)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.EqualValues(t, 3, got[0].Seq)
	next, err := log.Next(t.Context(), schemas.EvidenceStream, "weir.evidence.*.*.*.1", 2)
	require.NoError(t, err)
	require.EqualValues(t, 3, next.Seq)
	_, err = log.Next(t.Context(), schemas.EvidenceStream, "weir.evidence.t.>", 3)
	require.ErrorIs(t, err, fault.ErrNotFound)
	last, err := log.Last(t.Context(), schemas.EvidenceStream, "weir.evidence.t.>")
	require.NoError(t, err)
	require.EqualValues(t, 2, last.Seq)

	log.Purge(schemas.EvidenceStream, 3)
	first, end, err := log.Bounds(t.Context(), schemas.EvidenceStream)
	require.NoError(t, err)
	require.EqualValues(t, 3, first)
	require.EqualValues(t, 3, end)
	_, err = log.Last(t.Context(), schemas.EvidenceStream, "weir.evidence.t.>")
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = log.Append(t.Context(), schemas.Append{Subject: "elsewhere.x"})
	require.ErrorIs(t, err, memlog.ErrNoStream)
}

func TestLiveKeepsTheOrderWhenAListenerAppends(t *testing.T) {
	t.Parallel()
	log, l := newLog(), layout()
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "x"}
	var seen []string
	_, err := log.Live("weir.live.>", func(r schemas.Record) {
		seen = append(seen, r.Subject)
		if len(seen) == 1 {
			_, err := log.Append(t.Context(), schemas.Append{Subject: l.Subject(ref, schemas.TailSettled)})
			require.NoError(t, err)
			require.Len(t, seen, 1, "delivered only after this one")
		}
	}, nil)
	require.NoError(t, err)
	_, err = log.Append(t.Context(), schemas.Append{Subject: l.Subject(ref, schemas.TailAccepted)})
	require.NoError(t, err)
	require.Equal(t, []string{l.Subject(ref, schemas.TailAccepted), l.Subject(ref, schemas.TailSettled)}, seen)
}

func TestStopAndLose(t *testing.T) {
	t.Parallel()
	log := newLog()
	var got, lost int
	stop, err := log.Live("weir.live.evidence.>", func(schemas.Record) { got++ }, func() { lost++ })
	require.NoError(t, err)
	put := func() {
		_, err := log.Append(t.Context(), schemas.Append{Subject: "weir.evidence.t.k.e.1"})
		require.NoError(t, err)
	}
	put()
	log.Lose()
	stop()
	stop()
	put()
	log.Lose()
	require.Equal(t, 1, got)
	require.Equal(t, 1, lost)
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
	require.Equal(t, l.Subject(ref, schemas.TailWake), r.Subject)
}
