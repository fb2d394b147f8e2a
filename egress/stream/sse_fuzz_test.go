package stream_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"

	"weir/egress/stream"
)

// FuzzStream writes a stream of frames and comments as a connection carries it,
// and cuts it at any byte. A client reads the frames that came whole, in order,
// each as it was written, whatever the connection broke off in.
func FuzzStream(f *testing.F) {
	f.Add("a", "b\nc", uint8(3), uint16(1000), true)
	f.Add("", "data: x\n\nid: 7\n\n", uint8(1), uint16(30), false)
	f.Add("\r", "\u2028\x00", uint8(9), uint16(1), true)
	f.Add(":", "event: settled", uint8(2), uint16(61), false)
	f.Fuzz(func(t *testing.T, one, two string, count uint8, at uint16, comments bool) {
		var wire []byte
		var whole []int // where each frame ends
		var want []sse.Event
		for i := range int(count % 16) {
			if comments {
				wire = append(wire, ":\n\n"...)
			}
			data, err := json.Marshal([]string{one, two}[i%2])
			require.NoError(t, err)
			id := uint64(i) + 1
			wire = stream.AppendFrame(wire, id, "", "progress", data)
			whole = append(whole, len(wire))
			want = append(want, sse.Event{LastEventID: strconv.FormatUint(id, 10), Type: "progress", Data: string(data)})
		}
		end := min(int(at), len(wire))
		n := 0
		for n < len(whole) && whole[n] <= end {
			n++
		}
		got := read(wire[:end])
		// The last line break may be what the cut took: its event counts either way.
		require.GreaterOrEqual(t, len(got), n)
		require.LessOrEqual(t, len(got), n+1)
		for i, ev := range got[:n] {
			require.Equal(t, want[i], ev)
		}
		if len(got) == n+1 && len(got) <= len(want) {
			require.True(t, strings.HasPrefix(want[n].Data, got[n].Data), "half an event is at most a part of it")
		}
	})
}

func read(wire []byte) (got []sse.Event) {
	for ev, err := range sse.Read(bytes.NewReader(wire), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			break
		}
		got = append(got, ev)
	}
	return got
}

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
