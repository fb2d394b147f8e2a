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
