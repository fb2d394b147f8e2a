package stream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
)

// hurried is a response that knows the deadline of its writes.
type hurried struct {
	*httptest.ResponseRecorder
	until time.Time
	set   int
}

func (h *hurried) SetWriteDeadline(t time.Time) error {
	h.until = t
	h.set++
	return nil
}

func (*hurried) SetReadDeadline(time.Time) error { return nil }

var _ http.ResponseWriter = (*hurried)(nil)

// TestEveryWriteHasItsTime, however long the stream is, and those close to each other have
// one deadline.
func TestEveryWriteHasItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 8 * time.Second
		h := &hurried{ResponseRecorder: httptest.NewRecorder()}
		w := stream.NewWriter(h, timeout)
		w.Open()
		for range 40 {
			require.NoError(t, w.Write([]byte("data: x\n\n")))
			left := time.Until(h.until)
			require.GreaterOrEqual(t, left, timeout)
			require.LessOrEqual(t, left, timeout+timeout/4)
			require.NoError(t, w.Flush())
			time.Sleep(time.Second)
		}
		require.Equal(t, 14, h.set, "one for three of them")
		w.End()
		require.Zero(t, h.until)
	})
}
