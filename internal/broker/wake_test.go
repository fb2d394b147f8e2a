package broker

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// wakes subscribes to the http wake-ups of partition 0 until the test ends.
func (n *node) wakes(t *testing.T) <-chan *message.Message {
	t.Helper()
	s, _ := n.subscribe(t, SubscriberConfig{})
	out := must(s.Subscribe(t.Context(), Topics(0)[1]))(t)
	return out
}

// woken waits for the action's wake, acking everything.
func woken(t *testing.T, out <-chan *message.Message, id string) schemas.Record {
	t.Helper()
	for {
		m := next(t, out)
		rec, _ := RecordOf(m)
		m.Ack()
		if rec.Subject == layout.Subject(ref(id), schemas.SectionWake) {
			return rec
		}
	}
}

func TestLaterWakeReplacesTheEarlier(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	out := n.wakes(t)
	late := time.Now().Add(6500 * time.Millisecond)
	require.NoError(t, n.Wake(t.Context(), ref("a"), time.Now().Add(5*time.Second)))
	require.NoError(t, n.Wake(t.Context(), ref("a"), late))
	require.NoError(t, n.Wake(t.Context(), ref("other"), time.Now().Add(6*time.Second)))
	rec := woken(t, out, "a")
	require.False(t, rec.Time.Before(late))
	// That was the only one, and its schedule is used up.
	all := must(n.Range(t.Context(), schemas.LogStream(0), layout.All(ref("a")), 0, 10))(t)
	require.Len(t, all, 1)
	_, err := n.Last(t.Context(), schemas.LogStream(0), layout.Schedule(ref("a")))
	require.ErrorIs(t, err, fault.ErrNotFound)

	// The other way round: an earlier one replaces a later.
	require.NoError(t, n.Wake(t.Context(), ref("b"), time.Now().Add(time.Hour)))
	require.NoError(t, n.Wake(t.Context(), ref("b"), time.Now().Add(300*time.Millisecond)))
	woken(t, out, "b")
}
