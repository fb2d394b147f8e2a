package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

// live is the heap in use after a collection, in MiB.
func live() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// TestMemoryOfAnUpload must not run beside others: it counts the process's memory.
func TestMemoryOfAnUpload(t *testing.T) { //nolint:paralleltest // see above
	const size = 64 << 20
	var before int
	seen := []int{}
	base, _ := viaNode(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		for {
			if n, _ := io.CopyN(sum, r.Body, size/4); n == 0 {
				break
			}
			seen = append(seen, live()-before)
			f, _ := os.Create(fmt.Sprintf("/tmp/w-spool/heap%d", len(seen)))
			pprof.WriteHeapProfile(f)
			f.Close()
		}
		fmt.Fprint(w, r.ContentLength, " ", hex.EncodeToString(sum.Sum(nil)))
	}, "limits: {body: 64MiB}\n")
	before = live()
	random := rand.NewChaCha8([32]byte{1})
	sum := sha256.New()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/via/t/x", io.TeeReader(io.LimitReader(random, size), sum))
	require.NoError(t, err)
	req.ContentLength = size
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(size, " ", hex.EncodeToString(sum.Sum(nil))), string(got))
	fmt.Println(seen)
}
