//go:build nightly

package disk_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// damage is something that befell a file of a data directory.
type damage struct {
	file, what string
	do         func([]byte) []byte // nil from it: the file is gone
}

func zeros(b []byte) []byte   { return make([]byte, len(b)) }
func gone([]byte) []byte      { return nil }
func flipped(b []byte) []byte { b[len(b)/4] ^= 0x10; return b } // the marks may cover half of a log only
func halved(b []byte) []byte  { return b[:len(b)/2] }

// torn is a record that was being written when the power went: it was never acknowledged.
func torn(b []byte) []byte { return append(b, b[:100]...) }

// TestDamageThatIsMended: what a cut may do to the files around the records, and to the
// last one, keeps nobody from starting and costs nothing. No call is made once more for it.
func TestDamageThatIsMended(t *testing.T) { //nolint:tparallel // its parts would be two dozen programs at once
	t.Parallel()
	w, dir, ids := left(t)
	const log = "jetstream/$G/streams/WEIR_LOG_0/"
	for _, d := range []damage{ //nolint:paralleltest // see above
		{log + "meta.inf", "zeros", zeros},
		{log + "meta.inf", "flipped", flipped},
		{log + "meta.sum", "gone", gone},
		{log + "obs/new/o.dat", "zeros", zeros},
		{log + "obs/new/o.dat", "halved", halved},
		{log + "obs/wake/o.dat", "zeros", zeros},
		{log + "obs/new/meta.inf", "zeros", zeros},
		{log + "obs/new/meta.sum", "gone", gone},
		{log + "msgs/index.db", "zeros", zeros},
		{log + "msgs/index.db", "flipped", flipped},
		{log + "msgs/index.db", "gone", gone},
		{log + "msgs/1.blk", "torn", torn},
		{"jetstream/$G/streams/WEIR_EVIDENCE/meta.inf", "zeros", zeros},
	} {
		for _, how := range []string{"killed", "data"} {
			t.Run(strings.ReplaceAll(strings.TrimPrefix(d.file, log), "/", " ")+" "+d.what+" "+how, func(t *testing.T) {
				at := filepath.Join(t.TempDir(), "x")
				require.NoError(t, os.CopyFS(at, os.DirFS(filepath.Join(dir, how))))
				d.befall(t, at, how == "killed")
				q := w.start(t, at)
				require.Equal(t, len(ids), found(t, q, ids))
				for _, id := range ids[:3] { // the answer is the stored one
					w.ok(t, q, id, 100)
				}
				w.ok(t, q, "new", 10)
				q.Kill()
			})
		}
	}
	w.once(t, ids)
}

// left is the data of a program that was killed, and of one that was stopped, with the same actions
// in both.
func left(t *testing.T) (w *world, dir string, ids []string) {
	t.Helper()
	w, dir = newWorld(t), t.TempDir()
	data := filepath.Join(dir, "data")
	p := w.start(t, data)
	ids = w.fill(t, p, 30, 100)
	covered(t, data, len(ids))
	p.Kill()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "killed"), os.DirFS(data)))
	p = w.start(t, data)
	require.Equal(t, len(ids), found(t, p, ids))
	require.NoError(t, p.Terminate(t.Context()))
	return w, dir, ids
}

// befall does the damage. A file may be missing where a killed program has not written it yet.
func (d damage) befall(t *testing.T, data string, missing bool) {
	t.Helper()
	path := filepath.Join(data, d.file)
	b, err := os.ReadFile(path)
	if missing && os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	if b = d.do(b); b == nil {
		require.NoError(t, os.Remove(path))
		return
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// TestDamageThatIsRefused: where acknowledged records are gone the program does not start, and does with
// --accept-loss. TestDamagedLogIsRefused of internal/broker/embedded has each kind of damage.
func TestDamageThatIsRefused(t *testing.T) { //nolint:tparallel // its parts would be some programs at once
	t.Parallel()
	w, dir, ids := left(t)
	for _, stream := range []string{"WEIR_LOG_0", "WEIR_EVIDENCE"} { //nolint:paralleltest // see above
		t.Run(stream, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "x")
			require.NoError(t, os.CopyFS(at, os.DirFS(filepath.Join(dir, "killed"))))
			damage{"jetstream/$G/streams/" + stream + "/msgs/1.blk", "flipped", flipped}.befall(t, at, false)
			for range 2 { // the refusal changes nothing
				_, err := program.Start(binary, at, "--config", w.config)
				var ended *program.Ended
				require.ErrorAs(t, err, &ended)
				require.Equal(t, 1, ended.Code)
				for _, s := range []string{"weir: data directory refused: ", stream + " lacks records ", "1.blk cannot be read", "restore the data directory from a backup; or start once with --accept-loss"} {
					require.Contains(t, ended.Said, s)
				}
				require.NotContains(t, ended.Said, "goroutine")
			}
			p := w.start(t, at, "--accept-loss")
			require.Contains(t, p.Said(), "--accept-loss: take it away before the next start")
			require.Contains(t, p.Said(), " are lost; a call whose record is gone may be made a second time")
			for _, id := range []string{"new", "newer"} {
				w.ok(t, p, id, 10)
				p.Kill()
				p = w.start(t, at)
			}
		})
	}
	w.once(t, ids)
}

// TestNothingWasLost: the way out is told to be of no use where the log is whole.
func TestNothingWasLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := filepath.Join(t.TempDir(), "data")
	p := w.start(t, data)
	ids := w.fill(t, p, 3, 10)
	p.Kill()
	p = w.start(t, data, "--accept-loss")
	require.Contains(t, p.Said(), "--accept-loss: nothing was lost")
	require.Equal(t, len(ids), found(t, p, ids))
}

// covered waits until the marks tell of every record of so many actions.
func covered(t *testing.T, data string, actions int) {
	t.Helper()
	poll.Until(t, func() bool {
		raw, err := os.ReadFile(filepath.Join(data, "weir.marks"))
		var m struct {
			Streams map[string]struct {
				Last int `json:"last"`
			} `json:"streams"`
		}
		return err == nil && json.Unmarshal(raw, &m) == nil && m.Streams["WEIR_LOG_0"].Last >= 3*actions && m.Streams["WEIR_EVIDENCE"].Last >= actions
	})
}
