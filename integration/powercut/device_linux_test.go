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

	durability schemas.Durability
	drive      *disk.Drive
	forgotten  int
}

func newPlant(t *testing.T, durability schemas.Durability) *plant {
	t.Helper()
	drive, err := disk.NewDrive(t.TempDir(), volumeSize)
	require.NoError(t, err)
	return &plant{clients: newClients(t, string(durability)), durability: durability, drive: drive}
}

// start starts the program on the disk.
func (p *plant) start(t *testing.T) *program.Program {
	t.Helper()
	w, err := program.Start(binary, filepath.Join(p.drive.Dir, "data"), "--config", p.config, "--durability", string(p.durability), "--log-level", "error")
	if err != nil {
		err = errors.Join(err, p.drive.Unmount())
	}
	require.NoError(t, err, "after cut %d, seed %d", p.cut, *seed)
	p.up(w.URL)
	return w
}

// life is one from start to cut. The device goes first: from then on no sync succeeds, so
// that whatever is told afterwards was synced before, or is a lie.
func (p *plant) life(t *testing.T, random *rand.Rand) {
	t.Helper()
	w := p.start(t)
	p.tell(t)
	require.NoError(t, poll.Rest(t.Context(), time.Duration(200+random.IntN(800))*time.Millisecond))
	if random.IntN(3) > 0 { // in the middle of what a sync writes
		select {
		case <-p.drive.Trip(1 + random.IntN(60)):
		case <-time.After(time.Second):
		}
	}
	keep := []float64{0, 0.5, 0.9}[random.IntN(3)]
	after, forgot := p.drive.Cut(random, keep)
	require.NoError(t, poll.Rest(t.Context(), 20*time.Millisecond)) // a lie needs a moment to be told
	p.down()
	w.Kill()
	require.NoError(t, p.drive.Unmount())
	p.drive.Device, p.forgotten = after, p.forgotten+forgot
	require.NoError(t, p.drive.Mount())
}

// heal waits until the clients have received their ends, and checks.
func (p *plant) heal(t *testing.T) []history.Violation {
	t.Helper()
	patience := settling
	if p.durability == schemas.DurabilityProcess {
		patience = settling / 6 // what is lost does not end
	}
	w := p.start(t)
	lost := p.clients.heal(patience)
	w.Kill()
	defer func() { require.NoError(t, p.drive.Unmount()) }()
	return p.check(t, filepath.Join(p.drive.Dir, "data"), lost)
}
