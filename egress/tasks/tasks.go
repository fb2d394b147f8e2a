// Package tasks renders the tasks surface: a task as its people see it and as its
// agent reads it, the changes of its state, and the repositories that tasks are on.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

// URL is where a task is shown.
func URL(id string) string { return schemas.RouteTasks + "/" + id }

// View is a task as its people see it. RepoURL is where git reaches its repository.
func View(a schemas.Action, t *task.State, repoURL string) schemas.TaskView {
	o := t.Order
	v := schemas.TaskView{
		ID: a.ID, Status: t.Status, Description: o.Description, Repo: o.Repo, RepoURL: repoURL, BaseRef: o.BaseRef,
		Branch: t.Branch, Base: t.Base, Head: t.Head, Moved: t.Head != t.Base, Pushes: t.Pushes,
		Model: o.Model, Entries: o.Entries, Models: o.Models, Budget: o.Budget, ForcePush: o.ForcePush, Pool: o.Pool, Metadata: o.Metadata,
		Created: a.AcceptedAt, Started: t.Since, Deadline: a.Deadline, Ended: t.Ended,
		Lease: t.Lease, Holder: t.Holder, Inquiries: inquiries(t.Inquiries),
		CancelRequested: t.Canceled && !t.Over(), EventsURL: URL(a.ID) + "/events",
	}
	if r := t.Report; r != nil {
		v.Result, v.Reason = r.Description, r.Reason
	}
	switch {
	case t.Settled != nil:
		v.Code, v.Message = t.Settled.Code, t.Settled.Message
	case t.Closed != nil:
		v.Code, v.Message = t.Closed.Code, t.Closed.Message
	}
	return v
}

func inquiries(all []task.Inquiry) []schemas.TaskInquiryView {
	views := make([]schemas.TaskInquiryView, len(all))
	for i, q := range all {
		views[i] = schemas.TaskInquiryView{N: q.N, Question: q.Text, Asked: q.Asked, Answer: q.Answer, Answered: q.Answered, By: q.By}
	}
	return views
}

// Agent is a task as its agent reads it. The protocol knows four states: a task that was
// canceled or expired is Failed there.
func Agent(t *task.State, repoURL string) schemas.AgentTask {
	status := t.Status
	if status.Final() && status != schemas.TaskStatusCompleted {
		status = schemas.TaskStatusFailed
	}
	return schemas.AgentTask{
		Status: status, Description: t.Order.Description,
		GitUserName: schemas.GitUserName, GitUserEmail: schemas.GitUserEmail,
		GitRepoURL: repoURL, GitBranch: t.Branch,
	}
}

// pageBytes ends a page early: the description of a task may be long.
const pageBytes = 4 << 20

// maxOthers is how many tasks are read for one page that then does not show them. A page
// that ends there is short and has a next.
const maxOthers = 100

func (a Answerer) list(r *egress.Request) (any, error) {
	p := stream.NewParams(r.Request.URL.Query(), "status", "limit", "cursor")
	limit := p.Limit(50)
	word, ok := p.One("status")
	status := schemas.TaskStatus(word)
	if ok && !slices.Contains(schemas.TaskStatuses(), status) {
		p.Refuse("status", "can be Queued, Running, Completed, Failed, Canceled or Expired")
	}
	cursor := p.Cursor(func(cursor string) bool { return cursor != "" })
	if p.Err != nil {
		return nil, p.Err
	}
	return a.page(r.Request.Context(), r.Reader.Tenant, status, limit, cursor)
}

// page lists tasks of a status (empty: of any) by the index and shows their state from the log, because
// tasks that are open in the index may have ended since.
func (a Answerer) page(ctx context.Context, tenant string, status schemas.TaskStatus, limit int, cursor string) (schemas.TaskPage, error) {
	p := schemas.TaskPage{Items: []schemas.TaskView{}, Next: cursor}
	seen := make([]uint64, a.cfg.Partitions) // of each partition, up to where the log was read
	size, others := 0, 0
	// Whether a task is over its action need not say yet, so that an open one may have any status.
	ends := slices.DeleteFunc(schemas.Outcomes(), func(o schemas.Outcome) bool { return task.StatusOf(o) != status })
	for full := false; !full; {
		found, err := a.cfg.Index.Refs(ctx, stream.Selection{
			Tenant: tenant, Kind: schemas.KindTask, Ended: ends, Open: status != "", Limit: max(limit, maxOthers), Cursor: p.Next,
		})
		if err != nil {
			return p, err
		}
		p.Next, p.Freshness = found.Next, found.Freshness
		full = p.Next == "" || len(found.Items) == 0
		for i, n := range found.Items {
			view, seq, err := a.view(ctx, n.Ref)
			dropped := errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone)
			switch {
			case err != nil && !dropped:
				return p, err
			case dropped, status != "" && status != view.Status:
				others++
			default:
				doc, err := ledger.Encode(view)
				if err != nil {
					return p, err
				}
				p.Items, size = append(p.Items, view), size+len(doc)
				seen[a.server.Partition(n.Ref)] = max(seen[a.server.Partition(n.Ref)], seq)
			}
			if len(p.Items) == limit || size >= pageBytes || others >= maxOthers {
				if full = true; i < len(found.Items)-1 {
					p.Next = n.Next
				}
				break
			}
		}
	}
	for partition, seq := range seen { // shown are only records that would survive
		if err := a.server.Feed().Durable(ctx, schemas.LogStream(partition), seq); err != nil {
			return p, err
		}
	}
	return p, nil
}

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
