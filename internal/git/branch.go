package git

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/schemas"
)

// claim says for which task a branch was made, and where it began. It is written before the branch is, so
// that a branch that is there tells whose it is, and stays as long as the repository.
type claim struct {
	Task string `json:"task"`
	Oid  string `json:"oid"`
}

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
	c, err := r.claim(branch)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err == nil && c.Task != taskID:
		return "", ErrRefExists
	}
	if err != nil {
		if c, err = g.stake(t, r, branch, base, taskID); err != nil {
			return "", err
		}
	}
	return c.Oid, g.ensure(t, r, schemas.RefOf(branch), c.Oid)
}

// stake claims a branch that is not there yet, and none of whose parts is a branch.
func (g *Git) stake(t slot, r repository, branch, base, taskID string) (claim, error) {
	names := []string{schemas.RefOf(base), schemas.RefOf(branch)}
	for i := range len(branch) {
		if branch[i] == '/' {
			names = append(names, schemas.RefOf(branch[:i]))
		}
	}
	found, err := g.look(t, r, names)
	if err != nil {
		return claim{}, err
	}
	if found[0].kind != "commit" {
		return claim{}, ErrNoRef
	}
	for _, o := range found[1:] {
		if o.kind != "" {
			return claim{}, ErrRefExists
		}
	}
	switch out, err := g.output(t, r, "", longestLook, "for-each-ref", "--count=1", schemas.RefOf(branch)+"/"); {
	case err != nil:
		return claim{}, err
	case out != "":
		return claim{}, ErrRefExists
	}
	c := claim{Task: taskID, Oid: found[0].oid}
	return c, r.putClaim(branch, c)
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

func (r repository) claimPath(branch string) string {
	return r.own("branches", strings.ReplaceAll(branch, "/", "+")) // "+" is in no task's branch
}

func (r repository) claim(branch string) (claim, error) {
	var c claim
	text, err := os.ReadFile(r.claimPath(branch))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// putClaim writes a claim as one that is there whole or not at all.
func (r repository) putClaim(branch string, c claim) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := r.claimPath(branch)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp := r.own("claim")
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	if err := syncPath(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return errors.Join(syncPath(filepath.Dir(path)), syncPath(r.own()))
}
