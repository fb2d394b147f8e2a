package broker

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

var _ ledger.Sender = (*Broker)(nil)

// TestSend: a message that was sent is stored whether or not anybody waits for it, and
// who waits hears what Append says.
func TestSend(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	first := n.Send(t.Context(), claim("a", "one"))
	second := n.Send(t.Context(), claim("a", "two"))
	seq, err := first(t.Context())
	require.NoError(t, err)
	_, err = second(t.Context())
	require.ErrorIs(t, err, fault.ErrFenced)
	got, err := n.Last(t.Context(), schemas.LogStream(0), layout.AnyKind("t", "a"))
	require.NoError(t, err)
	require.Equal(t, seq, got.Seq)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.Send(over, claim("b", "never sent"))(t.Context())
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = n.Last(t.Context(), schemas.LogStream(0), layout.AnyKind("t", "b"))
	require.ErrorIs(t, err, fault.ErrNotFound)
	sent := n.Send(t.Context(), claim("c", "sent"))
	if _, err = sent(over); err != nil { // the acknowledgement may have come first
		require.ErrorIs(t, err, fault.ErrUnavailable, "the caller has gone")
	}
}

// TestCostOfAnAppend: what the client and the server allocate for one, all that is
// republished included.
func TestCostOfAnAppend(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	n := open(t, embedded.Config{}, Config{})
	var id atomic.Int64
	cost := testing.AllocsPerRun(200, func() {
		if _, err := n.Append(context.Background(), claim(strconv.FormatInt(id.Add(1), 10), "x")); err != nil {
			t.Error(err)
		}
	})
	t.Log(cost, "allocations")
	require.LessOrEqual(t, cost, 90.0)
}
