//go:build e2e

package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// benchModel streams as many chunks as a request's seed says, one every
// temperature milliseconds, each with the time at which it was written as its text.
func benchModel(tb testing.TB) *httptest.Server {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Seed        int     `json:"seed"`
			Temperature float64 `json:"temperature"`
		}
		data, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(data, &asked) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		const head = `data: {"id":"gen-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[{"index":0,"delta":`
		fmt.Fprint(w, head+`{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
		tick := time.NewTicker(time.Duration(asked.Temperature * float64(time.Millisecond)))
		defer tick.Stop()
		for range asked.Seed {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			fmt.Fprintf(w, head+`{"content":"%d "},"finish_reason":null}]}`+"\n\n", time.Now().UnixNano())
			if out.Flush() != nil {
				return
			}
		}
		fmt.Fprint(w, head+`{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// chatNode is the program with that model, and its data directory.
func chatNode(b *testing.B, modelURL, durability string) (w *weir, data string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "weir.yaml")
	text := fmt.Sprintf("workers: {chats: 600}\nmodels:\n  bench: {url: %q, usage: false}\n", modelURL)
	require.NoError(b, os.WriteFile(path, []byte(text), 0o600))
	data = b.TempDir()
	return serve(b, data, "--config", path, "--durability", durability, "--log-level", "error"), data
}

// chatted reads one stream and calls each with how long every text took, and how
// long the first of the answer took in all.
func chatted(ctx context.Context, client *http.Client, base string, chunks int, pace time.Duration, each func(late time.Duration)) (first time.Duration, err error) {
	start := time.Now()
	body := fmt.Sprintf(`{"model":"bench","stream":true,"seed":%d,"temperature":%g,"messages":[{"role":"user","content":"go"}]}`, chunks, pace.Seconds()*1000)
	resp, err := post(ctx, client, base+schemas.RouteChat, body)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, ended := 0, false
	err = dataLines(resp.Body, func(data []byte) {
		if first == 0 {
			first = time.Since(start)
		}
		ended = ended || string(data) == "[DONE]"
		_, rest, _ := bytes.Cut(data, []byte(`"content":"`))
		texts, _, _ := bytes.Cut(rest, []byte(`"`))
		for at := range bytes.FieldsSeq(texts) { // neighbours may have been joined
			if nanos, err := strconv.ParseInt(string(at), 10, 64); err == nil {
				n++
				each(time.Since(time.Unix(0, nanos)))
			}
		}
	})
	if err == nil && (n != chunks || !ended) {
		err = fmt.Errorf("%d texts of %d, whole: %t", n, chunks, ended)
	}
	return first, err
}

// benchChat reads b.N texts over a number of streams at once.
func benchChat(b *testing.B, base string, streams int, pace time.Duration) (late, first []time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	chunks := max(1, b.N/streams)
	var group sync.WaitGroup
	for range streams {
		group.Go(func() {
			mine := make([]time.Duration, 0, chunks)
			begun, err := chatted(b.Context(), client, base, chunks, pace, func(d time.Duration) { mine = append(mine, d) })
			mu.Lock()
			defer mu.Unlock()
			late, first = append(late, mine...), append(first, begun)
			if err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	require.NoError(b, failed)
	return late, first
}

// everyModelPath runs f against the model itself and against Weir before it. data is
// the data directory of the latter, and empty of the former.
func everyModelPath(b *testing.B, f func(b *testing.B, base, data string)) {
	b.Helper()
	upstream := benchModel(b)
	b.Run("direct", func(b *testing.B) { f(b, upstream.URL, "") })
	for _, durability := range []string{"process", "disk"} {
		w, data := chatNode(b, upstream.URL, durability)
		b.Run("weir-"+durability, func(b *testing.B) { f(b, w.URL, data) })
	}
}

// BenchmarkFirstChunk is the time from a request to the first of its answer, one
// request after the other.
func BenchmarkFirstChunk(b *testing.B) {
	everyModelPath(b, func(b *testing.B, base, _ string) {
		b.Helper()
		client := &http.Client{}
		defer client.CloseIdleConnections()
		took := make([]time.Duration, 0, b.N)
		for range b.N {
			first, err := chatted(b.Context(), client, base, 1, time.Millisecond, func(time.Duration) {})
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
			everyModelPath(b, func(b *testing.B, base, data string) {
				b.Helper()
				before := sizeOf(b, data)
				late, _ := benchChat(b, base, streams, 20*time.Millisecond)
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
