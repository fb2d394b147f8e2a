package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	if err := s.spools.roomy(); err != nil {
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
	s, err := g.lookUp(ctx, id)
	if err != nil {
		return "", err
	}
	defer s.end()
	switch {
	case !schemas.ValidBranch(branch):
		return "", errors.New("the branch has no proper name")
	case !schemas.ValidID(taskID):
		return "", errors.New("the task has no proper id")
	case !validBranch(base):
		return "", ErrNoRef
	}
	unlock, err := g.claims.Lock(s.ctx, string(s.repository)) //nolint:contextcheck // it is ctx, or ends earlier
	if err != nil {
		return "", err
	}
	defer unlock()
	claim := claimRef(branch, taskID)
	out, err := s.output("", longestLook, "for-each-ref", "--format=%(objectname) %(refname)", path.Dir(claim)+"/")
	if err != nil {
		return "", err
	}
	oid, by, claimed := strings.Cut(strings.TrimSpace(out), " ")
	if !claimed {
		if oid, err = s.beginning(branch, base); err == nil {
			err = s.ensure(claim, oid)
		}
	} else if by != claim {
		err = ErrRefExists
	}
	if err != nil {
		return "", err
	}
	return oid, s.ensure(schemas.RefOf(branch), oid)
}

// beginning is where a branch begins that is not there yet, and none of whose parts is a branch.
func (s session) beginning(branch, base string) (string, error) {
	names := []string{schemas.RefOf(base)}
	for part := path.Dir(branch); part != "."; part = path.Dir(part) {
		names = append(names, schemas.RefOf(part))
	}
	found, err := s.look(names...)
	if err != nil {
		return "", err
	}
	if found[0].kind != "commit" {
		return "", ErrNoRef
	}
	there, err := s.output("", longestLook, "for-each-ref", "--count=1", schemas.RefOf(branch)) // and below it
	if there != "" || slices.ContainsFunc(found[1:], func(o object) bool { return o.kind != "" }) {
		err = cmp.Or(err, ErrRefExists)
	}
	return found[0].oid, err
}

// ensure makes a ref at an object where there is none. The process that made it may have died before it was on the disk.
func (s session) ensure(ref, oid string) error {
	switch _, err := s.tip(ref); {
	case err == nil:
		return s.syncRef(ref)
	case !errors.Is(err, ErrNoRef):
		return err
	}
	w, err := s.write(s.ctx, ref)
	if err != nil {
		return err
	}
	defer w.done()
	if err := s.run(job{
		args: []string{"update-ref", "--stdin"}, in: text("create " + ref + " " + oid + "\n"), hold: []*os.File{w.lock},
	}); err != nil {
		return err
	}
	return s.syncRef(ref)
}
