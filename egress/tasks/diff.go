package tasks

import (
	"errors"
	"fmt"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// mostDiff is the most that is shown of a diff, in bytes.
const mostDiff = 1 << 20

// diff answers with what a task has pushed, as git diff shows it.
func (a Answerer) diff(r *egress.Request) error {
	ctx := r.Request.Context()
	t, err := a.durable(ctx, taskRef(r.Reader.Tenant, r.Param("id")))
	if err != nil {
		return noTask(err)
	}
	if !t.Moved {
		return fault.New(schemas.NotFound, "the task has pushed nothing yet; follow it with GET "+t.EventsURL+", and ask again after a push")
	}
	repo, err := a.cfg.Repos.Get(ctx, r.Reader.Tenant, t.Repo)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return NoRepo()
	case err != nil:
		return err
	case repo.Mode == schemas.RepoProxy:
		return fault.New(schemas.NotFound, "the repository is at its upstream, and not on this node; there, "+compare(t)+" shows it")
	}
	doc, cut, err := a.cfg.Diff(ctx, repo, t.Base, t.Head, mostDiff)
	if errors.Is(err, fault.ErrNotFound) {
		return fault.New(schemas.NotFound, "the repository does not have the commits of this task any more")
	}
	if err != nil {
		return err
	}
	if cut {
		doc = fmt.Appendf(doc, "\nThe diff is cut here, after %d bytes. In a clone, %s shows the rest.\n", len(doc), compare(t))
	}
	stream.WriteBody(r.Writer, http.StatusOK, "text/x-diff; charset=utf-8", doc)
	return nil
}

// compare is the command that shows the same in a clone.
func compare(t schemas.TaskView) string { return "git diff " + t.Base + " " + t.Head }
