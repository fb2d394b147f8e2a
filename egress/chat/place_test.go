package chat_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/chat"
	"weir/schemas"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]schemas.ChatPlace{
		"7":                       {Seq: 7},
		"0":                       {},
		"7.1":                     {Seq: 7, Chunk: 1},
		"7.2147483647":            {Seq: 7, Chunk: math.MaxInt32},
		"18446744073709551614.10": {Seq: math.MaxUint64 - 1, Chunk: 10},
	} {
		got, ok := chat.Place(id)
		require.True(t, ok, id)
		require.Equal(t, want, got, id)
	}
	for _, id := range []string{
		"", ".", "7.", ".1", "7.0", "7.01", "0.1", "7.1.1", "7.-1", "7.+1", "-7.1", "7.1 ", " 7.1", "7 .1", "7,1", "7.1e1", "7.x", "x.1",
		"7.2147483648", "7.99999999999999999999", "18446744073709551615.1", "7.\uff11",
	} {
		got, ok := chat.Place(id)
		require.False(t, ok, id)
		require.Zero(t, got, id)
	}
}

// FuzzPlace holds what is read of an id against the one form that is written, but for
// zeros before a position, which are read everywhere.
func FuzzPlace(f *testing.F) {
	for _, id := range []string{"7", "7.1", "007.12", "7.", "7.0", "0.3", "18446744073709551614.2147483647"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, ok := chat.Place(id)
		if !ok {
			require.Zero(t, p)
			return
		}
		seq, chunk, inside := strings.Cut(id, ".")
		n, err := strconv.ParseUint(seq, 10, 64)
		require.NoError(t, err)
		require.Equal(t, n, p.Seq)
		require.Equal(t, inside, p.Chunk > 0)
		if inside {
			require.Equal(t, chunk, strconv.Itoa(p.Chunk))
			require.Positive(t, p.Seq)
		}
	})
}
