package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/telemetry"
	"weir/schemas"
)

// TestQueueLag is read at a scrape, once a second at most, and absent where the log
// cannot say.
func TestQueueLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, asked, away := telemetry.NewMetrics(), 0, error(nil)
		require.NotContains(t, scrape(t, m), `weir_queue_lag{kind="http"}`)
		read := func(ctx context.Context) (map[schemas.Kind]uint64, error) {
			asked++
			_, bounded := ctx.Deadline()
			assert.True(t, bounded)
			return map[schemas.Kind]uint64{schemas.KindHTTP: uint64(asked), schemas.KindChat: 0}, away
		}
		m.QueueLag(read)
		require.Zero(t, asked, "nobody scraped")
		m.QueueLag(func(context.Context) (map[schemas.Kind]uint64, error) { return nil, errors.New("replaced") })
		require.NotContains(t, scrape(t, m), `weir_queue_lag{kind="http"}`)
		m.QueueLag(read)
		for range 3 {
			series := scrape(t, m)
			require.Equal(t, "1", series[`weir_queue_lag{kind="http"}`])
			require.Equal(t, "0", series[`weir_queue_lag{kind="chat"}`])
		}
		time.Sleep(time.Second)
		require.Equal(t, "2", scrape(t, m)[`weir_queue_lag{kind="http"}`])
		time.Sleep(time.Second)
		away = errors.New("away")
		require.NotContains(t, scrape(t, m), `weir_queue_lag{kind="http"}`)
		time.Sleep(time.Second)
		away = nil
		require.Equal(t, "4", scrape(t, m)[`weir_queue_lag{kind="http"}`])
	})
}
