package nearest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"ls", "list", "status", "since"}
	for word, want := range map[string]string{
		"lst": "list", "lx": "ls", "statis": "status", "sinec": "since", "status": "status", "STATSU": "status",
		"": "", "pool": "", "xy": "", strings.Repeat("s", 1<<20): "",
	} {
		require.Equal(t, want, nearest.Name(word, names), "%.20q", word)
	}
	require.Equal(t, "; did you mean since?", nearest.Hint("sines", names))
	require.Empty(t, nearest.Hint("pool", names))
}
