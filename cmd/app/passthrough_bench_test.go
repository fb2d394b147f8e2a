//go:build unix

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkPassthrough reports the CPU of an action by passthrough beside that of one by execute, callers
// and target included: go test ./cmd/app -run - -bench Passthrough.
func BenchmarkPassthrough(b *testing.B) {
	answer := `{"id":4711,"items":[` + strings.Repeat(`{"name":"one","price":1.5},`, 20) + `{}]}`
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	b.Cleanup(up.Close)
	a, err := begin(b.Context(), b.TempDir(), fmt.Sprintf("policy: {allowlist: [{name: t, url_prefix: %q, network: loopback, methods: [GET, POST]}]}\n", up.URL+"/"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, a.Stop(b.Context())) })
	base := "http://" + a.http.addr()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	ask := func(method, url, body string) {
		req, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		if err != nil {
			b.Error(err)
		}
	}
	execute, err := json.Marshal(map[string]string{"method": "GET", "url": up.URL + "/x", "allowlist_key": "t"})
	require.NoError(b, err)
	for name, one := range map[string]func(){
		"execute":     func() { ask(http.MethodPost, base+"/v1/execute", string(execute)) },
		"passthrough": func() { ask(http.MethodGet, base+"/via/t/x", "") },
	} {
		b.Run(name, func(b *testing.B) {
			var each sync.WaitGroup
			begin := cpu(b)
			for range 16 {
				each.Go(func() {
					for range b.N {
						one()
					}
				})
			}
			each.Wait()
			b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(16*b.N), "cpu-µs/action")
		})
	}
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
