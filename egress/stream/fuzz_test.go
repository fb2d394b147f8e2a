package stream_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"

	"weir/egress/stream"
)

func FuzzFrame(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "\u2028", "data: x\n\nevent: y", "\x00", "\xff", `"\`} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, s string, id uint64) {
		data, err := json.Marshal(s)
		require.NoError(t, err)
		frame := stream.AppendFrame(nil, id, "progress", data)
		var got []sse.Event
		for ev, err := range sse.Read(bytes.NewReader(frame), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			require.NoError(t, err)
			got = append(got, ev)
		}
		require.Len(t, got, 1)
		require.Equal(t, sse.Event{LastEventID: strconv.FormatUint(id, 10), Type: "progress", Data: string(data)}, got[0])
	})
}

func FuzzPosition(f *testing.F) {
	for _, s := range []string{"0", "18446744073709551615", "18446744073709551616", "-1", "1e3", " 1", "007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := stream.Position(s)
		if ok {
			require.LessOrEqual(t, len(s), 20)
			require.Equal(t, strings.TrimLeft(s, "0"), strings.TrimLeft(strconv.FormatUint(n, 10), "0"))
		}
	})
}
