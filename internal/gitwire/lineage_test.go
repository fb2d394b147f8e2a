package gitwire_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
)

func lineageOf(t *testing.T, pack []byte) *gitwire.Lineage {
	t.Helper()
	l := gitwire.NewLineage()
	_, err := gitwire.ReadPack(bytes.NewReader(pack), gitwire.PackLimits{}, l)
	require.NoError(t, err)
	return l
}

func TestLineage(t *testing.T) {
	t.Parallel()
	dir, first := gitkit.NewRepo(t)
	var commits []string
	for _, text := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		commits = append(commits, gitkit.Write(t, dir, "file", text))
	}
	last := commits[len(commits)-1]
	gitkit.Git(t, dir, "checkout", "-q", "-b", "side", first)
	side := gitkit.Write(t, dir, "other", "x")
	gitkit.Git(t, dir, "merge", "-q", "--no-ff", "-m", "merge", last)
	merge := gitkit.Git(t, dir, "rev-parse", "HEAD")

	for name, pack := range map[string][]byte{
		"whole": gitkit.PackOf(t, dir, false, merge), "thin": gitkit.PackOf(t, dir, true, merge, first),
	} {
		l := lineageOf(t, pack)
		for _, c := range append(commits, side, first, merge) {
			assert.True(t, l.Builds(c, merge), name)
		}
		assert.True(t, l.Builds(first, last), name)
		assert.False(t, l.Builds(side, last), name)
		assert.False(t, l.Builds(last, first), name)
		assert.False(t, l.Builds(merge, gitkit.BlobOf("x").ID()), name)
		assert.False(t, l.Builds("", merge), name)
		assert.False(t, l.Builds(strings.ToUpper(first), merge), name)
		assert.True(t, l.Whole())
	}
	assert.True(t, lineageOf(t, gitwire.EmptyPack()).Builds(first, first))
	assert.False(t, lineageOf(t, gitkit.PackOf(t, dir, false, last, first)).Builds(side, last))
}

// TestLineageOfDeltas: a commit that comes as a delta of another is one.
func TestLineageOfDeltas(t *testing.T) {
	t.Parallel()
	tree := gitkit.TreeOf()
	one := gitkit.CommitOf(tree.ID(), "one", gitkit.BlobOf("none").ID())
	two := gitkit.CommitOf(tree.ID(), "two", one.ID())
	three := gitkit.CommitOf(tree.ID(), "three", two.ID())
	twoOf := gitkit.Delta(int64(len(one.Data)), int64(len(two.Data)), inserts(two.Data)...)
	threeOf := gitkit.Delta(int64(len(two.Data)), int64(len(three.Data)), append([][]byte{gitkit.Copy(0, 5)}, inserts(three.Data[5:])...)...)
	for name, objects := range map[string][]gitkit.Object{
		"by offset": {gitkit.BlobOf("x"), one, {Type: gitkit.OfsDelta, Base: 1, Data: twoOf}, {Type: gitkit.OfsDelta, Base: 2, Data: threeOf}},
		"by id":     {one, {Type: gitkit.RefDelta, BaseID: one.ID(), Data: twoOf}, {Type: gitkit.RefDelta, BaseID: two.ID(), Data: threeOf}},
	} {
		l := lineageOf(t, gitkit.Pack(objects...))
		assert.True(t, l.Builds(one.ID(), three.ID()), name)
	}
	// What is not made of its base is nothing, and nothing is made of it.
	l := lineageOf(t, gitkit.Pack(one, gitkit.Object{Type: gitkit.OfsDelta, Base: 0, Data: gitkit.Delta(7, int64(len(two.Data)), inserts(two.Data)...)}))
	assert.False(t, l.Builds(one.ID(), two.ID()))
}

func inserts(data []byte) [][]byte {
	var lines [][]byte
	for len(data) > 0 {
		n := min(len(data), 127)
		lines = append(lines, gitkit.Insert(string(data[:n])))
		data = data[n:]
	}
	return lines
}

// TestLineageReadsParentsAsGit: a line that looks like a parent is none where git reads none, so that
// nothing claims to build on what it drops. What git says is asked of git.
func TestLineageReadsParentsAsGit(t *testing.T) {
	t.Parallel()
	dir, old := gitkit.NewRepo(t)
	other := gitkit.Write(t, dir, "file", "other")
	tree := gitkit.Git(t, dir, "rev-parse", "HEAD^{tree}")
	const by = "author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n"
	for name, c := range map[string]struct {
		text  string
		built bool
	}{
		"a parent":                      {"tree " + tree + "\nparent " + old + "\n" + by + "\nx\n", true},
		"the second":                    {"tree " + tree + "\nparent " + other + "\nparent " + old + "\n" + by + "\nx\n", true},
		"behind the committer":          {"tree " + tree + "\n" + by + "parent " + old + "\n\nx\n", false},
		"between author and committer":  {"tree " + tree + "\n" + strings.Replace(by, "\n", "\nparent "+old+"\n", 1) + "\nx\n", false},
		"behind a blank line":           {"tree " + tree + "\n" + by + "\nparent " + old + "\n", false},
		"behind a line of another word": {"tree " + tree + "\nparent_ " + old + "\nparent " + old + "\n" + by + "\nx\n", false},
		"in a header's continuation":    {"tree " + tree + "\n" + by + "gpgsig x\n parent " + old + "\nparent " + old + "\n\nx\n", false},
	} {
		data := []byte(c.text)
		o := gitkit.Object{Type: gitkit.Commit, Data: data}
		id := gitkit.GitIn(t, dir, data, "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
		require.Equal(t, o.ID(), id, name)
		asked := gitkit.Run(t.Context(), dir, gitkit.Env(), nil, "merge-base", "--is-ancestor", old, id)
		if name != "behind a line of another word" && name != "between author and committer" { // of which git makes nothing
			require.Equal(t, c.built, asked.Code == 0, name)
		}
		// Of the other's parent, which old is as well, the pack has nothing.
		assert.Equal(t, c.built, lineageOf(t, gitkit.Pack(o)).Builds(old, id), name)
	}
	for name, text := range map[string]string{
		"no tree":     "parent " + old + "\n" + by + "\nx\n",
		"half a tree": "tree " + tree[1:] + "\nparent " + old + "\n\nx\n",
		"nothing":     "", "half a parent": "tree " + tree + "\nparent " + old,
	} {
		o := gitkit.Object{Type: gitkit.Commit, Data: []byte(text)}
		assert.False(t, lineageOf(t, gitkit.Pack(o)).Builds(old, o.ID()), name)
	}
}

// TestLineageIsBounded: however small the commits are, what is kept of them has an end. Beyond that
// none is seen.
func TestLineageIsBounded(t *testing.T) { //nolint:paralleltest // it counts what the whole process holds
	const most = 4 << 20
	tree := gitkit.TreeOf().ID()
	data := []byte("tree " + tree + "\n        ")
	wide := make([]gitkit.Object, 40)
	parents := strings.Repeat("parent "+tree+"\n", 2000)
	for i := range wide {
		d := []byte("tree " + tree + "\n" + parents + strconv.Itoa(i))
		wide[i] = gitkit.Object{Type: gitkit.Commit, Size: int64(len(d)), Packed: gitkit.Store(d)}
	}
	for name, pack := range map[string][]byte{
		"small": many(t, 14_000, func(i int) []byte {
			binary.BigEndian.PutUint64(data[len(data)-8:], uint64(i))
			return data
		}),
		"many parents": gitkit.Pack(wide...),
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := gitwire.NewLineage()
		l.Limit(most)
		_, err := gitwire.ReadPack(bytes.NewReader(pack), gitwire.PackLimits{}, l)
		require.NoError(t, err)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		assert.False(t, l.Whole(), name)
		assert.LessOrEqual(t, held, int64(most), name)
		assert.Greater(t, held, int64(most/4), name) // and that is not for nothing
		runtime.KeepAlive(pack)
		runtime.KeepAlive(l)
	}
}

// many is a pack of many commits.
func many(t *testing.T, n int, data func(i int) []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("PACK")
	b.Write(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 2}, uint32(n)))
	for i := range n {
		d := data(i)
		b.Write([]byte{0x80 | 1<<4 | byte(len(d)&15), byte(len(d) >> 4)})
		b.Write(gitkit.Store(d))
	}
	return gitkit.Seal(b.Bytes())
}

// TestLineageHoldsLittle: what is no commit is not kept.
func TestLineageHoldsLittle(t *testing.T) {
	t.Parallel()
	assert.True(t, lineageOf(t, gitkit.DeltaBomb(1<<30)).Whole())
	large := gitkit.CommitOf(gitkit.TreeOf().ID(), strings.Repeat("x", 2<<20), gitkit.BlobOf("p").ID())
	assert.False(t, lineageOf(t, gitkit.Pack(large)).Builds(gitkit.BlobOf("p").ID(), large.ID()))
}
