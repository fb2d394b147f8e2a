package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sse "github.com/tmaxmax/go-sse"
)

// FuzzTail reads whatever a server says as `weir tail` does, and shows it.
func FuzzTail(f *testing.F) {
	for _, s := range []string{
		"id: 1\nevent: settled\ndata: {\"settled\":{\"outcome\":\"succeeded\"},\"time\":\"t\"}\n\n", "data: []\n\n", "data: {\"settled\":1}\nevent: settled\n\n", "event: \ndata: {\"\":{\"a\":\"" + strings.Repeat("é", 300) + "\"}}\n\n",
		"data: {\ndata: }\n\n", "data: null\n\n", "data: {\"time\":{},\"code\":null}\n\n", ":\n\n", "\x00", "data: \xff\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		for e, err := range sse.Read(bytes.NewReader(wire), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				return
			}
			var plain, raw bytes.Buffer
			_ = showEvent(&environment{Streams: Streams{Out: &plain}}, &clientFlags{}, e)
			require.NoError(t, showEvent(&environment{Streams: Streams{Out: &raw}}, &clientFlags{asJSON: true}, e))
			require.Equal(t, e.Data+"\n", raw.String(), "a program gets what was sent")
		}
	})
}
