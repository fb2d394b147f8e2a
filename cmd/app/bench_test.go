package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
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
	var keys atomic.Int64
	for name, key := range map[string]func() string{
		"process": nil, "disk": nil,
		// What an ordering key costs that nobody else has, and how fast one line goes.
		"process/key": func() string { return strconv.FormatInt(keys.Add(1), 10) }, "disk/key": func() string { return strconv.FormatInt(keys.Add(1), 10) },
		"process/line": func() string { return "line" }, "disk/line": func() string { return "line" },
	} {
		b.Run(name, func(b *testing.B) {
			durability, _, _ := strings.Cut(name, "/")
			text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\nlog: {durability: %s}\ntelemetry: {log_level: error}\n"+
				"policy:\n  allowlist:\n    - {name: up, url_prefix: %q, methods: [POST], network: loopback}\n", b.TempDir(), durability, upstream.URL+"/")
			cfg, err := config.Parse("bench", []byte(text), nil, nil)
			require.NoError(b, err)
			a, err := New(b.Context(), Options{Config: cfg, Log: io.Discard})
			require.NoError(b, err)
			require.NoError(b, a.Start(b.Context()))
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
					if key != nil {
						req.Header.Set(schemas.HeaderOrderingKey, key())
					}
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
