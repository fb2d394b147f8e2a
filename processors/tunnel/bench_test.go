package tunnel_test

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/processors/tunnel"
)

// drain counts what a benchmark's stream has brought.
func drain(b *testing.B, from net.Conn, size int64) {
	b.Helper()
	n, err := io.CopyN(io.Discard, from, size)
	require.NoError(b, err)
	require.Equal(b, size, n)
}

// flow sends size bytes from one end and reads them at the other, and returns how long that took.
func flow(b *testing.B, from, to *net.TCPConn, size int64) time.Duration {
	b.Helper()
	began := time.Now()
	go func() {
		piece := make([]byte, 1<<20)
		for sent := int64(0); sent < size; sent += int64(len(piece)) {
			if _, err := from.Write(piece); err != nil {
				return
			}
		}
	}()
	drain(b, to, size)
	return time.Since(began)
}

// BenchmarkTunnel sends a gibibyte from a target to a client through a tunnel, and through a plain
// io.Copy between two sockets; the ratio is what a tunnel costs. Heap is what the stream adds to it.
func BenchmarkTunnel(b *testing.B) {
	const size = 1 << 30
	through := newBench(b, tunnel.Config{})
	c := through.carry(b, "")
	far, near := pair(b)
	in, out := pair(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(in, near)
	}()
	var tunnelled, plain time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for range b.N {
		plain += flow(b, far, out, size)
		tunnelled += flow(b, c.target, c.client, size)
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	require.NoError(b, far.Close())
	<-done
	b.ReportMetric(float64(size)*float64(b.N)/1e9/tunnelled.Seconds(), "GB/s")
	b.ReportMetric(plain.Seconds()/tunnelled.Seconds(), "of-io.Copy")
	b.ReportMetric(float64(after.HeapAlloc)/(1<<20)-float64(before.HeapAlloc)/(1<<20), "heap-MiB")
}
