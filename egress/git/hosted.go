package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os/exec"

	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/task"
	"weir/schemas"
)

// Program runs git on the repositories of this node, see internal/git.
type Program interface {
	Advertise(ctx context.Context, id, service string, protocol int, v git.View, w io.Writer) error
	UploadPack(ctx context.Context, id string, protocol int, v git.View, in io.Reader, w io.Writer) error
}

// Hosted is the Source of the repositories on this node's disk.
type Hosted struct{ program Program }

// NewHosted returns the source over git.
func NewHosted(p Program) Hosted { return Hosted{p} }

// Advertise has git show what the grant lets be seen.
func (h Hosted) Advertise(ctx context.Context, repo schemas.Repo, g task.Grant, service string, protocol int, w io.Writer) error {
	return public(h.program.Advertise(ctx, repo.ID, service, protocol, view(repo, g), w))
}

// UploadPack has git answer a fetch of what the grant lets be seen.
func (h Hosted) UploadPack(ctx context.Context, repo schemas.Repo, g task.Grant, protocol int, in []byte, w io.Writer) error {
	out := &spoken{w: w}
	err := h.program.UploadPack(ctx, repo.ID, protocol, view(repo, g), bytes.NewReader(in), out)
	said, own := gaveUp(err)
	switch {
	case own && out.any:
		return nil // it has told the client why
	case own:
		return &fault.Error{Code: schemas.InvalidRequest, Message: "git did not take the request: " + cmp.Or(said, "it gave no reason"), Cause: err}
	default:
		return public(err)
	}
}

// view is what Grant.Reads says, as git is told it, and whose turn it is.
func view(repo schemas.Repo, g task.Grant) git.View {
	if g.TaskID == "" {
		return git.View{All: true, Tenant: g.Tenant}
	}
	own, base := schemas.RefOf(g.Branch), schemas.RefOf(cmp.Or(g.Base, repo.DefaultBranch))
	if own == base {
		return git.View{Refs: []string{own}, Tenant: g.Tenant}
	}
	return git.View{Refs: []string{own, base}, Tenant: g.Tenant}
}

// gaveUp reports whether git ended by itself because of what it was asked, and its last
// word. One that was killed has said nothing about that.
func gaveUp(err error) (said string, own bool) {
	failed, ok := errors.AsType[*git.ExitError](err)
	if !ok {
		return "", false
	}
	how, ok := errors.AsType[*exec.ExitError](err)
	return failed.Text, ok && how.ExitCode() > 0
}

// public words what passes, or is not this node's to serve.
func public(err error) error {
	switch {
	case errors.Is(err, git.ErrNoRepo):
		return &fault.Error{Code: schemas.Unavailable, Message: "this repository lives on another node; ask that one", Cause: err}
	case errors.Is(err, git.ErrBusy):
		return &fault.Error{Code: schemas.Unavailable, Message: "too many fetches and pushes are running; try again later", Cause: err}
	case errors.Is(err, git.ErrClosed):
		return &fault.Error{Code: schemas.Unavailable, Message: "the node is stopping; try again", Cause: err}
	case errors.Is(err, git.ErrTimeout):
		return &fault.Error{Code: schemas.Unavailable, Message: "git took longer than it may; try again, or fetch less at a time", Cause: err}
	default:
		return err
	}
}

// spoken notes whether anything was written.
type spoken struct {
	w   io.Writer
	any bool
}

func (s *spoken) Write(p []byte) (int, error) {
	s.any = s.any || len(p) > 0
	return s.w.Write(p)
}
