package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkEndToEnd measures synchronous POST /v1/execute against the built
// program, beside the same call made directly in the same run: requests a second,
// the median, and what Weir adds to it. The clients, the upstream and Weir share
// the machine's cores.
func BenchmarkEndToEnd(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	b.Cleanup(upstream.Close)
	config := policyFile(b, upstream.URL)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("direct/%d", callers), func(b *testing.B) {
			report(b, load(b, callers, func(ctx context.Context, c *http.Client) error {
				return send(ctx, c, upstream.URL+"/x", `{"a":1}`)
			}))
		})
		for _, durability := range []string{"process", "disk"} {
			b.Run(fmt.Sprintf("weir-%s/%d", durability, callers), func(b *testing.B) {
				w := serve(b, b.TempDir(), "--config", config, "--durability", durability, "--log-level", "error")
				body := fmt.Sprintf(`{"method":"POST","url":"%s/x","allowlist_key":"up","body":{"a":1}}`, upstream.URL)
				b.ResetTimer()
				report(b, load(b, callers, func(ctx context.Context, c *http.Client) error {
					return send(ctx, c, w.URL+"/v1/execute", body)
				}))
			})
		}
	}
}

func send(ctx context.Context, c *http.Client, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// load makes b.N calls from a number of callers and returns how long each took.
func load(b *testing.B, callers int, call func(context.Context, *http.Client) error) []time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, MaxIdleConns: callers}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	took := make([]time.Duration, 0, b.N)
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range left {
				start := time.Now()
				err := call(b.Context(), client)
				mu.Lock()
				took = append(took, time.Since(start))
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.NoError(b, failed)
	return took
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "req/s")
	percentiles(b, took)
}

func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "p50-ms")
	b.ReportMetric(at(99), "p99-ms")
}
