//go:build nightly

package powercut_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/disk"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

const volumeSize = 256 << 20

// TestPowerCut runs the program on a disk that forgets what was not flushed, and takes the
// power away while clients press. With `disk` nothing that anybody was told may be gone.
// With `process` something must be: or else the test could not find a loss.
func TestPowerCut(t *testing.T) { //nolint:paralleltest // its process is its own
	if why := disk.Unavailable(); why != "" {
		t.Logf("form: no device here: %s", why)
		return
	}
	if !disk.Inside(t) {
		return
	}
	for _, durability := range []schemas.Durability{schemas.DurabilityDisk, schemas.DurabilityProcess} { //nolint:paralleltest // as above
		t.Run(string(durability), func(t *testing.T) {
			p := newPlant(t, durability)
			random := rand.New(rand.NewPCG(*seed, 0))
			for range *cuts {
				p.life(t, random)
			}
			broken := p.heal(t)
			t.Logf("%d sectors were forgotten", p.forgotten)
			if durability == schemas.DurabilityProcess {
				require.NotEmpty(t, broken, "process does not survive a power cut, so the test must see a loss")
				return
			}
			require.Empty(t, broken, "go test ./integration/powercut -run TestPowerCut -powercut.seed=%d", *seed)
			require.Positive(t, p.forgotten, "the cuts must have cost something")
		})
	}
}

// plant is a disk with a program on it: an ext4 on a loop device on a file that forgets what was
// not flushed.
type plant struct {
	*clients

	dir        string
	durability schemas.Durability
	dev        *disk.Device
	forgotten  int
}

func newPlant(t *testing.T, durability schemas.Durability) *plant {
	t.Helper()
	p := &plant{clients: newClients(t, string(durability)), dir: t.TempDir(), durability: durability}
	var err error
	p.dev, err = disk.Format(p.dir, volumeSize)
	require.NoError(t, err)
	return p
}

// start mounts the disk and starts the program on it.
func (p *plant) start(t *testing.T) (*disk.Volume, *program.Program) {
	t.Helper()
	v, err := disk.Mount(p.dev, p.dir)
	require.NoError(t, err)
	w, err := program.Start(binary, filepath.Join(v.Dir, "data"), "--config", p.config, "--durability", string(p.durability), "--log-level", "error")
	if err != nil {
		err = errors.Join(err, v.Unmount())
	}
	require.NoError(t, err, "after cut %d, seed %d", p.cut, *seed)
	p.up(w.URL)
	return v, w
}

// life is one from start to cut. The device goes first: from then on no sync succeeds, so
// that whatever is told afterwards was synced before, or is a lie.
func (p *plant) life(t *testing.T, random *rand.Rand) {
	t.Helper()
	v, w := p.start(t)
	p.tell(t)
	require.NoError(t, poll.Rest(t.Context(), time.Duration(200+random.IntN(800))*time.Millisecond))
	if random.IntN(3) > 0 { // in the middle of what a sync writes
		select {
		case <-p.dev.Trip(1 + random.IntN(60)):
		case <-time.After(time.Second):
		}
	}
	keep := []float64{0, 0.5, 0.9}[random.IntN(3)]
	after, forgot := p.dev.Cut(random, keep)
	require.NoError(t, poll.Rest(t.Context(), 20*time.Millisecond)) // a lie needs a moment to be told
	p.down()
	w.Kill()
	p.dev, p.forgotten = after, p.forgotten+forgot
	require.NoError(t, v.Unmount())
}

// heal waits until the clients have received their ends, and checks.
func (p *plant) heal(t *testing.T) []history.Violation {
	t.Helper()
	patience := settling
	if p.durability == schemas.DurabilityProcess {
		patience = settling / 6 // what is lost does not end
	}
	v, w := p.start(t)
	lost := p.clients.heal(patience)
	w.Kill()
	defer func() { require.NoError(t, v.Unmount()) }()
	return p.check(t, filepath.Join(v.Dir, "data"), lost)
}
