//go:build nightly

package bench_test

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// blockRate is the time of waiting, in nanoseconds, of which one is sampled.
const blockRate = 100_000

// record profiles this process until done is called: processor, allocations and waits, into
// files whose names begin with prefix. An empty prefix records nothing.
func record(prefix string) (done func(), err error) {
	if prefix == "" {
		return func() {}, nil
	}
	cpu, err := os.Create(prefix + ".cpu")
	if err != nil {
		return nil, err
	}
	runtime.SetMutexProfileFraction(10)
	// The embedded server sets the rate when it starts, to none.
	waits := time.AfterFunc(3*time.Second, func() { runtime.SetBlockProfileRate(blockRate) })
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() {
		waits.Stop()
		pprof.StopCPUProfile()
		_ = cpu.Close()
		for _, name := range []string{"allocs", "block", "mutex"} {
			if f, err := os.Create(prefix + "." + name); err == nil {
				_ = pprof.Lookup(name).WriteTo(f, 0)
				_ = f.Close()
			}
		}
	}, nil
}
