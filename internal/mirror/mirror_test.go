package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
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

// TestCatchUpsShareALook that begins behind all of them.
func TestCatchUpsShareALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64 // that have ended
		eyes := make(chan struct{}, 1)
		eyes <- struct{}{} // for Start
		f := mirror.New(mirror.Config{
			Check: time.Hour, Patience: time.Hour, Logger: slog.New(slog.DiscardHandler),
			Look:  func(context.Context) error { <-eyes; looks.Add(1); return nil },
			Watch: func(func()) (func(), error) { return func() {}, nil },
		})
		require.NoError(t, f.Start(t.Context()))
		defer f.Stop()
		var all sync.WaitGroup
		catchUp := func(looked int64) {
			if err := f.CatchUp(t.Context()); err != nil || looks.Load() != looked {
				t.Error("after", looks.Load(), err)
			}
		}
		all.Go(func() { catchUp(2) })
		synctest.Wait() // the first one looks
		for range 100 {
			all.Go(func() { catchUp(3) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { require.ErrorIs(t, f.CatchUp(ctx), context.Canceled) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		eyes <- struct{}{}
		synctest.Wait()
		eyes <- struct{}{}
		all.Wait()
	})
}
