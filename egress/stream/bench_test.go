package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/ledger"
	"weir/schemas"
)

// BenchmarkFanOut gives one event to many viewers of one action.
func BenchmarkFanOut(b *testing.B) {
	for _, viewers := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(viewers), func(b *testing.B) {
			n := newNode(b, stream.Config{})
			a := n.claim("a")
			readers := make([]*stream.Reader, viewers)
			for i := range readers {
				readers[i] = n.follow(a.st.Seq)
			}
			step := func() {
				a.progress(`{"token":"lorem"}`)
				for _, r := range readers {
					items, err := r.Next(context.Background(), nil)
					if err != nil || len(items) == 0 {
						b.Fatal(err)
					}
					_, _ = io.Discard.Write(items[0].Frame())
				}
			}
			step() // the first event after a resume is read from the log
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}

// BenchmarkWait is the whole of a synchronous answer but HTTP: expect, claim,
// settle, wait. The log in memory is most of it.
func BenchmarkWait(b *testing.B) {
	n := newNode(b, stream.Config{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint("a", i)
		release := n.feed.Expect(ref(id))
		a := n.claim(id)
		a.settle(`1`)
		if _, err := n.feed.WaitClaimed(context.Background(), ref(id)); err != nil {
			b.Fatal(err)
		}
		release()
	}
}

// BenchmarkIdleStreams reports what an idle stream costs a node, its
// connection and HTTP included.
func BenchmarkIdleStreams(b *testing.B) {
	const streams = 4000
	n := newNode(b, stream.Config{})
	a := n.claim("a")
	events := stream.NewEvents(n.feed, stream.HTTP{})
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/:id", func(c *gin.Context) { events.Serve(c.Writer, c.Request, "acme", c.Param("id")) })
	srv := httptest.NewServer(engine)
	defer srv.Close()
	for b.Loop() {
		heap, stack := inUse()
		conns := make([]net.Conn, streams)
		for i := range conns {
			c, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", srv.Listener.Addr().String())
			require.NoError(b, err)
			conns[i] = c
			_, err = fmt.Fprintf(c, "GET /a?after=%d HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", a.st.Seq)
			require.NoError(b, err)
			_, err = io.ReadFull(c, make([]byte, 100))
			require.NoError(b, err)
		}
		heapNow, stackNow := inUse()
		b.ReportMetric(float64(heapNow-heap)/streams/1024, "heap-KiB/stream")
		b.ReportMetric(float64(stackNow-stack)/streams/1024, "stack-KiB/stream")
		for _, c := range conns {
			require.NoError(b, c.Close())
		}
	}
	n.feed.Close()
}

func inUse() (heap, stack uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse, m.StackInuse
}

// TestFanOutAllocatesOnlyThePerViewerBuffer pins what a viewer adds: the event
// is decoded and rendered once, whoever watches.
//
//nolint:paralleltest // other tests' allocations would be counted
func TestFanOutAllocatesOnlyThePerViewerBuffer(t *testing.T) {
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	const viewers = 200
	readers := make([]*stream.Reader, viewers)
	for i := range readers {
		readers[i] = n.follow(a.st.Seq)
	}
	step := func() {
		a.progress(`1`)
		for _, r := range readers {
			items, err := r.Next(context.Background(), nil)
			if err != nil || len(items) != 1 || !strings.HasPrefix(string(items[0].Frame()[:4]), "id: ") {
				t.Fatal("no event")
			}
		}
	}
	step()
	perViewer := testing.AllocsPerRun(20, step) / viewers
	require.Less(t, perViewer, 1.5)
}

// BenchmarkHistory follows an action with a hundred thousand events from its
// beginning, over a real server: how long until the first one, and until all are
// rendered.
func BenchmarkHistory(b *testing.B) {
	const events = 100_000
	server, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Layout: layout})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Stop()) }()
	log, err := broker.Open(b.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(b, err)
	defer log.Close(context.Background())
	feed, err := stream.Open(log, log, stream.Config{Layout: layout, Barrier: log.Barrier})
	require.NoError(b, err)
	defer feed.Close()
	write(b, log, events)
	b.ReportAllocs()
	var first, all time.Duration
	for b.Loop() {
		begin := time.Now()
		r, err := feed.Follow(b.Context(), ref("a"), 0)
		require.NoError(b, err)
		seen := 0
		for {
			items, err := r.Next(b.Context(), nil)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(b, err)
			for _, it := range items {
				_, _ = io.Discard.Write(it.Frame())
				if seen++; seen == 1 {
					first += time.Since(begin)
				}
			}
		}
		all += time.Since(begin)
		r.Close()
		require.Equal(b, events+2, seen)
	}
	b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "first-ms")
	b.ReportMetric(float64(all.Milliseconds())/float64(b.N), "all-ms")
}

// write is an action with so many progress events, settled.
func write(b *testing.B, log ledger.Log, events int) {
	b.Helper()
	led := ledger.New(log, layout, nil)
	st, _, err := led.Claim(b.Context(), schemas.Action{
		ID: "a", Tenant: "acme", Kind: schemas.KindHTTP, IDSource: schemas.IDRequest, Fingerprint: "f",
		AcceptedAt: time.Now().UTC(), Deadline: time.Now().Add(time.Hour).UTC(), Payload: json.RawMessage(`{}`),
	})
	require.NoError(b, err)
	for i := range events {
		data := fmt.Appendf(nil, `{"name":"token","data":{"i":%d,"text":"lorem ipsum dolor sit amet"}}`, i)
		require.NoError(b, led.Append(b.Context(), st, schemas.Event{Type: schemas.EventProgress, Data: data}))
	}
	require.NoError(b, led.Append(b.Context(), st, schemas.Event{
		Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded},
	}))
}
