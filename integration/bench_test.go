//go:build e2e

package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// script is what an upstream streams: so many chunks, one every pace, or as fast as it can; with
// hold it begins, and is silent.
type script struct {
	Chunks int           `json:"chunks"`
	Pace   time.Duration `json:"pace"`
	Hold   bool          `json:"hold"`
}

// dialect is a protocol whose streams are measured.
type dialect struct {
	route  string
	config string // of a node with room for many streams; with the address of the upstream
	ask    func(id string, s script) string
	read   func(body []byte) (id string, s script, err error)
	// What an upstream writes: a chunk with "@" and the time at which it was written, in
	// nanoseconds, and the others with $ID for the request's id.
	head, chunk, end string
}

var runsDialect = dialect{
	route:  schemas.RouteRunStream,
	config: "workers: {slots: 600}\ndeadline: {run: 1h}\nagents:\n  BENCH: {url: %q, mode: stream, concurrency: 600}\n",
	ask: func(id string, s script) string {
		return runBody(id, "BENCH", fmt.Sprintf(`{"chunks":%d,"pace":%d,"hold":%t}`, s.Chunks, s.Pace, s.Hold))
	},
	read: func(body []byte) (string, script, error) {
		var run struct {
			schemas.RunRequest
			Inputs script `json:"inputs"`
		}
		err := json.Unmarshal(body, &run)
		return run.RequestID, run.Inputs, err
	},
	head:  `event: started` + "\n" + `data: {"request_id":"$ID"}` + "\n\n",
	chunk: `event: progress` + "\n" + `data: {"at":"@%d","text":"a token or two"}` + "\n\n",
	end: `event: complete` + "\n" + `data: {"type":"final","request_id":"$ID","task_type":"BENCH","status":"ok","success":true,"outputs":{}}` +
		"\n\n",
}

const chatHead = `data: {"id":"gen-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[{"index":0,"delta":`

var chatDialect = dialect{
	route:  schemas.RouteChat,
	config: "workers: {chats: 600}\nmodels:\n  bench: {url: %q, usage: false}\n",
	ask: func(_ string, s script) string {
		return chatBody("bench", true, fmt.Sprintf(`,"seed":%d,"temperature":%g`, s.Chunks, s.Pace.Seconds()*1000))
	},
	read: func(body []byte) (_ string, s script, err error) {
		var asked struct {
			Seed        int     `json:"seed"`
			Temperature float64 `json:"temperature"`
		}
		err = json.Unmarshal(body, &asked)
		return "", script{Chunks: asked.Seed, Pace: time.Duration(asked.Temperature * float64(time.Millisecond))}, err
	},
	head:  chatHead + `{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
	chunk: chatHead + `{"content":"@%d "},"finish_reason":null}]}` + "\n\n",
	end:   chatHead + `{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
}

// upstream streams what each request asks for.
func (d dialect) upstream(tb testing.TB) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		id, s, unread := d.read(body)
		if err != nil || unread != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		_, _ = io.WriteString(w, strings.ReplaceAll(d.head, "$ID", id))
		_ = out.Flush()
		if s.Hold {
			<-r.Context().Done()
			return
		}
		var tick <-chan time.Time
		if s.Pace > 0 {
			ticker := time.NewTicker(s.Pace)
			defer ticker.Stop()
			tick = ticker.C
		}
		for range s.Chunks {
			if tick != nil {
				<-tick
			}
			fmt.Fprintf(w, d.chunk, time.Now().UnixNano())
			if out.Flush() != nil {
				return
			}
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(d.end, "$ID", id))
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// node is the program before an upstream, and its data directory.
func (d dialect) node(b *testing.B, upstream, durability string) (w *weir, data string) {
	b.Helper()
	data = b.TempDir()
	config := configFile(b, fmt.Sprintf(d.config, upstream))
	return serve(b, data, "--config", config, "--durability", durability, "--log-level", "error"), data
}

// everyPath runs f against the upstream itself and against Weir before it. data is the data
// directory of the latter, and empty of the former.
func (d dialect) everyPath(b *testing.B, f func(b *testing.B, base, data string)) {
	b.Helper()
	upstream := d.upstream(b)
	b.Run("direct", func(b *testing.B) { f(b, upstream.URL, "") })
	for _, durability := range []string{"process", "disk"} {
		w, data := d.node(b, upstream.URL, durability)
		b.Run("weir-"+durability, func(b *testing.B) { f(b, w.URL, data) })
	}
}

// stream reads one stream: how long each chunk took, and how long the first data of the answer.
func (d dialect) stream(ctx context.Context, client *http.Client, base, id string, s script) (took []time.Duration, first time.Duration, err error) {
	took = make([]time.Duration, 0, s.Chunks)
	start := time.Now()
	resp, err := post(ctx, client, base+d.route, d.ask(id, s))
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	err = dataLines(resp.Body, func(data []byte) {
		if first == 0 {
			first = time.Since(start)
		}
		for {
			_, rest, ok := bytes.Cut(data, []byte("@")) // neighbours may have been joined
			if !ok {
				break
			}
			end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			if nanos, err := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64); err == nil {
				took = append(took, time.Since(time.Unix(0, nanos)))
			}
			data = rest
		}
	})
	if err == nil && len(took) != s.Chunks {
		err = fmt.Errorf("%d chunks of %d", len(took), s.Chunks)
	}
	return took, first, err
}

// streams reads b.N chunks over a number of streams at once.
func (d dialect) streams(b *testing.B, base string, streams int, pace time.Duration) (took []time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	var group sync.WaitGroup
	for i := range streams {
		group.Go(func() {
			s := script{Chunks: max(1, b.N/streams), Pace: pace}
			mine, _, err := d.stream(b.Context(), client, base, fmt.Sprintf("bench-%d-%d", b.N, i), s)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	require.NoError(b, failed)
	return took
}

// dataLines calls each with what follows "data: " on every line of a stream.
func dataLines(stream io.Reader, each func(data []byte)) error {
	scan := bufio.NewScanner(stream)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		if data, ok := bytes.CutPrefix(scan.Bytes(), []byte("data: ")); ok {
			each(data)
		}
	}
	return scan.Err()
}

// percentiles reports the median and the 99th of what was measured.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
}

// BenchmarkChunk is the time from an agent's write of an event to its arrival at
// the reader, at a pace that leaves the machine idle in between.
func BenchmarkChunk(b *testing.B) {
	for _, streams := range []int{1, 20} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			runsDialect.everyPath(b, func(b *testing.B, base, _ string) {
				b.Helper()
				percentiles(b, runsDialect.streams(b, base, streams, 20*time.Millisecond))
			})
		})
	}
}

// BenchmarkChunks is how many events a second pass, as fast as they go.
func BenchmarkChunks(b *testing.B) {
	for _, streams := range []int{1, 500} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			runsDialect.everyPath(b, func(b *testing.B, base, _ string) {
				b.Helper()
				took := runsDialect.streams(b, base, streams, 0)
				b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "events/s")
			})
		})
	}
}

// BenchmarkFirstChunk is the time from a request to the first of its answer, one
// request after the other.
func BenchmarkFirstChunk(b *testing.B) {
	chatDialect.everyPath(b, func(b *testing.B, base, _ string) {
		b.Helper()
		client := &http.Client{}
		defer client.CloseIdleConnections()
		took := make([]time.Duration, 0, b.N)
		for range b.N {
			_, first, err := chatDialect.stream(b.Context(), client, base, "", script{Chunks: 1, Pace: time.Millisecond})
			require.NoError(b, err)
			took = append(took, first)
		}
		percentiles(b, took)
	})
}

// BenchmarkModelChunk is the time from a model's write of a chunk to its arrival at
// the reader: fifty a second on each of so many streams. What the log has grown by,
// the ends and the evidence included, is given per text.
func BenchmarkModelChunk(b *testing.B) {
	for _, streams := range []int{1, 20, 500} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			chatDialect.everyPath(b, func(b *testing.B, base, data string) {
				b.Helper()
				before := sizeOf(b, data)
				late := chatDialect.streams(b, base, streams, 20*time.Millisecond)
				percentiles(b, late)
				if data != "" {
					b.ReportMetric(float64(sizeOf(b, data)-before)/float64(len(late)), "log-B/chunk")
				}
				b.ReportMetric(float64(len(late))/b.Elapsed().Seconds(), "chunks/s")
			})
		})
	}
}

// sizeOf is how many bytes the files under a directory have.
func sizeOf(tb testing.TB, dir string) (n int64) {
	tb.Helper()
	if dir == "" {
		return 0
	}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() { // what is gone by now has no size
			if info, gone := d.Info(); gone == nil {
				n += info.Size()
			}
		}
		return nil
	})
	require.NoError(tb, err)
	return n
}

// BenchmarkIdleStreams is the memory of the whole program while 10,000 streams of
// 100 silent runs are open, beside what it takes with the runs alone.
func BenchmarkIdleStreams(b *testing.B) {
	const streams, runs = 10_000, 100
	upstream := runsDialect.upstream(b)
	idle := func(i int) string { return runsDialect.ask(fmt.Sprintf("idle-%d", i), script{Hold: true}) }
	for b.Loop() {
		w, _ := runsDialect.node(b, upstream.URL, "process")
		for i := range runs {
			resp, text := w.request(b, http.MethodPost, schemas.RouteRunSync, idle(i), "Prefer", "respond-async")
			require.Equal(b, http.StatusAccepted, resp.StatusCode, text)
		}
		alone := memory(b, w.PID(), "VmRSS")
		conns := make([]net.Conn, streams)
		for i := range conns {
			conns[i] = openStream(b, w, idle(i%runs))
		}
		opened := memory(b, w.PID(), "VmRSS")
		b.ReportMetric(float64(alone)/(1<<20), "MiB-before")
		b.ReportMetric(float64(opened)/(1<<20), "MiB")
		b.ReportMetric(float64(opened-alone)/1024/streams, "KiB/stream")
		for _, c := range conns {
			require.NoError(b, c.Close())
		}
		w.Kill()
	}
}

// openStream opens a run's stream and reads its first event.
func openStream(b *testing.B, w *weir, body string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	require.NoError(b, err)
	require.NoError(b, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", schemas.RouteRunStream, len(body), body)
	require.NoError(b, err)
	buf := make([]byte, 4096)
	for n := 0; !bytes.Contains(buf[:n], []byte("event: started")); {
		m, err := c.Read(buf[n:])
		require.NoError(b, err, "%s", buf[:n])
		n += m
	}
	return c
}

// BenchmarkResume reads the stream of a run that has ended after 100,000 events:
// how long its first event takes and how long all of them, from the beginning and
// from just before the end.
func BenchmarkResume(b *testing.B) {
	long := script{Chunks: 100_000}
	upstream := runsDialect.upstream(b)
	w, _ := runsDialect.node(b, upstream.URL, "process")
	resp, err := post(b.Context(), http.DefaultClient, w.URL+schemas.RouteRunStream, runsDialect.ask("long", long))
	require.NoError(b, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	all := frames(data)
	require.Len(b, all, long.Chunks+2, "%.300s", data)
	for _, dialect := range []string{"runs", "actions"} {
		for from, after := range map[string]string{"start": "", "end": all[len(all)-3].id} {
			b.Run(dialect+"/"+from, func(b *testing.B) {
				method, url, body := http.MethodGet, w.URL+"/v1/actions/long/events", ""
				if dialect == "runs" {
					method, url, body = http.MethodPost, w.URL+schemas.RouteRunStream, runsDialect.ask("long", long)
				}
				var first, whole time.Duration
				for b.Loop() {
					begun, seen := time.Now(), time.Duration(0)
					resp, err := open(b.Context(), http.DefaultClient, method, url, body, "Last-Event-ID", after)
					require.NoError(b, err)
					require.Equal(b, http.StatusOK, resp.StatusCode)
					require.NoError(b, dataLines(resp.Body, func([]byte) {
						if seen == 0 {
							seen = time.Since(begun)
						}
					}))
					require.NoError(b, resp.Body.Close())
					first, whole = first+seen, whole+time.Since(begun)
				}
				b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "first-ms")
				b.ReportMetric(float64(whole.Microseconds())/1000/float64(b.N), "all-ms")
			})
		}
	}
}
