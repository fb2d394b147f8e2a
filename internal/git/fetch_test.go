//go:build linux

package git

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// TestPartialFetches: blobs may be left out, and nothing else.
func TestPartialFetches(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	oid := push(t, g, "text")
	for filter, good := range map[string]bool{"blob:none": true, "blob:limit=1k": true, "tree:0": false, "sparse:oid=" + oid: false, "combine:blob:none+tree:1": false} {
		var out bytes.Buffer
		err := upload(t.Context(), g, "r1", 2, view{All: true}, gitkit.FetchV2("fetch", "want "+oid, "filter "+filter, "done"), &out)
		require.Equal(t, good, err == nil && strings.Contains(out.String(), "PACK"), filter)
	}
}

func TestFetchOfNothing(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	begin(t, g)
	for _, id := range []string{"nobody", "", "..", "../repos/r1", "r1.git", "a/b", "r1\x00"} {
		var out bytes.Buffer
		require.ErrorIs(t, g.advertise(t.Context(), id, schemas.GitUploadPack, 2, view{All: true}, &out), ErrNoRepo, id)
		require.ErrorIs(t, g.uploadPack(t.Context(), id, gitwire.Fetch{}, view{All: true}, &out), ErrNoRepo, id)
		_, err := g.ReceivePack(t.Context(), id, Push{})
		require.ErrorIs(t, err, ErrNoRepo, id)
		require.Empty(t, out.Bytes())
	}
	var out bytes.Buffer
	require.Error(t, g.advertise(t.Context(), "r1", "git-upload-archive", 0, view{All: true}, &out))
	require.Empty(t, out.Bytes())
	var failed *ExitError // of what is malformed, git's word
	require.ErrorAs(t, g.uploadPack(t.Context(), "r1", gitwire.Fetch{Request: []byte("0014command=ls-refs\n"), V2: true}, view{All: true}, &out), &failed)
	require.NotEmpty(t, failed.Text)
	require.NotContains(t, failed.Text, g.cfg.Dir)
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
	begin(t, g)
	oid := push(t, g, noise(3<<20))
	request := gitkit.FetchV2("fetch", "want "+oid, "done")
	err := upload(t.Context(), g, "r1", 2, view{All: true}, request, &goneWriter{left: 1 << 20})
	require.ErrorIs(t, err, errGone)
	require.Empty(t, childrenOf(g.cfg.Dir))

	ctx, cancel := context.WithCancelCause(t.Context())
	w := writerFunc(func(b []byte) (int, error) { cancel(errGone); return len(b), nil })
	err = upload(ctx, g, "r1", 2, view{All: true}, request, w)
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

func TestDiff(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits := filled(t, g)
	diff, cut, err := g.Diff(t.Context(), schemas.Repo{ID: "r1", Tenant: "acme"}, commits[0], commits[2], 1<<20)
	require.NoError(t, err)
	require.False(t, cut)
	require.Contains(t, string(diff), "\n-"+strings.Repeat("a", 5000)+"\n+"+strings.Repeat("c", 5000)+"\n")
	diff, cut, err = g.Diff(t.Context(), schemas.Repo{ID: "r1", Tenant: "acme"}, commits[0], commits[2], 200)
	require.NoError(t, err)
	require.True(t, cut)
	require.Regexp(t, `^diff --git a/file b/file\n(.+\n)*$`, string(diff), "whole lines")
	require.LessOrEqual(t, len(diff), 200)
	for _, absent := range []string{strings.Repeat("1", 40), "--output=/tmp/x", "refs/heads/none"} {
		_, _, err = g.Diff(t.Context(), schemas.Repo{ID: "r1", Tenant: "acme"}, absent, commits[2], 200)
		require.ErrorIs(t, err, fault.ErrNotFound, absent)
	}
	_, _, err = g.Diff(t.Context(), schemas.Repo{ID: "r2"}, commits[0], commits[2], 200)
	require.ErrorIs(t, err, ErrNoRepo)

	pack, bomb := gitkit.TreeBomb(commits[2])
	_, err = g.ReceivePack(t.Context(), "r1", pushOf("work", commits[2], bomb, bytes.NewReader(pack)))
	require.NoError(t, err)
	diff, cut, err = g.Diff(t.Context(), schemas.Repo{ID: "r1", Tenant: "acme"}, commits[2], bomb, 200)
	require.NoError(t, err)
	require.True(t, cut, "ten thousand million paths")
	require.Empty(t, diff)
}
