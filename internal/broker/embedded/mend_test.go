package embedded

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// worked is a data directory whose consumer has acknowledged some of its messages, has some under
// way, and was given one twice. It returns the path of the consumer's state.
func worked(t *testing.T, dir string) string {
	t.Helper()
	s := start(t, Config{Dir: dir})
	nc, js := connect(t, s)
	must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}))(t)
	c := must(js.CreateConsumer(t.Context(), "S", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy}))(t)
	for i := range 20 {
		must(js.Publish(t.Context(), fmt.Sprintf("s.%d", i), nil))(t)
	}
	batch := must(c.Fetch(10))(t)
	var given []jetstream.Msg
	for m := range batch.Messages() {
		given = append(given, m)
	}
	for _, m := range given { // all of them, or the batch is filled up with what comes again
		meta := must(m.Metadata())(t)
		switch n := meta.Sequence.Stream; {
		case n == 5:
			require.NoError(t, m.Nak())
		case n%3 > 0:
			require.NoError(t, m.DoubleAck(t.Context()))
		}
	}
	again := must(c.Next(jetstream.FetchMaxWait(5 * time.Second)))(t)
	meta := must(again.Metadata())(t)
	require.EqualValues(t, 2, meta.NumDelivered)
	nc.Close()
	require.NoError(t, s.Stop())
	names := must(fs.Glob(os.DirFS(dir), consumerStates))(t)
	require.Len(t, names, 1)
	return filepath.Join(dir, names[0])
}

func TestConsumerStateIsRead(t *testing.T) {
	t.Parallel()
	whole := must(os.ReadFile(worked(t, t.TempDir())))(t)
	require.True(t, readable(whole))
	require.True(t, readable(nil))
	for n := 1; n < len(whole); n++ {
		require.False(t, readable(whole[:n]), "cut at %d", n)
		require.False(t, readable(slices.Concat(whole[:n], make([]byte, len(whole)-n))) && n < len(whole)-2, "zeros from %d", n)
	}
	require.False(t, readable(append(slices.Clip(whole), 1)))
	require.False(t, readable(make([]byte, len(whole))))
}

// TestDamagedConsumerStateIsMended: what a power cut leaves of a consumer's state keeps nobody from
// starting, and loses no message.
func TestDamagedConsumerStateIsMended(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
		"half":      func(b []byte) []byte { return b[:len(b)/2] },
		"untouched": func(b []byte) []byte { return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a[b") // it is no pattern
			path := worked(t, dir)
			state := must(os.ReadFile(path))(t)
			require.NoError(t, os.WriteFile(path, damage(state), 0o600))
			var log bytes.Buffer
			s := start(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			_, js := connect(t, s)
			c := must(js.CreateOrUpdateConsumer(t.Context(), "S", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy}))(t)
			info := must(c.Info(t.Context()))(t)
			if name == "untouched" {
				require.Empty(t, log.String())
				require.EqualValues(t, 10, info.NumPending)
				return
			}
			require.Contains(t, log.String(), "msg=consumers_restarted count=1")
			require.EqualValues(t, 20, info.NumPending, "it begins anew")
		})
	}
}
