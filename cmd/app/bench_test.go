package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// BenchmarkExecute is a synchronous POST /v1/execute through a whole App in this
// process: the way to a profile of everything that one action costs.
func BenchmarkExecute(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"ok":true}`)
	}))
	b.Cleanup(upstream.Close)
	for _, durability := range []string{"process", "disk"} {
		b.Run(durability, func(b *testing.B) {
			a, err := begin(b.Context(), b.TempDir(), fmt.Sprintf("log: {durability: %s}\ntelemetry: {log_level: error}\n"+
				"policy:\n  allowlist:\n    - {name: up, url_prefix: %q, methods: [POST], network: loopback}\n", durability, upstream.URL+"/"))
			require.NoError(b, err)
			b.Cleanup(func() { _ = a.Stop(b.Context()) })
			body := fmt.Sprintf(`{"method":"POST","url":"%s/x","allowlist_key":"up","body":{"a":1}}`, upstream.URL)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.ReportAllocs()
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, a.URL()+"/v1/execute", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						b.Errorf("status %d", resp.StatusCode)
					}
				}
			})
		})
	}
}

// BenchmarkChat has 500 streams at once bring b.N chunks in all, fifty a second on each:
// for profiles of all that a chunk takes on its way, the provider and the reader included.
func BenchmarkChat(b *testing.B) {
	const streams = 500
	pace := &llm.Pace{Chunks: max(1, b.N/streams), Every: 20 * time.Millisecond, Text: "a token or two"}
	provider, err := llm.Start(llm.Config{Default: llm.Act{Pace: pace}})
	require.NoError(b, err)
	b.Cleanup(provider.Close)
	a, err := begin(b.Context(), b.TempDir(), fmt.Sprintf("telemetry: {log_level: error}\nmodels:\n  m: {url: %q}\n", provider.URL()))
	require.NoError(b, err)
	b.Cleanup(func() { _ = a.Stop(b.Context()) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for range streams {
		group.Go(func() {
			resp, err := client.Post(a.URL()+schemas.RouteChat, "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasSuffix(string(data), "data: [DONE]\n\n") {
				b.Errorf("%d bytes, and no end: %v", len(data), err)
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
}
