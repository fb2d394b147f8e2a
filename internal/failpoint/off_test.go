//go:build !failpoints

package failpoint_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/failpoint"
)

// TestOff: in the program as it is shipped there is nothing to arm.
func TestOff(t *testing.T) {
	t.Setenv("WEIR_FAILPOINT", string(failpoint.Claimed)+"=kill")
	failpoint.At(failpoint.Claimed, "a")
	require.False(t, failpoint.Lost(failpoint.Claimed, "a"))
	r := io.Reader(bytes.NewReader([]byte("body")))
	require.Same(t, r, failpoint.Halfway(failpoint.MidBody, "a", r, 4))
	require.Zero(t, testing.AllocsPerRun(100, func() { failpoint.At(failpoint.Appended, "a") }))
}
