package app

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
)

// TestWhenAFileIsLookedAt: once after a burst of events, and in a folder that is
// never quiet again and again.
func TestWhenAFileIsLookedAt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		every  time.Duration
		events int
		looks  []time.Duration // since the first event
	}{
		"one event":  {quiet, 1, []time.Duration{quiet}},
		"a burst":    {quiet / 4, 5, []time.Duration{2 * quiet}},
		"two events": {2 * quiet, 2, []time.Duration{quiet, 3 * quiet}},
		// The next wait begins with the first event after a look, at 1080 ms. No
		// event comes at the very time of a look, where either may be first.
		"no end":  {90 * time.Millisecond, 25, []time.Duration{patience, 1080*time.Millisecond + patience, 2160*time.Millisecond + quiet}},
		"a flood": {3 * time.Millisecond, 400, []time.Duration{patience, 1197*time.Millisecond + quiet}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				events := make(chan fsnotify.Event)
				f := &watchedFile{path: filepath.Join(dir, "weir.yaml"), watcher: &fsnotify.Watcher{Events: events}}
				var began time.Time
				var looks []time.Duration
				done := make(chan struct{})
				go func() {
					defer close(done)
					f.follow(t.Context(), func() { looks = append(looks, time.Since(began)) })
				}()
				began = time.Now()
				ticker := time.NewTicker(tt.every)
				for n := range tt.events {
					if n > 0 {
						<-ticker.C
					}
					events <- fsnotify.Event{Name: filepath.Join(dir, "other"), Op: fsnotify.Create}
				}
				ticker.Stop()
				<-time.After(2 * patience)
				close(events)
				<-done
				assert.Equal(t, tt.looks, looks)
			})
		})
	}
}
