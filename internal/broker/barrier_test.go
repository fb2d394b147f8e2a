package broker

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/schemas"
)

// BenchmarkDurableAppend is one guarded append and the barrier after it, for
// writers that wait at the same time: what `disk` costs over `process`.
func BenchmarkDurableAppend(b *testing.B) {
	for _, d := range []schemas.Durability{schemas.DurabilityProcess, schemas.DurabilityDisk} {
		s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Layout: layout, Durability: d})
		require.NoError(b, err)
		br, err := Open(b.Context(), Config{Server: s, Layout: layout})
		require.NoError(b, err)
		var id atomic.Int64
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", d, writers), func(b *testing.B) {
				var left, longest atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				for range writers {
					group.Go(func() {
						for left.Add(-1) >= 0 {
							start := time.Now()
							m := claim("bench-"+strconv.FormatInt(id.Add(1), 10), "")
							m.Data = make([]byte, 512)
							if _, err := br.Append(context.Background(), m); err != nil {
								b.Error(err)
								return
							}
							if err := br.Barrier(context.Background()); err != nil {
								b.Error(err)
								return
							}
							for took := int64(time.Since(start)); ; {
								if most := longest.Load(); took <= most || longest.CompareAndSwap(most, took) {
									break
								}
							}
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				b.ReportMetric(float64(longest.Load())/1e6, "max-ms")
			})
		}
		br.Close(context.Background())
		_ = s.Stop()
	}
}
