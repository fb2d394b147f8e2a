package egress_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/internal/wire"
	"weir/schemas"
)

// tap is a feed's subscription that a test writes to itself.
type tap struct {
	fn atomic.Pointer[func(schemas.Record)]
}

func (t *tap) Live(_ string, fn func(schemas.Record), _ func()) (stop func(), err error) {
	t.fn.Store(&fn)
	return func() {}, nil
}

// speech is a completion whose deltas are made outside of the log.
type speech struct {
	subject string
	seq     uint64
	n       int
}

// delta is the record of the next delta, as the log republishes it.
func (s *speech) delta(tb testing.TB, text string) schemas.Record {
	tb.Helper()
	s.seq++
	s.n++
	chunk := fmt.Sprintf(`{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"openai/gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06737a9306","choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]}`, text)
	doc, err := ledger.Encode(schemas.ChatDelta{Chunks: []json.RawMessage{json.RawMessage(chunk)}})
	require.NoError(tb, err)
	data, err := ledger.Encode(schemas.Event{V: schemas.EventVersion, N: s.n, Type: schemas.EventDelta, Time: time.Now().UTC(), Data: doc})
	require.NoError(tb, err)
	return schemas.Record{Stream: "s", Subject: s.subject, Seq: s.seq, Time: time.Now(), Data: data}
}

// hall is a node with streams of completions over real connections.
type hall struct {
	tap    *tap
	feed   *stream.Feed
	server *httptest.Server
	led    *ledger.Ledger
	came   chan struct{} // for each stream that is there
}

func openHall(tb testing.TB) *hall {
	tb.Helper()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	h := &hall{tap: &tap{}, came: make(chan struct{}, 1000), led: ledger.New(log, layout, nil)}
	var err error
	h.feed, err = stream.Open(log, h.tap, stream.Config{Layout: layout, Result: egress.Result, Barrier: func(context.Context) error { return nil }})
	require.NoError(tb, err)
	room, err := egress.New(log, h.led, h.feed, egress.Config{Layout: layout, Live: log, Reader: readerOf, HTTP: stream.HTTP{Watching: func(d int) {
		if d > 0 {
			h.came <- struct{}{}
		}
	}}})
	require.NoError(tb, err)
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Begin(r.Context())
		id := r.URL.Path[1:]
		room.Chat(w, r, chatRef(id), receipt(id, false), true, schemas.ChatPlace{}, -1, nil)
		wire.Finish(r.Context())
	}))
	h.server.Listener = wire.Wrap(h.server.Listener, wire.Config{})
	h.server.Config.ConnContext = wire.Context
	h.server.Start()
	tb.Cleanup(func() {
		h.feed.Close()
		h.server.Close()
	})
	return h
}

// listen opens a stream and counts the chunks that come.
func (h *hall) listen(tb testing.TB, wg *sync.WaitGroup, id string, got *sync.WaitGroup) *speech {
	tb.Helper()
	st, _, err := h.led.Claim(context.Background(), schemas.Action{
		ID: id, Tenant: "acme", Kind: schemas.KindChat, Class: schemas.ClassOnce, IDSource: schemas.IDRequest,
		Fingerprint: "f", AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Minute).UTC(), Payload: json.RawMessage(`{}`),
	})
	require.NoError(tb, err)
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", h.server.Listener.Addr().String())
	require.NoError(tb, err)
	_, err = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", id)
	require.NoError(tb, err)
	wg.Go(func() {
		defer conn.Close()
		in := bufio.NewReaderSize(conn, 4096)
		for {
			line, err := in.ReadSlice('\n')
			if err != nil || strings.Contains(string(line), `"error"`) {
				return // the node has stopped
			}
			if len(line) > 6 && string(line[:6]) == "data: " {
				got.Done()
			}
		}
	})
	return &speech{subject: layout.Subject(chatRef(id), schemas.TailEvent), seq: st.Seq, n: st.N}
}

// BenchmarkChatStreams is what one chunk of one of many streams costs from the
// subscription to its client's socket, the client's reading of it included.
func BenchmarkChatStreams(b *testing.B) {
	for _, streams := range []int{1, 500} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			h := openHall(b)
			var done, got sync.WaitGroup
			speeches := make([]*speech, streams)
			for i := range speeches {
				speeches[i] = h.listen(b, &done, fmt.Sprint("c", i), &got)
			}
			for range streams {
				<-h.came
			}
			say := *h.tap.fn.Load()
			records := make([]schemas.Record, streams+b.N)
			for i := range records {
				records[i] = speeches[i%streams].delta(b, " lorem")
			}
			round := func(records []schemas.Record) {
				got.Add(len(records))
				for _, rec := range records {
					say(rec)
				}
				got.Wait()
			}
			round(records[:streams])
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			for rest := range slices.Chunk(records[streams:], streams) {
				round(rest)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
			b.StopTimer()
			h.feed.Close()
			h.server.Close()
			done.Wait()
		})
	}
}

// cpu is how long the process has run so far: what else the machine does is not counted.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var use syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
