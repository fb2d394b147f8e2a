package gitkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
)

// What is right must be so to the real git, and what is evil only in the way that it says.
func TestPacksAreGits(t *testing.T) {
	t.Parallel()
	dir, head := gitkit.NewRepo(t)
	good, commit := gitkit.GoodCommit("text\n", head)
	tests := map[string]struct {
		pack []byte
		says string // of fsck; empty: nothing is wrong
	}{
		"a commit": {pack: good},
		"deltas": {pack: gitkit.Pack(
			gitkit.BlobOf("a base"), gitkit.Object{Type: gitkit.OfsDelta, Data: gitkit.Delta(6, 9, gitkit.Copy(0, 6), gitkit.Insert("abc"))},
			gitkit.Object{Type: gitkit.RefDelta, BaseID: gitkit.BlobOf("a base").ID(), Data: gitkit.Delta(6, 4, gitkit.Copy(2, 4))},
			gitkit.Object{Type: gitkit.Blob, Data: []byte("stored"), Packed: gitkit.Store([]byte("stored"))},
			gitkit.Object{Type: gitkit.Blob, Packed: gitkit.DeflateZeros(100_000), Size: 100_000},
			gitkit.Object{Type: gitkit.Blob, Packed: gitkit.Store(make([]byte, 200_000)), Size: 200_000},
		)},
		"a small bomb": {pack: gitkit.DeltaBomb(40 << 20)},
		"a small fan":  {pack: gitkit.DeltaFan(3, 2<<20)},
	}
	for name, test := range tests {
		r := gitkit.Run(t.Context(), dir, gitkit.Env(), test.pack, "index-pack", "--stdin", "--strict", "--fix-thin")
		require.Zero(t, r.Code, "%s: %s", name, r.Err)
	}
	require.Equal(t, "text", gitkit.Git(t, dir, "show", commit+":file"))
}

func TestEvilIsRefused(t *testing.T) {
	t.Parallel()
	dir, head := gitkit.NewRepo(t)
	type evil struct {
		pack []byte
		head string
		says string
	}
	of := func(says string) func([]byte, string) evil {
		return func(pack []byte, head string) evil { return evil{pack: pack, head: head, says: says} }
	}
	for name, e := range map[string]evil{
		".git":    of("hasDotgit")(gitkit.BadTree(".git", head)),
		".GIT":    of("hasDotgit")(gitkit.BadTree(".GIT", head)),
		"git~1":   of("hasDotgit")(gitkit.BadTree("git~1", head)),
		"modules": of("gitmodulesUrl")(gitkit.BadModules(head)),
		"link":    of("gitmodulesSymlink")(gitkit.BadLink(head)),
		"commit":  of("missing")(gitkit.BadCommit(head)),
	} {
		r := gitkit.Run(t.Context(), dir, gitkit.Env(), e.pack, "index-pack", "--stdin", "--strict", "--fix-thin")
		require.NotZero(t, r.Code, name)
		require.Contains(t, r.Err, e.says, name)
		require.Len(t, e.head, 40)
	}
}

func TestBackendServesTheRealClient(t *testing.T) {
	t.Parallel()
	b := gitkit.NewBackend(t)
	from, head := gitkit.NewRepo(t)
	url, dir := b.Add(t, "x.git", from)
	b.Require("secret")

	work := filepath.Join(t.TempDir(), "work")
	r := gitkit.Run(t.Context(), b.Root, gitkit.Env(), nil, "clone", "-q", url, work)
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, "could not read Username")
	gitkit.Git(t, b.Root, "clone", "-q", strings.Replace(url, "http://", "http://any:secret@", 1), work)
	text, err := os.ReadFile(filepath.Join(work, "README"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(text))

	next := gitkit.Write(t, work, "new", "text\n")
	require.NotEqual(t, head, next)
	gitkit.Git(t, work, "push", "-q", "origin", "main")
	require.Equal(t, next, gitkit.Git(t, dir, "rev-parse", "main"))
	require.Contains(t, b.Requests(), "POST /x.git/git-receive-pack")

	_, empty := b.Add(t, "empty.git", "")
	require.Empty(t, gitkit.Git(t, empty, "for-each-ref"))
}

func TestBodies(t *testing.T) {
	t.Parallel()
	u := gitkit.Update{Old: gitkit.Zero, New: strings.Repeat("1", 40), Ref: "refs/heads/x"}
	body := string(gitkit.PushBody(u, []byte("PACK")))
	require.True(t, strings.HasSuffix(body, "0000PACK"))
	require.Equal(t, gitkit.Pkt(gitkit.Zero+" "+u.New+" refs/heads/x\x00 report-status side-band-64k object-format=sha1 agent=git/2.39.5"), strings.TrimSuffix(body, "0000PACK"))
	require.Equal(t, "0012command=fetch\n0014agent=git/2.39.50016object-format=sha100010032have "+strings.Repeat("0", 39)+"1\n0000",
		string(gitkit.FetchV2("fetch", gitkit.Haves(1)...)))
}
