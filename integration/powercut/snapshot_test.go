//go:build nightly

package powercut_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/cmd/app"
	"weir/internal/config"
	"weir/internal/weirtest/poll"
)

// errPower is what a sync gets after the cut.
var errPower = errors.New("the power is gone")

// platter stands in for a device: at the beginning of each sync it takes a copy of the
// data directory, and the copy of the last sync that ended is what a cut leaves. What was
// written later may be in it too, as a device may write what nobody asked it to.
type platter struct {
	data, dir string

	mu      sync.Mutex // one sync at a time, as the program promises
	rounds  int
	durable string
	off     bool
	lies    bool // only the first sync does anything
}

func (p *platter) sync() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off {
		return errPower
	}
	if p.lies && p.durable != "" {
		return nil
	}
	p.rounds++
	to := filepath.Join(p.dir, strconv.Itoa(p.rounds))
	// A file that is replaced while it is copied is not there under one of its names.
	_ = exec.Command("cp", "-a", p.data, to).Run()
	old := p.durable
	p.durable = to
	if old == "" {
		return nil
	}
	return os.RemoveAll(old)
}

// cut ends the syncs and returns what is left.
func (p *platter) cut() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	return p.durable
}

// TestSnapshot is TestPowerCut for a machine that lets no test have a device: the program
// runs in this process, with a sync that keeps copies. It needs nothing, and shows less:
// that every word waits for a sync, not that a sync does what it says.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	for name, lies := range map[string]bool{"a sync that does what it says": false, "a sync that lies is found out": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshots(t, lies)
		})
	}
}

func snapshots(t *testing.T, lies bool) {
	t.Helper()
	c := newClients(t, "snapshot")
	data := filepath.Join(t.TempDir(), "data")
	random := rand.New(rand.NewPCG(*seed, 1))
	for range max(2, *cuts/2) {
		p := &platter{data: data, dir: t.TempDir(), lies: lies}
		a := run1(t, c.config, data, "1s", p.sync)
		c.up(a.URL())
		c.tell(t)
		require.NoError(t, poll.Rest(t.Context(), time.Duration(300+random.IntN(700))*time.Millisecond))
		c.press(t)
		data = p.cut()
		<-a.Failed()                                                    // the next sync fails, and the node stops
		require.NoError(t, poll.Rest(t.Context(), 20*time.Millisecond)) // a lie needs a moment to be told
		c.down()
		_ = a.Stop(context.WithoutCancel(t.Context())) // it cannot drain
		require.NotEmpty(t, data)
	}
	a := run1(t, c.config, data, "1m", func() error { return nil })
	c.up(a.URL())
	patience := settling
	if lies {
		patience /= 6 // what is lost does not end
	}
	lost := c.heal(patience)
	require.NoError(t, a.Stop(context.WithoutCancel(t.Context())))
	broken := c.check(t, data, lost)
	if lies {
		require.NotEmpty(t, broken, "the judge must see the loss")
		return
	}
	require.Empty(t, broken)
}

// run1 starts a Weir in this process, which may take that long to drain.
func run1(t *testing.T, path, data, drain string, sync func() error) *app.App {
	t.Helper()
	cfg, err := config.Load(path, nil, map[string]string{"data": data, "listen": "127.0.0.1:0", "telemetry.log_level": "error", "workers.drain": drain})
	require.NoError(t, err)
	a, err := app.New(t.Context(), app.Options{Config: cfg, Log: io.Discard, Sync: sync})
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Stop(context.WithoutCancel(t.Context())) })
	require.NoError(t, a.Start(t.Context()))
	return a
}
