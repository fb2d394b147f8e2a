package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func TestGeneration(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]struct {
		callers string
		n       int
		valid   bool
	}{
		"r-1": {"r-1", 1, true}, "r-1~2": {"r-1", 2, true}, "r-1~100": {"r-1", 100, true}, "": {"", 1, false},
		"r-1~1": {"r-1~1", 1, false}, "r-1~0": {"r-1~0", 1, false}, "r-1~101": {"r-1~101", 1, false}, "r-1~02": {"r-1~02", 1, false}, "r-1~+2": {"r-1~+2", 1, false},
		"r-1~": {"r-1~", 1, false}, "r-1~x": {"r-1~x", 1, false}, "r-1~2~3": {"r-1~2~3", 1, false}, "~2": {"", 2, false}, "r/1~2": {"r/1", 2, false},
	} {
		callers, n := schemas.Generation(id)
		require.Equal(t, want.callers, callers, id)
		require.Equal(t, want.n, n, id)
		require.Equal(t, want.valid, schemas.ValidActionID(id), id)
		require.False(t, schemas.ValidID(id) && n > 1, "no caller can give %s", id)
	}
	long := strings.Repeat("a", 128)
	require.True(t, schemas.ValidActionID(schemas.Successor(long, schemas.MaxGeneration)))
	require.False(t, schemas.ValidActionID(schemas.Successor(long+"a", 2)))
}
