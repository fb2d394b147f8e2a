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
	s, err := g.wait(ctx, "", smallTimeout, g.slots.small)
	if err != nil {
		return "", err
	}
	defer s.end()
	s, err = s.make(id, func(s session) error {
		if err := s.setHead(schemas.RefOf(defaultBranch)); err != nil {
			return err
		}
		return s.run(job{args: []string{"fast-import", "--quiet", "--date-format=now"}, in: text(firstCommit(defaultBranch))})
	})
	if err != nil {
		return "", err
	}
	ref, err := s.head()
	if err != nil {
		return "", err
	}
	return s.tip(ref)
}

func firstCommit(branch string) string {
	const message = "Begin\n"
	return fmt.Sprintf("commit %s\ncommitter %s <%s> now\ndata %d\n%s\n",
		schemas.RefOf(branch), schemas.GitUserName, schemas.GitUserEmail, len(message), message)
}

// make makes a repository aside, has fill put into it what belongs there, and moves it to its place when it would
// survive: it is there whole or not at all. It returns the session in it, or in the one that is there already.
func (s session) make(id string, fill func(session) error) (session, error) {
	path, err := s.repoPath(id)
	if err != nil {
		return s, errors.New("the repository has no proper id")
	}
	if s.repository, err = s.repo(id); !errors.Is(err, ErrNoRepo) {
		return s, err
	}
	tmp, err := os.MkdirTemp(s.tmpDir(), "make-")
	if err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	aside := filepath.Join(tmp, "r")
	if err := s.run(job{args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=sha1", aside}}); err != nil {
		return s, err
	}
	s.repository = repository(aside)
	err = os.Mkdir(s.own(), 0o700)
	if err == nil {
		err = fill(s)
	}
	if err == nil {
		err = syncTree(aside)
	}
	if err != nil {
		return s, err
	}
	s.repository = repository(path)
	// A rename never takes the place of a directory that holds something: the first one stays.
	if err := os.Rename(aside, path); err != nil {
		if _, again := s.repo(id); again == nil && errors.Is(err, fs.ErrExist) {
			return s, nil
		}
		return s, err
	}
	return s, syncPath(s.reposDir())
}

// Remove takes a repository away when no process writes to it any more. It is there whole or not at all; one that is not
// there is no error. Who fetches from it meanwhile sees that break off.
func (g *Git) Remove(ctx context.Context, id string) error {
	s, err := g.lookUp(ctx, id)
	if errors.Is(err, ErrNoRepo) {
		return g.none
	}
	if err != nil {
		return err
	}
	defer s.end()
	f, err := s.openLock()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := awaitLock(s.ctx, f, exclusive); err != nil { //nolint:contextcheck // it is ctx, or ends earlier
		return fmt.Errorf("waiting for who writes to the repository: %w", err)
	}
	aside, err := os.MkdirTemp(g.tmpDir(), "gone-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // Open removes leftovers
	if err := os.Rename(string(s.repository), filepath.Join(aside, "r")); err != nil {
		return err
	}
	return syncPath(g.reposDir())
}
