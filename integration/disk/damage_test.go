//go:build nightly

package disk_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// damage is something that befell a file of a data directory.
type damage struct {
	file, what string
	do         func([]byte) []byte // nil from it: the file is gone
}

func zeros(b []byte) []byte   { return make([]byte, len(b)) }
func gone([]byte) []byte      { return nil }
func flipped(b []byte) []byte { b[len(b)/2] ^= 0x10; return b }
func halved(b []byte) []byte  { return b[:len(b)/2] }

// torn is a record that was being written when the power went: it was never acknowledged.
func torn(b []byte) []byte { return append(b, b[:100]...) }

// TestDamageThatIsMended: what a cut may do to the files around the records, and to the
// last one, keeps nobody from starting and costs nothing. No call is made once more for it.
func TestDamageThatIsMended(t *testing.T) { //nolint:tparallel // its parts would be two dozen programs at once
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	p := w.start(t, filepath.Join(dir, "data"))
	ids := w.fill(t, p, 30, 100)
	p.Kill()
	clone(t, filepath.Join(dir, "data"), filepath.Join(dir, "killed"))
	p = w.start(t, filepath.Join(dir, "data"))
	require.NoError(t, p.Terminate(t.Context()))

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
				clone(t, filepath.Join(dir, how), at)
				d.befall(t, at, how == "killed")
				q := w.start(t, at)
				require.Equal(t, len(ids), found(t, q, ids))
				for _, id := range ids[:3] { // the answer is the stored one
					status, body, err := w.post(t.Context(), q, id, 100)
					require.NoError(t, err)
					require.Equal(t, http.StatusOK, status, body)
				}
				status, body, err := w.post(t.Context(), q, "new", 10)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, status, body)
				q.Kill()
			})
		}
	}
	w.once(t, ids)
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

func clone(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, string(out))
}
