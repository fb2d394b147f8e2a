//go:build e2e

package corpus_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// gitSpec is what a row says about a body that is made. Texts have placeholders.
type gitSpec struct {
	Gen string `json:"gen"`
	// Of a push: its first command, with what is right for each that is not given, and more.
	gitUpdate

	More []gitUpdate `json:"more"`
	// Caps are all capabilities; default gitkit's. Options and Shallow are more lines.
	Caps    []string `json:"caps"`
	Options []string `json:"options"`
	Shallow []string `json:"shallow"`
	// Pack says what is wrong with it; empty: nothing.
	Pack  string `json:"pack"`
	Bytes int    `json:"bytes"`
	Name  string `json:"name"` // in a tree
	URL   string `json:"url"`  // of a submodule
	// Of a fetch.
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Lines   []string `json:"lines"` // packets as they are: "flush", "delim", or a text
	Count   int64    `json:"count"`
	// Coding is how it is encoded, whatever the header says.
	Coding string `json:"coding"`
	Size   int    `json:"size"`
}

type gitUpdate struct {
	Old string `json:"old"`
	New string `json:"new"`
	Ref string `json:"ref"`
}

// gitMakers make the bodies of rows of git.
var gitMakers = map[string]func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody{
	"push": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		return []gitBody{pushOf(t, g, r, s)}
	},
	"push_delete": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		s.New, s.Pack = gitkit.Zero, "none"
		return []gitBody{pushOf(t, g, r, s)}
	},
	"push_bad_tree": badTrees,
	"pack": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		s.Pack = "noise"
		return []gitBody{pushOf(t, g, r, s)}
	},
	"delta_bomb": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		var all []gitBody
		for _, pack := range []string{"bomb", "fan", "zeros"} {
			s.Pack = pack
			all = append(all, pushOf(t, g, r, s))
		}
		return all
	},
	"pkt_haves": func(_ *testing.T, _ *gateway, _ *inboundRow, s gitSpec) []gitBody { return []gitBody{haves(s.Count)} },
	"filter": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		var all []gitBody
		for _, filter := range []string{"sparse:oid=main:x", "tree:0", "tree:3", "combine:blob:none+tree:0", "object:type=commit"} {
			s.Command, s.Args = "fetch", []string{"filter " + filter, "want {head}", "done"}
			b := fetchOf(t, g, r, s)
			b.name = filter
			all = append(all, b)
		}
		return all
	},
	"fetch": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		return []gitBody{fetchOf(t, g, r, s)}
	},
	"packets": func(t *testing.T, g *gateway, r *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		return []gitBody{s.coded(t, packets(t, g, r, s.Lines))}
	},
	"digits": func(t *testing.T, _ *gateway, _ *inboundRow, s gitSpec) []gitBody {
		t.Helper()
		return []gitBody{s.coded(t, bytes.Repeat([]byte("0"), s.Size))}
	},
}

// bodies are all that a row stands for.
func (r *inboundRow) bodies(t *testing.T, g *gateway) []gitBody {
	t.Helper()
	var s gitSpec
	if json.Unmarshal(r.Body, &s) != nil || s.Gen == "" { // a text, or none
		return []gitBody{wireOf([]byte(r.body(t, g)))}
	}
	require.Contains(t, gitMakers, s.Gen)
	return gitMakers[s.Gen](t, g, r, s)
}

func fetchOf(t *testing.T, g *gateway, r *inboundRow, s gitSpec) gitBody {
	t.Helper()
	return s.coded(t, gitkit.FetchV2(s.Command, filled(t, g, r, s.Args)...))
}

func filled(t *testing.T, g *gateway, r *inboundRow, texts []string) []string {
	t.Helper()
	all := slices.Clone(texts)
	for i := range all {
		all[i] = g.fill(t, r, all[i])
	}
	return all
}

func packets(t *testing.T, g *gateway, r *inboundRow, lines []string) []byte {
	t.Helper()
	var b strings.Builder
	for _, line := range filled(t, g, r, lines) {
		switch line {
		case "flush":
			b.WriteString("0000")
		case "delim":
			b.WriteString("0001")
		default:
			b.WriteString(gitkit.Pkt(line))
		}
	}
	return []byte(b.String())
}

// pushOf is a push of a good commit, but for what the row says.
func pushOf(t *testing.T, g *gateway, r *inboundRow, s gitSpec) gitBody {
	t.Helper()
	own := r.errand(t, g)
	pack, tip := s.pack(t, r, own.head)
	first := gitkit.Update{Old: own.head, New: tip, Ref: schemas.RefOf(own.Branch)}
	for text, at := range map[string]*string{s.Old: &first.Old, s.New: &first.New, s.Ref: &first.Ref} {
		if text != "" {
			*at = g.fill(t, r, text)
		}
	}
	updates := []gitkit.Update{first}
	for _, u := range s.More {
		updates = append(updates, gitkit.Update{Old: g.fill(t, r, u.Old), New: g.fill(t, r, u.New), Ref: g.fill(t, r, u.Ref)})
	}
	caps := gitkit.Capabilities()
	if s.Caps != nil {
		caps = s.Caps
	}
	var head strings.Builder
	for _, oid := range filled(t, g, r, s.Shallow) {
		head.WriteString(gitkit.Pkt("shallow " + oid))
	}
	head.Write(gitkit.PushBodyWith(updates, caps, nil))
	if s.Options != nil {
		for _, o := range s.Options {
			head.WriteString(gitkit.Pkt(o + "\n"))
		}
		head.WriteString("0000")
	}
	b := s.coded(t, append([]byte(head.String()), pack...))
	b.name = s.Pack
	if len(updates) == 1 {
		b.tip = first.New
	}
	return b
}

// haves is a fetch of somebody who says to have so many objects.
func haves(n int64) gitBody {
	head := gitkit.FetchV2("fetch")
	first := string(head[:len(head)-4]) + "0001"
	line := gitkit.Pkt("have " + strings.Repeat("1", 40) + "\n")
	lines := &repeated{unit: []byte(line), left: n * int64(len(line))}
	return gitBody{data: io.MultiReader(strings.NewReader(first), lines, strings.NewReader("0000")), size: int64(len(first)) + lines.left + 4}
}

// repeated is one text again and again, and nowhere as a whole.
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

// coded is a body in the coding that the row asks for.
func (s gitSpec) coded(t *testing.T, data []byte) gitBody {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch s.Coding {
	case "":
		return wireOf(data)
	case "gzip", "gzip cut":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	default:
		t.Fatalf("there is no coding %q", s.Coding)
	}
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	if s.Coding == "gzip cut" {
		return wireOf(b.Bytes()[:b.Len()/2])
	}
	return wireOf(b.Bytes())
}
