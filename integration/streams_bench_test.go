//go:build e2e

package integration_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// BenchmarkIdleStreams is the memory of the whole program while 10,000 streams of
// 100 silent runs are open, beside what it takes with the runs alone.
func BenchmarkIdleStreams(b *testing.B) {
	const streams, runs = 10_000, 100
	upstream := benchAgent(b)
	for b.Loop() {
		w := benchNode(b, upstream.URL, "process")
		for i := range runs {
			resp, text := w.request(b, http.MethodPost, schemas.RouteRunSync, runBody(fmt.Sprintf("idle-%d", i), "BENCH", `{"hold":true}`), "Prefer", "respond-async")
			require.Equal(b, http.StatusAccepted, resp.StatusCode, text)
		}
		alone := resident(b, w)
		conns := make([]net.Conn, streams)
		for i := range conns {
			conns[i] = openStream(b, w, fmt.Sprintf("idle-%d", i%runs))
		}
		open := resident(b, w)
		b.ReportMetric(alone, "MiB-before")
		b.ReportMetric(open, "MiB")
		b.ReportMetric((open-alone)*1024/streams, "KiB/stream")
		for _, c := range conns {
			require.NoError(b, c.Close())
		}
		w.Kill()
	}
}

// openStream opens a run's stream and reads its first event.
func openStream(b *testing.B, w *weir, id string) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	require.NoError(b, err)
	require.NoError(b, c.SetDeadline(time.Now().Add(30*time.Second)))
	body := runBody(id, "BENCH", `{"hold":true}`)
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

// resident is the memory of a program, in MiB.
func resident(b *testing.B, w *weir) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.PID()))
	require.NoError(b, err)
	_, rest, ok := strings.Cut(string(text), "VmRSS:")
	require.True(b, ok)
	n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	require.NoError(b, err)
	return n / 1024
}

// BenchmarkResume reads the stream of a run that has ended after 100,000 events:
// how long its first event takes and how long all of them, from the beginning and
// from just before the end.
func BenchmarkResume(b *testing.B) {
	const events = 100_000
	upstream := benchAgent(b)
	w := benchNode(b, upstream.URL, "process")
	var last frame
	resp, err := post(b.Context(), http.DefaultClient, w.URL+schemas.RouteRunStream, runBody("long", "BENCH", fmt.Sprintf(`{"chunks":%d}`, events)))
	require.NoError(b, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	all := frames(data)
	require.Len(b, all, events+2, "%.300s", data)
	last = all[len(all)-3]
	for _, dialect := range []string{"runs", "actions"} {
		for from, after := range map[string]string{"start": "", "end": last.id} {
			b.Run(dialect+"/"+from, func(b *testing.B) {
				a := ask{method: http.MethodGet, path: "/v1/actions/long/events", after: after}
				if dialect == "runs" {
					a = ask{method: http.MethodPost, path: schemas.RouteRunStream, after: after, body: runBody("long", "BENCH", fmt.Sprintf(`{"chunks":%d}`, events))}
				}
				var first, whole time.Duration
				for b.Loop() {
					f, t := timeStream(b, w.URL, a)
					first, whole = first+f, whole+t
				}
				b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "first-ms")
				b.ReportMetric(float64(whole.Microseconds())/1000/float64(b.N), "all-ms")
			})
		}
	}
}

// timeStream is how long the first event and the end of a stream take.
func timeStream(b *testing.B, base string, a ask) (first, all time.Duration) {
	b.Helper()
	begun := time.Now()
	req, err := http.NewRequestWithContext(b.Context(), a.method, base+a.path, strings.NewReader(a.body))
	require.NoError(b, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", a.after)
	if a.after == "" {
		req.Header.Del("Last-Event-ID")
	}
	if a.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	defer resp.Body.Close()
	require.Equal(b, http.StatusOK, resp.StatusCode)
	require.NoError(b, dataLines(resp.Body, func([]byte) {
		if first == 0 {
			first = time.Since(begun)
		}
	}))
	return first, time.Since(begun)
}
