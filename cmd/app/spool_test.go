package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"weir/schemas"
)

// live is the heap in use after a collection, in MiB.
func live() int {
	runtime.GC()
	runtime.GC() // the first one leaves what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// TestMemoryOfAnUpload: a large body arrives byte for byte, and is never in memory as a whole. It must not
// run beside others: it counts the process's memory.
func TestMemoryOfAnUpload(t *testing.T) { //nolint:paralleltest // see above
	const size, most = 64 << 20, 48 // of which 8 to 24 are blocks that the server of the log caches
	before, peak := 0, 0
	base, _ := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		for n := int64(1); n > 0; peak = max(peak, live()-before) {
			n, _ = io.CopyN(sum, r.Body, size/8)
		}
		_, _ = fmt.Fprint(w, r.ContentLength, " ", hex.EncodeToString(sum.Sum(nil)))
	}, "limits: {body: 1KiB}\n")
	before = live()
	sum := sha256.New()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/via/t/x", io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{}), size), sum))
	require.NoError(t, err)
	req.ContentLength = size
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(size, " ", hex.EncodeToString(sum.Sum(nil))), string(got))
	require.Less(t, peak, most)
}

// TestLargeUploads: who reads a stored body, and who leaves one.
func TestLargeUploads(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 3)
	base, _ := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- string(body)
		if len(body)%2 == 1 {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = fmt.Fprint(w, len(body), " ", r.Header.Get("Content-Encoding"))
	}, "")
	large := bytes.Repeat([]byte("abcdefg "), 100_000)
	send := func(method, path string, body io.Reader, headers ...string) (int, string, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, body)
		require.NoError(t, err)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text), resp.Header
	}

	status, text, h := send("POST", "/via/t/x", bytes.NewReader(zipped(large)), "Content-Encoding", "gzip", "Content-Type", "text/plain")
	require.Equal(t, []any{200, "800000 "}, []any{status, text})
	require.Equal(t, string(large), <-arrived)
	sum := sha256.Sum256(large)
	_, payload, _ := send("GET", "/v1/actions/"+h.Get("Weir-Action-Id")+"/payload", nil)
	require.Equal(t, []string{hex.EncodeToString(sum[:]), "800000", ""}, []string{
		gjson.Get(payload, "payload.body_blob").Str, gjson.Get(payload, "payload.body_bytes").Raw, gjson.Get(payload, "payload.body").Raw,
	}, payload)

	status, _, h = send("PUT", "/via/t/x", bytes.NewReader(large[1:]))
	require.Equal(t, 404, status)
	require.Equal(t, string(large[1:]), <-arrived)
	status, _, _ = send("POST", "/v1/actions/"+h.Get("Weir-Action-Id")+"/redrive", nil)
	require.Equal(t, 202, status)
	require.Equal(t, string(large[1:]), <-arrived)

	status, text, _ = send("POST", "/via/adds/adds/x", strings.NewReader(`{"a":"`+string(large)+`"}`), "Content-Type", "application/json")
	require.Equal(t, 403, status)
	require.Contains(t, text, string(schemas.DenyBody))
}
