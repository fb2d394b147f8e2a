//go:build e2e

package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// benchAgent streams as many progress events as a run's inputs say, each with the
// time at which it was written: one every pace, or as fast as it can.
func benchAgent(tb testing.TB) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var run struct {
			schemas.RunRequest
			Inputs struct {
				Chunks int           `json:"chunks"`
				Pace   time.Duration `json:"pace"`
				Hold   bool          `json:"hold"`
			} `json:"inputs"`
		}
		data, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(data, &run) != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		fmt.Fprintf(w, "event: started\ndata: {\"request_id\":%q}\n\n", run.RequestID)
		_ = out.Flush()
		if run.Inputs.Hold {
			<-r.Context().Done()
			return
		}
		var tick *time.Ticker
		if run.Inputs.Pace > 0 {
			tick = time.NewTicker(run.Inputs.Pace)
			defer tick.Stop()
		}
		for i := range run.Inputs.Chunks {
			if tick != nil {
				<-tick.C
			}
			fmt.Fprintf(w, "event: progress\ndata: {\"at\":%d,\"n\":%d,\"text\":\"a token or two\"}\n\n", time.Now().UnixNano(), i)
			if out.Flush() != nil {
				return
			}
		}
		fmt.Fprintf(w, "event: complete\ndata: {\"type\":\"final\",\"request_id\":%q,\"task_type\":%q,\"status\":\"ok\",\"success\":true,\"outputs\":{}}\n\n",
			run.RequestID, run.TaskType)
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// benchNode is the program with that agent, and room for many runs.
func benchNode(b *testing.B, agentURL, durability string) *weir {
	b.Helper()
	path := filepath.Join(b.TempDir(), "weir.yaml")
	text := fmt.Sprintf("workers: {slots: 600}\ndeadline: {run: 1h}\nagents:\n  BENCH: {url: %q, mode: stream, concurrency: 600}\n", agentURL)
	require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
	return serve(b, b.TempDir(), "--config", path, "--durability", durability, "--log-level", "error")
}

// streamed posts a run and calls each with every progress event's data.
func streamed(ctx context.Context, client *http.Client, base, id string, chunks int, pace time.Duration, each func(data []byte)) error {
	body := runBody(id, "BENCH", fmt.Sprintf(`{"chunks":%d,"pace":%d}`, chunks, pace))
	resp, err := post(ctx, client, base+schemas.RouteRunStream, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n := 0
	err = dataLines(resp.Body, func(data []byte) {
		if bytes.Contains(data, []byte(`"at":`)) {
			n++
			each(data)
		}
	})
	if err == nil && n != chunks {
		err = fmt.Errorf("%d chunks of %d", n, chunks)
	}
	return err
}

func post(ctx context.Context, client *http.Client, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, nil
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

// sentAt is when the agent wrote an event.
func sentAt(data []byte) time.Time {
	_, rest, _ := bytes.Cut(data, []byte(`"at":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	n, _ := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, n)
}

// benchRuns reads b.N chunks over a number of streams at once.
func benchRuns(b *testing.B, base string, streams int, pace time.Duration) []time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	took := make([]time.Duration, 0, b.N)
	var group sync.WaitGroup
	chunks := max(1, b.N/streams)
	for i := range streams {
		group.Go(func() {
			mine := make([]time.Duration, 0, chunks)
			err := streamed(b.Context(), client, base, fmt.Sprintf("bench-%d-%d", b.N, i), chunks, pace, func(data []byte) {
				mine = append(mine, time.Since(sentAt(data)))
			})
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

// everyPath runs f against the agent itself and against Weir before it.
func everyPath(b *testing.B, f func(b *testing.B, base string)) {
	b.Helper()
	upstream := benchAgent(b)
	b.Run("direct", func(b *testing.B) { f(b, upstream.URL) })
	for _, durability := range []string{"process", "disk"} {
		w := benchNode(b, upstream.URL, durability)
		b.Run("weir-"+durability, func(b *testing.B) { f(b, w.URL) })
	}
}

// BenchmarkChunk is the time from an agent's write of an event to its arrival at
// the reader, at a pace that leaves the machine idle in between.
func BenchmarkChunk(b *testing.B) {
	for _, streams := range []int{1, 20} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			everyPath(b, func(b *testing.B, base string) {
				b.Helper()
				took := benchRuns(b, base, streams, 20*time.Millisecond)
				percentiles(b, took)
			})
		})
	}
}

// BenchmarkChunks is how many events a second pass, as fast as they go.
func BenchmarkChunks(b *testing.B) {
	for _, streams := range []int{1, 500} {
		b.Run(strconv.Itoa(streams), func(b *testing.B) {
			everyPath(b, func(b *testing.B, base string) {
				b.Helper()
				took := benchRuns(b, base, streams, 0)
				b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "events/s")
			})
		})
	}
}

// percentiles reports the median and the 99th of what was measured.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
}
