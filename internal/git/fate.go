package git

import (
	"context"
	"errors"

	"weir/internal/gitwire"
	"weir/schemas"
)

// Fate is what a branch says of a push.
type Fate struct {
	// Head is where the branch is.
	Head string
	// Has: it is at the push's object, or at one that was built on it.
	Has bool
}

// Fate waits until no process of a push is left, as Quiet does, and looks whether a branch has an object.
// What it reports is on the disk: a failure to bring it there is an error. ErrNoRef where the branch is not there.
func (g *Git) Fate(ctx context.Context, id, push, branch, oid string) (Fate, error) {
	r, err := g.repo(id)
	switch {
	case err != nil:
		return Fate{}, err
	case !validBranch(branch):
		return Fate{}, ErrNoRef
	case !gitwire.ValidOid(oid):
		return Fate{}, errors.New("the push has no proper object id")
	}
	if err := g.Quiet(ctx, id, push); err != nil {
		return Fate{}, err
	}
	t, err := g.lookUp(ctx)
	if err != nil {
		return Fate{}, err
	}
	defer t.end()
	ref := schemas.RefOf(branch)
	f := Fate{}
	if f.Head, err = g.tip(t, r, ref); err != nil {
		return Fate{}, err
	}
	if f.Has, err = g.leadsTo(t, r, f.Head, oid); err != nil {
		return Fate{}, err
	}
	// After the look: what is brought to the disk is what was seen, or came later.
	return f, r.syncRef(ref)
}

// leadsTo reports whether a commit is another, or was built on it.
func (g *Git) leadsTo(t turn, r repository, from, oid string) (bool, error) {
	if from == oid {
		return true, nil
	}
	found, err := g.look(t, r, []string{oid})
	if err != nil || found[0].kind != "commit" {
		return false, err
	}
	rest, err := g.firstOf(t, r, oid+"\n^"+from+"\n")
	return err == nil && rest == "", err
}
