package git

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/gitwire"
	"weir/schemas"
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
		return []setting{{hideRefs, ownRefs}}, nil
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
func (g *Git) unseen(t slot, r repository, v View, f gitwire.Fetch) (string, error) {
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
func (g *Git) firstOf(t slot, r repository, walk string) (string, error) {
	out, err := g.output(t, r, walk, longestLook, "rev-list", "--max-count=1", "--stdin")
	return strings.TrimSpace(out), err
}

// within returns why git must not see a request of a fetch, or nothing. Git looks at what is hidden in some
// places where it should not.
func (g *Git) within(t slot, r repository, v View, f gitwire.Fetch) (refusal string, err error) {
	for _, name := range f.DeepenNot { // git's words for a ref that is none
		if !slices.ContainsFunc(v.shown(), func(ref string) bool {
			return name == ref || "refs/"+name == ref || schemas.RefOf(name) == ref
		}) {
			return "ambiguous deepen-not: " + name, nil
		}
	}
	if f.V2 {
		if oid, err := g.unseen(t, r, v, f); err != nil || oid != "" {
			return "not our ref " + oid, err
		}
	}
	return "", nil
}

// narrowed takes out of an advertisement of protocol 0 which ref HEAD is, if that is not in the view: git
// says so whatever it hides.
func (v View) narrowed(next func(io.Reader) error) func(io.Reader) error {
	return func(r io.Reader) error {
		a, err := gitwire.ReadAdvertisement(r)
		if err != nil {
			return err
		}
		a.Refs = gitwire.KeepRefs(a.Refs, func(ref string) bool { return slices.Contains(v.Refs, ref) })
		return next(bytes.NewReader(a.Bytes()))
	}
}
