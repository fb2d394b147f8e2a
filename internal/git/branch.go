package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"weir/schemas"
)

// ownRefs is where Weir keeps refs of its own, which no client is shown.
const ownRefs = "refs/weir"

// claimRef says for which task a branch was made, and is at the commit where that began. It is written before
// the branch is, so that a branch that is there tells whose it is, and stays as long as the repository.
func claimRef(branch, taskID string) string {
	task := schemas.EscapeToken(taskID)
	if len(task) > longestName {
		sum := sha256.Sum256([]byte(taskID))
		task = hex.EncodeToString(sum[:])
	}
	return ownRefs + "/" + strings.ReplaceAll(branch, "/", "+") + "/" + task // "+" is in no task's branch
}

// longestName is short of the longest name of a file: git appends to it.
const longestName = 240

// Branch makes a task's branch at the head of base and returns the object id. A repeat for the same task
// returns the same, wherever the branch and the base are by then; ErrRefExists where another
// branch has that name, or one that excludes it ("a" and "a/b"); ErrNoRef where base is not there.
func (g *Git) Branch(ctx context.Context, id, branch, base, taskID string) (oid string, err error) {
	r, err := g.repo(id)
	if err != nil {
		return "", err
	}
	switch {
	case !schemas.ValidBranch(branch):
		return "", errors.New("the branch has no proper name")
	case !schemas.ValidID(taskID):
		return "", errors.New("the task has no proper id")
	case !validBranch(base):
		return "", ErrNoRef
	}
	t, err := g.lookUp(ctx)
	if err != nil {
		return "", err
	}
	defer t.end()
	unlock, err := g.claims.Lock(t.ctx, string(r)) //nolint:contextcheck // it is ctx, or ends earlier
	if err != nil {
		return "", err
	}
	defer unlock()
	claim := claimRef(branch, taskID)
	out, err := g.output(t, r, "", longestLook, "for-each-ref", "--format=%(objectname) %(refname)", path.Dir(claim)+"/")
	if err != nil {
		return "", err
	}
	oid, by, claimed := strings.Cut(strings.TrimSpace(out), " ")
	if !claimed {
		if oid, err = g.beginning(t, r, branch, base); err == nil {
			err = g.ensure(t, r, claim, oid)
		}
	} else if by != claim {
		err = ErrRefExists
	}
	if err != nil {
		return "", err
	}
	return oid, g.ensure(t, r, schemas.RefOf(branch), oid)
}

// beginning is where a branch begins that is not there yet, and none of whose parts is a branch.
func (g *Git) beginning(t slot, r repository, branch, base string) (string, error) {
	names := []string{schemas.RefOf(base), schemas.RefOf(branch)}
	for i := range len(branch) {
		if branch[i] == '/' {
			names = append(names, schemas.RefOf(branch[:i]))
		}
	}
	found, err := g.look(t, r, names)
	if err != nil {
		return "", err
	}
	if found[0].kind != "commit" {
		return "", ErrNoRef
	}
	below, err := g.output(t, r, "", longestLook, "for-each-ref", "--count=1", schemas.RefOf(branch)+"/")
	if below != "" || slices.ContainsFunc(found[1:], func(o object) bool { return o.kind != "" }) {
		err = cmp.Or(err, ErrRefExists)
	}
	return found[0].oid, err
}

// ensure makes a ref at an object where there is none. The process that made it may have died before it was on the disk.
func (g *Git) ensure(t slot, r repository, ref, oid string) error {
	switch _, err := g.tip(t, r, ref); {
	case err == nil:
		return r.syncRef(ref)
	case !errors.Is(err, ErrNoRef):
		return err
	}
	w, err := r.write(t.ctx, ref)
	if err != nil {
		return err
	}
	defer w.done()
	if err := g.run(t, job{
		args: []string{"update-ref", "--stdin"}, dir: string(r), env: r.dirEnv(),
		in: text("create " + ref + " " + oid + "\n"), hold: []*os.File{w.lock},
	}); err != nil {
		return err
	}
	return r.syncRef(ref)
}
