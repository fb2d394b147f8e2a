//go:build linux

package git

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

func TestShallowAndPartialClones(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits, s := filled(t, g), serve(t, g, View{All: true})
	for _, version := range []string{"0", "2"} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			conf := "protocol.version=" + version
			shallow := clone(t, s, "r1", "-c", conf, "-b", "work", "--depth=1")
			require.Equal(t, "1", gitkit.Git(t, shallow, "rev-list", "--count", "HEAD"))
			gitkit.Git(t, shallow, "fetch", "-q", "--unshallow")
			require.Equal(t, "weir[bot] <"+schemas.GitUserEmail+"> Begin", gitkit.Git(t, shallow, "log", "--format=%an <%ae> %s", "HEAD~3"))

			for _, filter := range []string{"blob:none", "blob:limit=1k"} {
				partial := clone(t, s, "r1", "-c", conf, "-b", "work", "--filter="+filter, "--no-checkout")
				missing := gitkit.Git(t, partial, "rev-list", "--objects", "--missing=print", "HEAD")
				require.Equal(t, 3, strings.Count(missing, "?"), filter)
				if version == "2" { // what is missing is fetched by its id, which the old protocol does not know
					gitkit.Git(t, partial, "checkout", "-q", commits[2])
					require.FileExists(t, filepath.Join(partial, "file"))
				}
			}
			for _, filter := range []string{"tree:0", "sparse:oid=" + commits[0], "combine:blob:none+tree:1"} {
				out, err := client(t, "/", "clone", "-c", conf, "--filter="+filter, s+"/r1", filepath.Join(t.TempDir(), "c"))
				require.Error(t, err, filter)
				require.NotEmpty(t, out)
			}
		})
	}
}

func TestFetchOfNothing(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	for _, id := range []string{"nobody", "", "..", "../repos/r1", "r1.git", "a/b", "r1\x00"} {
		var out bytes.Buffer
		require.ErrorIs(t, g.Advertise(t.Context(), id, schemas.GitUploadPack, 2, View{All: true}, &out), ErrNoRepo, id)
		require.ErrorIs(t, g.UploadPack(t.Context(), id, gitwire.Fetch{}, View{All: true}, &out), ErrNoRepo, id)
		_, err := g.ReceivePack(t.Context(), id, Push{})
		require.ErrorIs(t, err, ErrNoRepo, id)
		require.Empty(t, out.Bytes())
	}
	var out bytes.Buffer
	require.Error(t, g.Advertise(t.Context(), "r1", "git-upload-archive", 0, View{All: true}, &out))
	require.Empty(t, out.Bytes())
}

// goneWriter takes so much, and then is gone.
type goneWriter struct{ left int }

var errGone = errors.New("gone")

func (w *goneWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errGone
	}
	return len(b), nil
}

func TestFetchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	oid := push(t, g, noise(3<<20))
	request := append(gitwire.AppendPacket(nil, []byte("command=fetch")), gitwire.Delim...)
	request = gitwire.AppendPacket(request, []byte("want "+oid+"\n"))
	request = gitwire.AppendPacket(request, []byte("done\n"))
	request = append(request, gitwire.Flush...)
	err := upload(t.Context(), g, "r1", 2, View{All: true}, request, &goneWriter{left: 1 << 20})
	require.ErrorIs(t, err, errGone)
	require.Empty(t, childrenOf(g.cfg.Dir))

	ctx, cancel := context.WithCancelCause(t.Context())
	w := writerFunc(func(b []byte) (int, error) { cancel(errGone); return len(b), nil })
	err = upload(ctx, g, "r1", 2, View{All: true}, request, w)
	require.ErrorIs(t, err, errGone)
	require.Empty(t, childrenOf(g.cfg.Dir))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// noisy reads bytes that nothing compresses, always the same.
type noisy struct{}

func (noisy) Read(b []byte) (int, error) {
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return len(b), nil
}

func TestMalformedFetchGetsGitsWord(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g, "work")
	var out bytes.Buffer
	var failed *ExitError
	require.ErrorAs(t, g.UploadPack(t.Context(), "r1", gitwire.Fetch{Request: []byte("0014command=ls-refs\n"), V2: true}, View{All: true}, &out), &failed)
	require.NotEmpty(t, failed.Text)
	require.NotContains(t, failed.Text, g.cfg.Dir)
}
