package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

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
