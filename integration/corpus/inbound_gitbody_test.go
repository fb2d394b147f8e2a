//go:build e2e

package corpus_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"strings"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// gitSpec is what a row of git says about a body that is made. Texts have placeholders.
type gitSpec struct {
	Gen string `json:"gen"`
	// A push: its first command, with what is right for each member that is not given, and more.
	gitUpdate

	More    []gitUpdate `json:"more"`
	Caps    []string    `json:"caps"` // all capabilities; default gitkit's
	Options []string    `json:"options"`
	Shallow []string    `json:"shallow"`
	Pack    string      `json:"pack"` // what is wrong with it; empty: nothing
	Bytes   int         `json:"bytes"`
	Name    string      `json:"name"` // in a tree
	URL     string      `json:"url"`  // of a submodule
	// A fetch.
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Count   int64    `json:"count"`
}

type gitUpdate struct {
	Old string `json:"old"`
	New string `json:"new"`
	Ref string `json:"ref"`
}

// gitBody is one body of a request to git.
type gitBody struct {
	data io.Reader
	size int64
	tip  string // the commit that a push sets the branch to
}

func whole(data []byte) gitBody { return gitBody{data: bytes.NewReader(data), size: int64(len(data))} }

// gitBodies make the bodies of rows of git.
var gitBodies = map[string]func(c *call, s gitSpec) []gitBody{
	"push": func(c *call, s gitSpec) []gitBody { return []gitBody{c.pushOf(s)} },
	"push_delete": func(c *call, s gitSpec) []gitBody {
		s.New, s.Pack = gitkit.Zero, "none"
		return []gitBody{c.pushOf(s)}
	},
	"pack": func(c *call, s gitSpec) []gitBody {
		s.Pack = "noise"
		return []gitBody{c.pushOf(s)}
	},
	"delta_bomb": func(c *call, s gitSpec) (all []gitBody) {
		for _, pack := range []string{"bomb", "fan", "zeros"} {
			s.Pack = pack
			all = append(all, c.pushOf(s))
		}
		return all
	},
	"push_bad_tree": func(c *call, s gitSpec) (all []gitBody) {
		add := func(pack string, names ...string) {
			for _, name := range names {
				s.Pack, s.Name = pack, name
				all = append(all, c.pushOf(s))
			}
		}
		names := []string{".git", ".GIT", ".Git", "git~1", "GIT~1", ".git ", ".git.", ".g\u200cit", "..", ".", "a/b", ""}
		add("tree", names...)
		add("deep", names...)
		add("link named", ".git", ".gitmodules", ".GITMODULES", "GITMOD~1")
		for _, pack := range []string{"modules", "link", "commit", "twice"} {
			add(pack, "")
		}
		return all
	},
	"filter": func(c *call, s gitSpec) (all []gitBody) {
		for _, filter := range []string{"sparse:oid=main:x", "tree:0", "tree:3", "combine:blob:none+tree:0", "object:type=commit"} {
			s.Command, s.Args = "fetch", []string{"filter " + filter, "want {head}", "done"}
			all = append(all, c.fetchOf(s))
		}
		return all
	},
	"fetch": func(c *call, s gitSpec) []gitBody { return []gitBody{c.fetchOf(s)} },
	// A fetch by a client that has so many objects.
	"pkt_haves": func(_ *call, s gitSpec) []gitBody {
		head := gitkit.FetchV2("fetch")
		first := string(head[:len(head)-4]) + "0001"
		line := gitkit.Pkt("have " + strings.Repeat("1", 40) + "\n")
		lines := &repeated{unit: []byte(line), left: s.Count * int64(len(line))}
		return []gitBody{{data: io.MultiReader(strings.NewReader(first), lines, strings.NewReader("0000")), size: int64(len(first)) + lines.left + 4}}
	},
}

// repeated is one text again and again.
type repeated struct {
	unit []byte
	at   int
	left int64 // bytes
}

func (l *repeated) Read(p []byte) (n int, err error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	for n < len(p) && l.left > 0 {
		c := copy(p[n:], l.unit[l.at:])
		n, l.at, l.left = n+c, (l.at+c)%len(l.unit), l.left-int64(c)
	}
	return n, nil
}

// bodies are all that a row stands for.
func (c *call) bodies() []gitBody {
	var s gitSpec
	if json.Unmarshal(c.Body, &s) != nil || gitBodies[s.Gen] == nil { // a text, or none
		return []gitBody{whole([]byte(c.body()))}
	}
	return gitBodies[s.Gen](c, s)
}

func (c *call) fetchOf(s gitSpec) gitBody {
	args := make([]string, len(s.Args))
	for i := range args {
		args[i] = c.fill(s.Args[i])
	}
	return whole(gitkit.FetchV2(s.Command, args...))
}

// pushOf is a push of a good commit, except for what the row says.
func (c *call) pushOf(s gitSpec) gitBody {
	own := c.own()
	pack, tip := c.pack(s, own.base)
	first := gitkit.Update{Old: own.base, New: tip, Ref: schemas.RefOf(own.Branch)}
	for text, at := range map[string]*string{s.Old: &first.Old, s.New: &first.New, s.Ref: &first.Ref} {
		if text != "" {
			*at = c.fill(text)
		}
	}
	updates := []gitkit.Update{first}
	for _, u := range s.More {
		updates = append(updates, gitkit.Update{Old: c.fill(u.Old), New: c.fill(u.New), Ref: c.fill(u.Ref)})
	}
	caps := gitkit.Capabilities()
	if s.Caps != nil {
		caps = s.Caps
	}
	var body bytes.Buffer
	for _, oid := range s.Shallow {
		body.WriteString(gitkit.Pkt("shallow " + c.fill(oid)))
	}
	body.Write(gitkit.PushBodyWith(updates, caps, nil))
	if s.Options != nil {
		for _, o := range s.Options {
			body.WriteString(gitkit.Pkt(o + "\n"))
		}
		body.WriteString("0000")
	}
	body.Write(pack)
	b := whole(body.Bytes())
	if len(updates) == 1 {
		b.tip = first.New
	}
	return b
}

// pack is what a push brings, and the commit in it.
func (c *call) pack(s gitSpec, parent string) (pack []byte, tip string) {
	pack, tip = gitkit.GoodCommit("of "+c.ID, parent)
	one := func(o gitkit.Object) []byte { return gitkit.Pack(o) }
	unknown := strings.Repeat("b", 40)
	switch s.Pack {
	case "":
		return pack, tip
	case "none":
		return nil, tip
	case "half":
		return pack[:len(pack)/2], tip
	case "wrong checksum":
		pack[len(pack)-1] ^= 1
		return pack, tip
	case "huge count":
		return gitkit.PackSaying(1<<31-1, gitkit.BlobOf("one")), tip
	case "no base":
		return one(gitkit.Object{Type: gitkit.RefDelta, BaseID: strings.Repeat("ab", 20), Data: gitkit.Delta(4, 4, gitkit.Copy(0, 4))}), tip
	case "no commit":
		blob := gitkit.BlobOf("a branch must be at a commit")
		return one(blob), blob.ID()
	case "incomplete": // a commit without its tree
		commit := gitkit.CommitOf(strings.Repeat("cd", 20), "of nothing", parent)
		return one(commit), commit.ID()
	case "bomb":
		return gitkit.DeltaBomb(10 << 30), unknown
	case "fan":
		return gitkit.DeltaFan(400, 256<<20), unknown
	case "zeros":
		return one(gitkit.Object{Type: gitkit.Blob, Size: 2 << 30, Packed: gitkit.DeflateZeros(64 << 20)}), unknown
	case "noise":
		data := make([]byte, s.Bytes)
		_, _ = rand.Read(data)
		return gitkit.GoodCommit(string(data), parent)
	}
	return c.evil(s, parent)
}

// evil are packs that git must read to refuse them.
func (c *call) evil(s gitSpec, parent string) (pack []byte, tip string) {
	commit := func(tree gitkit.Object, rest ...gitkit.Object) ([]byte, string) {
		top := gitkit.CommitOf(tree.ID(), "evil", parent)
		return gitkit.Pack(append([]gitkit.Object{top, tree}, rest...)...), top.ID()
	}
	entry := func(mode, name string, o gitkit.Object) gitkit.Entry {
		return gitkit.Entry{Mode: mode, Name: name, ID: o.ID()}
	}
	file := gitkit.BlobOf("x")
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
		link := gitkit.BlobOf("/etc/passwd")
		return commit(gitkit.TreeOf(entry("120000", s.Name, link)), link)
	case "submodule": // its URL or its path would be taken for an option
		modules := gitkit.BlobOf("[submodule \"x\"]\n\tpath = " + s.Name + "\n\turl = " + s.URL + "\n")
		return commit(gitkit.TreeOf(entry("100644", ".gitmodules", modules)), modules)
	case "deep":
		dir := gitkit.TreeOf(entry("100644", "config", file))
		inner := gitkit.TreeOf(entry("40000", s.Name, dir))
		return commit(gitkit.TreeOf(entry("40000", "a", inner)), inner, dir, file)
	case "twice": // two entries of a tree with one name
		return commit(gitkit.TreeOf(entry("100644", "x", file), entry("100644", "x", file)), file)
	}
	c.t.Fatalf("pack %q is not known", s.Pack)
	return nil, ""
}
