package tunnel_test

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/processors/tunnel"
)

// spent is the time that this process has used the processor.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkTunnel sends four gibibytes through a tunnel whose two ends belong to other processes. GB/cpu-s
// is what a core of this process moves, and heap-MiB what the stream adds to its heap.
func BenchmarkTunnel(b *testing.B) {
	const size = 4 << 30
	c := newBench(b, tunnel.Config{}).carry(b, "")
	client, err := c.client.File()
	require.NoError(b, err)
	defer client.Close()
	target, err := c.target.File()
	require.NoError(b, err)
	defer target.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used := spent(b)
	b.ResetTimer()
	for range b.N {
		ends := exec.CommandContext(b.Context(), "sh", "-c", `dd if=/dev/zero bs=1M count=4096 status=none >&4 & dd bs=1M count=4096 iflag=fullblock status=none <&3 >/dev/null; wait`)
		ends.ExtraFiles = []*os.File{client, target}
		require.NoError(b, ends.Run())
	}
	b.StopTimer()
	used = spent(b) - used
	runtime.ReadMemStats(&after)
	gigabytes := float64(size) * float64(b.N) / 1e9
	b.ReportMetric(gigabytes/b.Elapsed().Seconds(), "GB/s")
	b.ReportMetric(gigabytes/used.Seconds(), "GB/cpu-s")
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/(1<<20), "heap-MiB")
}
