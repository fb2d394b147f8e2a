package ingress

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachPieceHasItsTime: a large body may take as long as it needs while it flows.
func TestEachPieceHasItsTime(t *testing.T) {
	t.Parallel()
	times := 0
	in := &arriving{from: bytes.NewReader(make([]byte, 3*spoolPiece+1)), limit: 4 * spoolPiece, more: func() { times++ }}
	n, err := io.Copy(io.Discard, in)
	require.NoError(t, err)
	require.EqualValues(t, 3*spoolPiece+1, n)
	require.Equal(t, 3, times)
}
