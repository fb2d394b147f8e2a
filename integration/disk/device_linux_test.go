//go:build nightly

package disk_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/disk"
	"weir/internal/weirtest/program"
)

// onDevice runs a test in a process of its own, with a disk that can fail. Where the
// machine allows no such thing it says so; false: there is nothing to do here.
func onDevice(t *testing.T, size int64) (d *disk.Drive, here bool) {
	t.Helper()
	if why := disk.Unavailable(); why != "" {
		t.Logf("no device here (%s): commit_test.go and server_test.go of internal/broker/embedded stand in for it", why)
		return nil, false
	}
	if !disk.Inside(t) {
		return nil, false
	}
	d, err := disk.NewDrive(t.TempDir(), size)
	require.NoError(t, err)
	return d, true
}

// dataOn is the program's data directory on a disk.
func dataOn(d *disk.Drive) string { return filepath.Join(d.Dir, "data") }

// TestFailedSync: the first sync that fails ends the program, and nothing is acknowledged
// after it. What was acknowledged before is there when the disk is well again.
func TestFailedSync(t *testing.T) { //nolint:paralleltest // its process is its own
	for name, faults := range map[string]disk.Faults{"flush": {FailFlushes: true}, "write": {FailWrites: true}} { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			d, here := onDevice(t, 128<<20)
			if !here {
				return
			}
			w := newWorld(t)
			p := w.start(t, dataOn(d))
			ids := w.fill(t, p, 10, 100)

			d.Fail(faults)
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					status, body, err := w.post(t.Context(), p, fmt.Sprintf("after%d", i), 100)
					if err == nil && status != http.StatusServiceUnavailable {
						t.Errorf("acknowledged after the disk had failed: %d %s", status, body)
					}
				})
			}
			group.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			code, err := p.Wait(ctx)
			require.Error(t, err)
			require.Equal(t, 1, code)
			require.Contains(t, p.Said(), "the disk refused to make the log durable: nothing more was acknowledged; check the disk before starting again")
			for i := range 8 {
				require.Zero(t, w.count(fmt.Sprintf("after%d", i)), "a POST was sent that was not on the disk")
			}

			d.Fail(disk.Faults{})
			require.NoError(t, d.Unmount())
			require.NoError(t, d.Mount())
			p = w.start(t, dataOn(d))
			require.Equal(t, len(ids), found(t, p, ids))
			p.Kill()
			require.NoError(t, d.Unmount())
		})
	}
}

// TestSlowDisk: a disk that takes two seconds for a sync, three flushes of the file system, makes answers late, and nothing else.
func TestSlowDisk(t *testing.T) { //nolint:paralleltest // its process is its own
	d, here := onDevice(t, 128<<20)
	if !here {
		return
	}
	w := newWorld(t)
	p := w.start(t, dataOn(d))
	d.Fail(disk.Faults{SlowFlush: 700 * time.Millisecond})
	var group sync.WaitGroup
	var ids []string
	for i := range 8 {
		id := fmt.Sprintf("s%d", i)
		ids = append(ids, id)
		group.Go(func() {
			status, body, err := w.post(t.Context(), p, id, 100)
			if err == nil && status == http.StatusServiceUnavailable { // it may be asked for again
				status, body, err = w.post(t.Context(), p, id, 100)
			}
			if err != nil || status != http.StatusOK {
				t.Errorf("%s: %d %s %v", id, status, body, err)
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		require.Equal(t, 1, w.count(id))
	}
	d.Fail(disk.Faults{})
	require.Equal(t, len(ids), found(t, p, ids))
	p.Kill()
	require.NoError(t, d.Unmount())
}

// TestFullDisk: with no room left nothing new is accepted, and the answer says so at once. When there
// is room again, new work is taken; after a write that failed, by the next start, for which the
// program ends. Everything that was accepted is there.
func TestFullDisk(t *testing.T) { //nolint:paralleltest // its process is its own
	d, here := onDevice(t, 64<<20)
	if !here {
		return
	}
	w := newWorld(t)
	p := w.start(t, dataOn(d))
	ids := w.fill(t, p, 3, 100)
	filler := filepath.Join(d.Dir, "filler")
	var body string
	refused := 0
	for i := 0; i < 1000 && refused < 3; i++ {
		id := fmt.Sprintf("f%d", i)
		status, text, err := w.post(t.Context(), p, id, 200_000)
		require.NoError(t, err)
		switch status {
		case http.StatusOK:
			ids = append(ids, id)
		case http.StatusServiceUnavailable:
			refused, body = refused+1, text
			require.Zero(t, w.count(id))
		default:
			t.Fatalf("%d %s", status, text)
		}
	}
	t.Logf("by its own count: %d accepted, then %s", len(ids), body)
	require.Equal(t, 3, refused, "the disk must become full")
	require.Equal(t, len(ids), found(t, p, ids))

	// Somebody else takes what is left of the disk, while it runs and at the next start.
	require.NoError(t, disk.Fill(filler, 0))
	for i := 0; !strings.Contains(p.Said(), "log_write_failed"); i++ { // a write that is not refused before
		require.Less(t, i, 20)
		_, _ = p.Client().Try(t.Context(), http.MethodPost, "/v1/tokens", fmt.Sprintf(`{"name":"t%d","scopes":["actions:read"]}`, i))
	}
	require.Equal(t, http.StatusServiceUnavailable, p.Client().Ask(t, http.MethodGet, "/readyz", "").Status)
	begun := time.Now()
	status, body, err := w.post(t.Context(), p, "later", 100)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "LOG_FULL")
	require.Less(t, time.Since(begun), 5*time.Second)
	require.Equal(t, len(ids), found(t, p, ids), "what is there can be read")
	require.NoError(t, os.Remove(filler))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code, err := p.Wait(ctx)
	require.Error(t, err)
	require.Equal(t, 1, code)
	require.Contains(t, p.Said(), "no space left on device")

	require.NoError(t, disk.Fill(filler, 0))
	_, err = program.Start(binary, dataOn(d), "--config", w.config)
	var ended *program.Ended
	require.ErrorAs(t, err, &ended)
	require.Equal(t, 1, ended.Code)
	require.Contains(t, ended.Said, "data directory refused: the disk of ")
	require.Contains(t, ended.Said, "make room on it, or move the directory to a larger one")

	require.NoError(t, os.Remove(filler))
	p = w.start(t, dataOn(d))
	require.Equal(t, len(ids), found(t, p, ids))
	w.fill(t, p, 3, 100)
	p.Kill()
	require.NoError(t, d.Unmount())
}
