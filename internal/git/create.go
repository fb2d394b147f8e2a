package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/schemas"
)

// Create makes a repository with one empty commit on its default branch, and returns
// that. A repository that is there is left as it is, and its own default branch's head returned.
func (g *Git) Create(ctx context.Context, id, defaultBranch string) (head string, err error) {
	if !validBranch(defaultBranch) {
		return "", errors.New("the default branch has a name that git does not take")
	}
	t, err := g.lookUp(ctx)
	if err != nil {
		return "", err
	}
	defer t.end()
	r, err := g.make(t, id, func(r repository) error {
		if err := r.setHead(schemas.RefOf(defaultBranch)); err != nil {
			return err
		}
		return g.run(t, job{
			args: []string{"fast-import", "--quiet", "--date-format=now"},
			dir:  string(r), env: r.dirEnv(),
			in: text(firstCommit(defaultBranch)),
		})
	})
	if err != nil {
		return "", err
	}
	ref, err := r.head()
	if err != nil {
		return "", err
	}
	return g.tip(t, r, ref)
}

func firstCommit(branch string) string {
	const message = "Begin\n"
	return fmt.Sprintf("commit %s\ncommitter %s <%s> now\ndata %d\n%s\n",
		schemas.RefOf(branch), schemas.GitUserName, schemas.GitUserEmail, len(message), message)
}

// make makes a repository aside, has fill put into it what belongs there, and moves it to its place when it would
// survive: it is there whole or not at all. One that is there already is returned.
func (g *Git) make(t slot, id string, fill func(repository) error) (repository, error) {
	path, err := g.repoPath(id)
	if err != nil {
		return "", errors.New("the repository has no proper id")
	}
	if r, err := g.repo(id); !errors.Is(err, ErrNoRepo) {
		return r, err
	}
	tmp, err := os.MkdirTemp(g.tmpDir(), "make-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	aside := repository(filepath.Join(tmp, "r"))
	if err := g.run(t, job{
		args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=sha1", string(aside)},
		env:  []string{offline},
	}); err != nil {
		return "", err
	}
	if err := os.Mkdir(aside.own(), 0o700); err != nil {
		return "", err
	}
	if err := fill(aside); err != nil {
		return "", err
	}
	if err := syncTree(string(aside)); err != nil {
		return "", err
	}
	// A rename never takes the place of a directory that holds something: the first one stays.
	if err := os.Rename(string(aside), path); err != nil {
		if r, again := g.repo(id); again == nil && errors.Is(err, fs.ErrExist) {
			return r, nil
		}
		return "", err
	}
	return repository(path), syncPath(g.reposDir())
}

// Remove takes a repository away when no process writes to it any more. It is there whole or not at all; one that is not
// there is no error. Who fetches from it meanwhile sees that break off.
func (g *Git) Remove(ctx context.Context, id string) error {
	r, err := g.repo(id)
	if errors.Is(err, ErrNoRepo) {
		return g.none
	}
	if err != nil {
		return err
	}
	t, err := g.lookUp(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	f, err := r.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := awaitLock(t.ctx, f, exclusive); err != nil { //nolint:contextcheck // it is ctx, or ends earlier
		return fmt.Errorf("waiting for who writes to the repository: %w", err)
	}
	aside, err := os.MkdirTemp(g.tmpDir(), "gone-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // Open removes leftovers
	if err := os.Rename(string(r), filepath.Join(aside, "r")); err != nil {
		return err
	}
	return syncPath(g.reposDir())
}
