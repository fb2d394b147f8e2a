package memlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestSpoolKeepsBodiesApart: one that was discarded leaves its place to no other.
func TestSpoolKeepsBodiesApart(t *testing.T) {
	t.Parallel()
	log := memlog.New(schemas.Layout{Partitions: 1}, time.Now, memlog.Hooks{})
	spool := func(text string) schemas.Spooled {
		s, err := log.Spool(t.Context(), strings.NewReader(text))
		require.NoError(t, err)
		return s
	}
	first, second := spool("first"), spool("second")
	log.Discard(t.Context(), first)
	spool("third")
	require.NoError(t, log.Commit(t.Context(), "t", second))
	data, err := log.GetBlob(t.Context(), second.Name)
	require.NoError(t, err)
	require.Equal(t, "second", string(data))
}
