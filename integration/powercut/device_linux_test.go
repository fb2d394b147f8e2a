//go:build nightly

package powercut_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/disk"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

const (
	volumeSize = 256 << 20
)

// TestPowerCut runs the program on a disk that forgets what was not flushed, and takes the
// power away while clients press. With `disk` nothing that anybody was told may be gone.
// With `process` something must be: or else the test could not find a loss.
func TestPowerCut(t *testing.T) { //nolint:paralleltest // its process is its own
	if why := disk.Unavailable(); why != "" {
		t.Logf("form: no device here (%s): see TestSnapshot, which stands in for it", why)
		return
	}
	if !disk.Inside(t) {
		return
	}
	t.Logf("form: device (ext4 on a loop device on a file that forgets what was not flushed); seed %d", *seed)
	for durability := range strings.FieldsSeq(*durabilities) { //nolint:paralleltest // as above
		t.Run(durability, func(t *testing.T) {
			p := newPlant(t, schemas.Durability(durability))
			random := rand.New(rand.NewPCG(*seed, 0))
			for range *cuts {
				p.life(t, random)
			}
			k := p.heal(t)
			broken := k.judge(p.crowd)
			t.Logf("%s: %d cuts, %d actions, %d answers, %d events shown (%d gone), %d calls received, %d sectors forgotten; broken: %d %v",
				durability, *cuts, len(k.actions), len(p.crowd.told), len(p.crowd.shown), k.gone(p.crowd.shown), len(p.crowd.target.ledger()), p.forgotten, len(broken), kinds(broken))
			if p.durability == schemas.DurabilityProcess {
				require.NotEmpty(t, broken, "process does not survive a power cut, so the test must see a loss; seed %d", *seed)
				return
			}
			require.Empty(t, broken, "seed %d: go test ./integration/powercut -run TestPowerCut -powercut.seed=%d", *seed, *seed)
			require.Positive(t, p.forgotten, "the cuts must have cost something")
		})
	}
}

// plant is a disk with a program on it.
type plant struct {
	dir        string
	durability schemas.Durability
	config     string
	dev        *disk.Device
	crowd      *crowd
	forgotten  int
}

func newPlant(t *testing.T, durability schemas.Durability) *plant {
	t.Helper()
	p := &plant{dir: t.TempDir(), durability: durability, crowd: &crowd{target: newTarget()}}
	t.Cleanup(p.crowd.target.Close)
	var err error
	p.config, err = program.Config(p.dir, p.crowd.target.URL, "")
	require.NoError(t, err)
	p.dev, err = disk.Format(p.dir, volumeSize)
	require.NoError(t, err)
	return p
}

// up mounts the disk and starts the program on it.
func (p *plant) up(t *testing.T) (*disk.Volume, *program.Program) {
	t.Helper()
	v, err := disk.Mount(p.dev, p.dir)
	require.NoError(t, err)
	w, err := program.Start(binary, filepath.Join(v.Dir, "data"), "--config", p.config, "--durability", string(p.durability), "--log-level", "error")
	if err != nil {
		if *keepDir != "" {
			out, cerr := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(v.Dir, "data"), *keepDir).CombinedOutput()
			t.Logf("kept in %s: %s %v", *keepDir, out, cerr)
		}
		err = errors.Join(err, v.Unmount())
	}
	require.NoError(t, err, "after cut %d, seed %d", p.crowd.cut, *seed)
	return v, w
}

// life is one from start to cut. The device goes first: from then on no sync succeeds, so
// that whatever is told afterwards was synced before, or is a lie.
func (p *plant) life(t *testing.T, random *rand.Rand) {
	t.Helper()
	v, w := p.up(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.crowd.press(ctx, w.URL, clients, true)
	}()
	<-time.After(time.Duration(200+random.IntN(800)) * time.Millisecond)
	if random.IntN(3) > 0 { // in the middle of what a sync writes
		select {
		case <-p.dev.Trip(1 + random.IntN(60)):
		case <-time.After(time.Second):
		}
	}
	keep := []float64{0, 0.5, 0.9}[random.IntN(3)]
	after, forgot := p.dev.Cut(random, keep)
	<-time.After(20 * time.Millisecond) // a lie needs a moment to be told
	w.Kill()
	stop()
	<-done
	p.dev, p.forgotten = after, p.forgotten+forgot
	p.crowd.cut++
	require.NoError(t, v.Unmount())
}

// heal has every client hear of what it asked for, and everything end. It returns the log.
func (p *plant) heal(t *testing.T) *book {
	t.Helper()
	patience := settling
	if p.durability == schemas.DurabilityProcess {
		patience = settling / 6 // what is lost does not end
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	v, w := p.up(t)
	p.crowd.settle(ctx, w.URL)
	w.Kill()
	k, err := open(t.Context(), filepath.Join(v.Dir, "data"), filepath.Join(p.dir, "copy"))
	require.NoError(t, errors.Join(err, v.Unmount()))
	return k
}
