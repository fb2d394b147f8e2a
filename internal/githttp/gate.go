// Package githttp is what the rooms' routes of git have in common: who asks, and for
// which repository; the body that a client of git sends; the answer to a push, which
// may begin before its end is known. The formats are those of git's documents
// gitprotocol-http and gitprotocol-v2.
package githttp

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// Repos finds a tenant's repository, or returns fault.ErrNotFound.
type Repos interface {
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
}

// Gate lets the holders of tokens through to their repositories.
type Gate struct {
	// Grant says what the holder of a token may do. Its errors are public ones.
	Grant func(ctx context.Context, token string) (task.Grant, error)
	Repos Repos
}

// Enter finds who asks, and the repository that a path names, with or without ".git"
// behind it. A name that none may have, one that nobody has, another tenant's and
// another task's are one answer.
func (g Gate) Enter(r *http.Request, named string) (task.Grant, schemas.Repo, error) {
	token, ok := Token(r.Header.Values("Authorization"), true)
	if !ok {
		return task.Grant{}, schemas.Repo{}, fault.New(schemas.Unauthorized, "git asks for a token here: send it as the password, with any user name")
	}
	grant, err := g.Grant(r.Context(), token)
	if err != nil {
		return task.Grant{}, schemas.Repo{}, holding(err)
	}
	name := strings.TrimSuffix(named, ".git")
	if !schemas.ValidRepoName(name) || grant.TaskID != "" && name != grant.Repo {
		return task.Grant{}, schemas.Repo{}, errNoRepo(nil)
	}
	repo, err := g.Repos.Get(r.Context(), grant.Tenant, name)
	if errors.Is(err, fault.ErrNotFound) {
		err = errNoRepo(err)
	}
	return grant, repo, err
}

// holding words for git what somebody is told who holds no task.
func holding(err error) error {
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.TaskNotRunning {
		return &fault.Error{Code: schemas.Forbidden, Message: public.Message, Cause: err}
	}
	return err
}

func errNoRepo(cause error) error {
	return &fault.Error{Code: schemas.NotFound, Message: "there is no such repository, or this token may not see it", Cause: cause}
}

// errReadOnly is for a token that may read and no more.
func errReadOnly() error {
	return fault.New(schemas.Forbidden, "this token may read the repository and not push to it; push with the token of a task")
}

// Pushes refuses a grant that allows no push at all.
func Pushes(g task.Grant) error {
	if g.TaskID == "" {
		return errReadOnly()
	}
	return nil
}
