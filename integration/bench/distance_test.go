//go:build nightly

package bench_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// distance is the round trip to a target that is far away.
const distance = 20 * time.Millisecond

// TestDistance measures calls to an HTTPS target that is a round trip of 20 ms away, one after the other: the
// first, which opens a connection, and those behind it. The handshake of TCP is not delayed, so
// that a new connection costs one round trip more than is shown.
func TestDistance(t *testing.T) {
	calls := 5
	if *full {
		calls = 101
	}
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer up.Close()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", trusted)
	url := "https://" + far(t, up.Listener.Addr().String())
	if *full {
		fmt.Printf("\n%s, a target behind HTTPS and %s, %d calls one after the other\n\n| durability | call | class | first | p50 of the others | p99 |\n|---|---|---|---|---|---|\n", machine(), distance, calls)
	}
	for _, durability := range durabilities() {
		p := startWeir(t, "distance-"+durability, t.TempDir(), weirConfig(t, url), durability)
		for _, c := range []struct{ method, class, body string }{{"GET", "safe", ""}, {"POST", "once", `,"body":{"a":1}`}} {
			s, err := closed(t.Context(), target{
				name: weir, method: http.MethodPost, url: p.URL + "/v1/execute", status: http.StatusOK, process: p,
				body: fmt.Sprintf(`{"method":%q,"url":"%s/x","allowlist_key":"up"%s}`, c.method, url, c.body),
			}, 1, limit{calls: calls})
			require.NoError(t, err)
			if *full { // the first is the longest
				fmt.Printf("| `%s` | %s | %s | %s | %s | %s |\n", durability, c.method, c.class, ms(s.took[len(s.took)-1]), ms(s.percentile(50)), ms(s.percentile(99)))
			}
		}
		p.terminate(t)
	}
}

// far is the address of a way to another one, which is as long as the distance.
func far(tb testing.TB, to string) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go carry(near, there)
			go carry(there, near)
		}
	}()
	return l.Addr().String()
}

// carry moves what one side says to the other, half a round trip later.
func carry(from, to net.Conn) {
	type piece struct {
		data []byte
		due  time.Time
	}
	way := make(chan piece, 1024)
	go func() {
		defer close(way)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				way <- piece{buf[:n], time.Now().Add(distance / 2)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range way {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range way { // so that its reader ends
	}
}
