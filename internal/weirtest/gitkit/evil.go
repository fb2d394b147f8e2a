package gitkit

// What git refuses where it looks at objects before it takes them (fsckObjects).

// BadTree is a pack with a commit whose tree has a folder of a name that no tree may
// have, such as .git, .GIT or git~1; and the commit.
func BadTree(name, parent string) (pack []byte, head string) {
	blob := BlobOf("[core]\n\tsshCommand = id\n")
	inner := TreeOf(Entry{Mode: "100644", Name: "config", ID: blob.ID()})
	return tip(parent, TreeOf(Entry{Mode: "40000", Name: name, ID: inner.ID()}), inner, blob)
}

// BadModules is one whose .gitmodules would have git run a program.
func BadModules(parent string) (pack []byte, head string) {
	blob := BlobOf("[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=id\n")
	return tip(parent, TreeOf(Entry{Mode: "100644", Name: ".gitmodules", ID: blob.ID()}), blob)
}

// BadLink is one in which .gitmodules is a symbolic link.
func BadLink(parent string) (pack []byte, head string) {
	blob := BlobOf("/etc/passwd")
	return tip(parent, TreeOf(Entry{Mode: "120000", Name: ".gitmodules", ID: blob.ID()}), blob)
}

// BadCommit is one whose author is none.
func BadCommit(parent string) (pack []byte, head string) {
	tree := TreeOf()
	c := Object{Type: Commit, Data: []byte("tree " + tree.ID() + "\nparent " + parent + "\nauthor nobody\ncommitter nobody\n\nbad\n")}
	return Pack(c, tree), c.ID()
}

// GoodCommit is one that nothing is wrong with: a file of the given text.
func GoodCommit(text, parent string) (pack []byte, head string) {
	blob := BlobOf(text)
	return tip(parent, TreeOf(Entry{Mode: "100644", Name: "file", ID: blob.ID()}), blob)
}

// TreeBomb is one of a thousand bytes whose tree has ten thousand million paths: ten times ten folders, each the same.
func TreeBomb(parent string) (pack []byte, head string) {
	rest := []Object{BlobOf("")}
	mode := "100644"
	for range 10 {
		var entries []Entry
		for i := range 10 {
			entries = append(entries, Entry{Mode: mode, Name: string(rune('a' + i)), ID: rest[len(rest)-1].ID()})
		}
		rest, mode = append(rest, TreeOf(entries...)), "40000"
	}
	return tip(parent, rest[len(rest)-1], rest[:len(rest)-1]...)
}

func tip(parent string, tree Object, rest ...Object) (pack []byte, head string) {
	var parents []string
	if parent != "" {
		parents = append(parents, parent)
	}
	c := CommitOf(tree.ID(), "a commit", parents...)
	return Pack(append([]Object{c, tree}, rest...)...), c.ID()
}
