package gitkit_test

import (
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
