//go:build e2e

package corpus_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"weir/internal/weirtest/gitkit"
)

// pack is what a push brings, and the commit in it.
func (s gitSpec) pack(t *testing.T, r *inboundRow, parent string) (pack []byte, tip string) {
	t.Helper()
	pack, tip = gitkit.GoodCommit("of "+r.ID, parent)
	switch s.Pack {
	case "":
	case "none":
		pack = nil
	case "half":
		pack = pack[:len(pack)/2]
	case "header":
		pack = pack[:12]
	case "no checksum":
		pack = pack[:len(pack)-20]
	case "wrong checksum":
		pack[len(pack)-1] ^= 1
	case "trailing":
		pack = append(pack, "and more"...)
	case "two":
		pack = append(pack, pack...)
	case "no pack":
		pack = []byte(strings.Repeat("no pack at all ", 100))
	case "version":
		pack[7] = 9
		pack = gitkit.Seal(pack[:len(pack)-20])
	case "huge count":
		pack = gitkit.PackSaying(1<<31-1, gitkit.BlobOf("one"))
	case "few":
		pack = gitkit.PackSaying(2, gitkit.BlobOf("one"), gitkit.BlobOf("two"), gitkit.BlobOf("three"))
	case "lies about a size":
		pack = gitkit.Pack(gitkit.Object{Type: gitkit.Blob, Data: []byte("short"), Size: 1 << 40})
	case "no zlib":
		pack = gitkit.Pack(gitkit.Object{Type: gitkit.Blob, Data: []byte("12345678"), Packed: []byte("no zlib!")})
	case "no type":
		pack = gitkit.Pack(gitkit.Object{Type: 5, Data: []byte("what")})
	case "no base":
		pack = gitkit.Pack(gitkit.Object{Type: gitkit.RefDelta, BaseID: strings.Repeat("ab", 20), Data: gitkit.Delta(4, 4, gitkit.Copy(0, 4))})
	case "no commit":
		blob := gitkit.BlobOf("a branch must be at a commit")
		pack, tip = gitkit.Pack(blob), blob.ID()
	case "incomplete": // a commit without its tree
		c := gitkit.CommitOf(strings.Repeat("cd", 20), "of nothing", parent)
		pack, tip = gitkit.Pack(c), c.ID()
	case "bomb":
		pack, tip = gitkit.DeltaBomb(10<<30), strings.Repeat("b", 40)
	case "fan":
		pack, tip = gitkit.DeltaFan(400, 256<<20), strings.Repeat("b", 40)
	case "zeros":
		pack, tip = gitkit.Pack(gitkit.Object{Type: gitkit.Blob, Size: 2 << 30, Packed: gitkit.DeflateZeros(64 << 20)}), strings.Repeat("b", 40)
	case "noise":
		data := make([]byte, s.Bytes)
		_, _ = rand.Read(data)
		pack, tip = gitkit.GoodCommit(string(data), parent)
	default:
		pack, tip = s.evil(t, parent)
	}
	return pack, tip
}

// evil are packs that git must look into to refuse them.
func (s gitSpec) evil(t *testing.T, parent string) (pack []byte, tip string) {
	t.Helper()
	commit := func(tree gitkit.Object, rest ...gitkit.Object) ([]byte, string) {
		c := gitkit.CommitOf(tree.ID(), "evil", parent)
		return gitkit.Pack(append([]gitkit.Object{c, tree}, rest...)...), c.ID()
	}
	link := gitkit.BlobOf("/etc/passwd")
	switch s.Pack {
	case "tree":
		return gitkit.BadTree(s.Name, parent)
	case "modules":
		return gitkit.BadModules(parent)
	case "link":
		return gitkit.BadLink(parent)
	case "commit":
		return gitkit.BadCommit(parent)
	case "link named":
		return commit(gitkit.TreeOf(gitkit.Entry{Mode: "120000", Name: s.Name, ID: link.ID()}), link)
	case "submodule": // its URL or its path would be taken for an option
		modules := gitkit.BlobOf("[submodule \"x\"]\n\tpath = " + s.Name + "\n\turl = " + s.URL + "\n")
		return commit(gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: ".gitmodules", ID: modules.ID()}), modules)
	case "deep":
		file := gitkit.BlobOf("x")
		dir := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: "config", ID: file.ID()})
		inner := gitkit.TreeOf(gitkit.Entry{Mode: "40000", Name: s.Name, ID: dir.ID()})
		return commit(gitkit.TreeOf(gitkit.Entry{Mode: "40000", Name: "a", ID: inner.ID()}), inner, dir, file)
	case "twice": // one name in a tree, two entries
		file := gitkit.BlobOf("x")
		e := gitkit.Entry{Mode: "100644", Name: "x", ID: file.ID()}
		return commit(gitkit.TreeOf(e, e), file)
	}
	t.Fatalf("there is no pack %q", s.Pack)
	return nil, ""
}

func badTrees(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
	t.Helper()
	var all []gitBody
	add := func(pack, name string) {
		s.Pack, s.Name = pack, name
		b := pushOf(t, g, r, s)
		b.name = pack + " " + name
		all = append(all, b)
	}
	for _, name := range []string{".git", ".GIT", ".Git", "git~1", "GIT~1", ".git ", ".git.", ".g\u200cit", "..", ".", "a/b", ""} {
		add("tree", name)
		add("deep", name)
	}
	for _, name := range []string{".git", ".gitmodules", ".GITMODULES", "GITMOD~1"} {
		add("link named", name)
	}
	for _, pack := range []string{"modules", "link", "commit", "twice"} {
		add(pack, "")
	}
	return all
}
