package git

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/gitwire"
)

// View is what a client is shown of a repository: all of it, or those refs alone.
//
// Of a view that is not All, a fetch gets commits and tags only that the refs lead to. A file or a
// directory it gets by its object id, as partial clones need, wherever that is: who names one has its content's hash.
type View struct {
	All  bool
	Refs []string
	// Tenant is whose turn a fetch takes.
	Tenant string
}

// shown are the refs of a view that may be one.
func (v View) shown() []string {
	return slices.DeleteFunc(slices.Clone(v.Refs), func(ref string) bool {
		return !strings.HasPrefix(ref, "refs/") || !gitwire.ValidRef(ref)
	})
}

// settings make git hide what is not in the view. The last one that fits counts.
func (v View) settings(r repository) ([]setting, error) {
	if v.All {
		return nil, nil
	}
	list := []setting{{hideRefs, "refs"}}
	for _, ref := range v.shown() {
		list = append(list, setting{hideRefs, "!" + ref})
	}
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(v.Refs, head) {
		list = append(list, setting{hideRefs, "HEAD"})
	}
	return list, nil
}

const hideRefs = "transfer.hideRefs"

// unseen returns an object that a request of protocol 2 asks for and that the view does
// not lead to, or nothing. Git itself would give out whatever it has: that protocol knows no other rule.
func (g *Git) unseen(t turn, r repository, v View, f gitwire.Fetch) (string, error) {
	tips, err := g.look(t, r, v.shown())
	if err != nil {
		return "", err
	}
	asked := slices.DeleteFunc(slices.Clone(f.Wants), func(oid string) bool {
		return slices.ContainsFunc(tips, func(o object) bool { return o.oid == oid })
	})
	if len(asked) == 0 {
		return "", nil
	}
	found, err := g.look(t, r, asked)
	if err != nil {
		return "", err
	}
	var walk strings.Builder
	for i, o := range found {
		switch o.kind {
		case "tag":
			return asked[i], nil
		case "commit":
			fmt.Fprintln(&walk, o.oid)
		}
	}
	if walk.Len() == 0 {
		return "", nil
	}
	for _, o := range tips {
		if o.kind == "commit" {
			fmt.Fprintln(&walk, "^"+o.oid)
		}
	}
	return g.firstOf(t, r, walk.String())
}

// firstOf is the first commit of a walk, if it has one.
func (g *Git) firstOf(t turn, r repository, walk string) (string, error) {
	out, err := g.output(t, r, walk, longestLook, "rev-list", "--max-count=1", "--stdin")
	return strings.TrimSpace(out), err
}

// within holds the request of a fetch to what is in a view: it returns what git is to see of it, or why it is to see
// nothing. Git looks at what is hidden in some places where it should not.
func (g *Git) within(t turn, r repository, v View, v2 bool, request []byte) (asked []byte, refusal string, err error) {
	if v2 {
		f, err := gitwire.ParseFetch(request, true)
		if err != nil {
			return nil, "", err
		}
		if oid, err := g.unseen(t, r, v, f); err != nil || oid != "" {
			return nil, "not our ref " + oid, err
		}
	}
	return v.excluding(request)
}

const deepenNot = "deepen-not "

// excluding names the refs in full that a shallow fetch is to stop at, as git would look for a short name among
// all that it has. One that is not in the view is refused in git's words for what it does not find.
func (v View) excluding(request []byte) (whole []byte, refusal string, err error) {
	if !bytes.Contains(request, []byte(deepenNot)) {
		return request, "", nil
	}
	p := gitwire.NewPackets(bytes.NewReader(request))
	for {
		kind, data, err := p.Next()
		if err == io.EOF { //nolint:errorlint // between packets, and nowhere else
			return whole, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		if name, ok := bytes.CutPrefix(data, []byte(deepenNot)); ok && kind == gitwire.KindData {
			named := string(bytes.TrimSuffix(name, []byte("\n")))
			ref := v.named(named)
			if ref == "" {
				return nil, "ambiguous deepen-not: " + named, nil
			}
			data = []byte(deepenNot + ref + "\n")
		}
		switch kind {
		case gitwire.KindData:
			whole = gitwire.AppendPacket(whole, data)
		case gitwire.KindFlush:
			whole = append(whole, gitwire.Flush...)
		case gitwire.KindDelim:
			whole = append(whole, gitwire.Delim...)
		case gitwire.KindEnd:
			return nil, "", gitwire.ErrMalformed
		}
	}
}

// named is the ref of a view that a name stands for, or nothing.
func (v View) named(name string) string {
	for _, ref := range v.shown() {
		if name == ref || "refs/"+name == ref || "refs/heads/"+name == ref {
			return ref
		}
	}
	return ""
}

const symref = "symref="

// nameless takes out of an advertisement of protocol 0 which ref HEAD is, if that is not in the view: git
// says so whatever it hides.
func (v View) nameless(next func(io.Reader) error) func(io.Reader) error {
	if v.All {
		return next
	}
	return func(r io.Reader) error {
		kind, first, err := gitwire.NewPackets(r).Next()
		switch {
		case err == io.EOF: //nolint:errorlint // git has said nothing
			return next(r)
		case err != nil:
			return err
		case kind != gitwire.KindData:
			return next(io.MultiReader(strings.NewReader(gitwire.Flush), r)) // there is no ref
		}
		ref, list, _ := strings.Cut(string(first), "\x00") // git has capabilities on the first line, whatever it is
		kept := slices.DeleteFunc(strings.Fields(list), func(c string) bool {
			of, ok := strings.CutPrefix(c, symref)
			_, to, _ := strings.Cut(of, ":")
			return ok && !slices.Contains(v.shown(), to)
		})
		head := gitwire.AppendPacket(nil, []byte(ref+"\x00"+strings.Join(kept, " ")+"\n"))
		return next(io.MultiReader(bytes.NewReader(head), r))
	}
}
