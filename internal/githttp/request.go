// Package githttp is what the routes of git in ingress and egress share: the caller, and for
// which repository; the body that a client of git sends; the answer to a push, which
// may begin before its end is known. The formats are those of git's documents
// gitprotocol-http and gitprotocol-v2.
package githttp

import (
	"context"
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/limits"
	"weir/internal/task"
	"weir/schemas"
)

// Repos finds a tenant's repository, or returns fault.ErrNotFound.
type Repos interface {
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
}

// Authorizer finds the repository of a request and checks the token for it.
type Authorizer struct {
	// Grant is the permission of a token. Its errors are public.
	Grant func(ctx context.Context, token string) (task.Grant, error)
	Repos Repos
}

// Authorize returns the caller's grant, and the repository that a path names, with or without the
// ending ".git". An invalid name, a missing repository, another tenant's and another task's have
// the same error.
func (g Authorizer) Authorize(r *http.Request, named string) (task.Grant, schemas.Repo, error) {
	token, ok := BearerToken(r.Header.Values("Authorization"), true)
	if !ok {
		return task.Grant{}, schemas.Repo{}, fault.New(schemas.Unauthorized, "git asks for a token here: send it as the password, with any user name")
	}
	grant, err := g.Grant(r.Context(), token)
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.Unauthorized && task.Is(token) {
		err = &fault.Error{Code: schemas.Unauthorized, Cause: err, Message: "no running task has this token: the task has ended, its lease is lost or the token is wrong; send the token of a running task as the password"}
	}
	if err != nil {
		return task.Grant{}, schemas.Repo{}, Holding(err)
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

// Holding is the error for a token that holds no task, as git shows it.
func Holding(err error) error {
	if public, ok := errors.AsType[*fault.Error](err); ok && public.Code == schemas.TaskNotRunning {
		return &fault.Error{Code: schemas.Forbidden, Message: public.Message, Cause: err}
	}
	return err
}

func errNoRepo(cause error) error {
	return &fault.Error{Code: schemas.NotFound, Message: "there is no such repository, or this token may not see it", Cause: cause}
}

// Pushes refuses a grant that allows no push at all.
func Pushes(g task.Grant) error {
	if g.TaskID == "" {
		return fault.New(schemas.Forbidden, "this token may read the repository and not push to it; push with the token of a task")
	}
	if g.ReadOnly {
		return fault.New(schemas.Forbidden, "this subtoken may only read the repository; push with the holder's token, or make a subtoken with repo: write")
	}
	return nil
}

// maxCredential bounds what is looked at of an Authorization header.
const maxCredential = 1024

// BearerToken is the token of an Authorization header: the one of Bearer or, if basic is allowed, the
// password of Basic with any user. ok is false unless exactly one header has one of the two.
func BearerToken(fields []string, basic bool) (token string, ok bool) {
	if len(fields) != 1 || len(fields[0]) > maxCredential {
		return "", false
	}
	scheme, given, _ := strings.Cut(fields[0], " ")
	given = strings.TrimLeft(given, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		token = given
	case basic && strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return "", false
		}
		_, token, ok = strings.Cut(string(pair), ":")
		if !ok {
			return "", false
		}
	}
	return token, token != ""
}

// Protocol is the version of git's protocol that a request asks for: 2 or, by default, 0. Other
// contents of the header are not supported, and not passed on.
func Protocol(h http.Header) (int, error) {
	fields := h.Values("Git-Protocol")
	version, ok := strings.CutPrefix(strings.Join(fields, " "), "version=")
	_, bad := strconv.ParseUint(version, 10, 31)
	switch {
	case len(fields) == 0, ok && version == "0":
		return 0, nil
	case ok && version == "2":
		return 2, nil
	case ok && bad == nil:
		return 0, fault.New(schemas.GitProtocolRequired, "this version of git's protocol is not served; set protocol.version to 2")
	}
	return 0, fault.New(schemas.InvalidRequest, "Git-Protocol must be version=2, or left out")
}

// MediaType refuses a request whose body is not what the client of a service sends.
func MediaType(h http.Header, service string) error {
	want := gitwire.RequestType(service)
	fields := h.Values("Content-Type")
	if len(fields) == 1 {
		if media, _, err := mime.ParseMediaType(fields[0]); err == nil && media == want {
			return nil
		}
	}
	return fault.New(schemas.UnsupportedMediaType, "send Content-Type: "+want)
}

// TaskLimit limits a task's concurrent requests, which what names in the plural, so that one token cannot use up
// a shared resource. Acquire takes one of them until release. A caller without a task is not counted.
func TaskLimit(what string, most int) (acquire func(g task.Grant) (release func(), err error)) {
	of := limits.NewPerKey[schemas.Ref](most)
	return func(g task.Grant) (release func(), err error) {
		if g.TaskID == "" {
			return func() {}, nil
		}
		release, ok := of.TryAcquire(g.Task())
		if !ok {
			err = fault.New(schemas.RateLimited, "this task has "+strconv.Itoa(most)+" "+what+" on their way already; try again when one of them has ended")
		}
		return release, err
	}
}
