package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/mirror"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFollower: it watches before it looks, looks at intervals and when it is notified, and logs
// when the store goes and when it comes back.
func TestFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var away, watching atomic.Bool
		failure := errors.New("away")
		looks := 0
		f := mirror.New(mirror.Config{
			Component: "test", Check: time.Second, Patience: time.Second, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			Look: func(context.Context) error {
				require.True(t, watching.Load())
				looks++
				if away.Load() {
					return failure
				}
				return nil
			},
			Watch: func(func()) (func(), error) {
				watching.Store(true)
				return func() { watching.Store(false) }, nil
			},
		})
		f.Stop() // without Start
		away.Store(true)
		require.ErrorIs(t, f.Start(t.Context()), failure)
		require.False(t, watching.Load())
		away.Store(false)
		require.NoError(t, f.Start(t.Context()))
		time.Sleep(1500 * time.Millisecond)
		f.Notify()
		synctest.Wait()
		require.Equal(t, 4, looks)
		require.NoError(t, f.CatchUp(t.Context()))
		require.Equal(t, 5, looks)
		for _, is := range []bool{true, false} {
			away.Store(is)
			time.Sleep(3 * time.Second)
		}
		f.Stop()
		f.Stop()
		require.False(t, watching.Load())
		require.ErrorIs(t, f.CatchUp(t.Context()), fault.ErrUnavailable)
		require.Regexp(t, `(?s)^[^\n]*WARN msg=store_unreachable component=test\n[^\n]*INFO msg=store_reachable component=test\n$`, logged.String())
	})
}
