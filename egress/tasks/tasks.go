// Package tasks renders the tasks surface: a task as its people see it and as its
// agent reads it, the changes of its state, and the repositories that tasks are on.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// Query is what a list of tasks is asked for.
type Query struct {
	Limit  int
	Cursor string
	Status schemas.TaskStatus // empty: any
}

// ReadQuery reads the parameters of GET /v1/tasks.
func ReadQuery(q url.Values) (Query, error) {
	p := stream.NewParams(q, "status", "limit", "cursor")
	out := Query{Limit: p.Limit(50)}
	word, ok := p.One("status")
	if out.Status = schemas.TaskStatus(word); ok && !slices.Contains(schemas.TaskStatuses(), out.Status) {
		p.Refuse("status", "can be Queued, Running, Completed, Failed, Canceled or Expired")
	}
	out.Cursor = p.Cursor(func(cursor string) bool { return cursor != "" })
	return out, p.Err
}

// pageBytes ends a page early: the description of a task may be long.
const pageBytes = 4 << 20

// maxOthers is how many tasks are read for one page that then does not show them. A page
// that ends there is short and has a next.
const maxOthers = 100

// page lists tasks by the index and shows their state from the log, because tasks that are open in
// the index may have ended since.
func (a Answerer) page(ctx context.Context, tenant string, q Query) (schemas.TaskPage, error) {
	p := schemas.TaskPage{Items: []schemas.TaskView{}, Next: q.Cursor}
	seen := make([]uint64, a.cfg.Partitions) // of each partition, up to where the log was read
	size, others := 0, 0
	// Whether a task is over its action need not say yet, so that an open one may have any status.
	ends := slices.DeleteFunc(schemas.Outcomes(), func(o schemas.Outcome) bool { return task.StatusOf(o) != q.Status })
	for full := false; !full; {
		found, err := a.cfg.Index.Refs(ctx, stream.Selection{
			Tenant: tenant, Kind: schemas.KindTask, Ended: ends, Open: q.Status != "", Limit: max(q.Limit, maxOthers), Cursor: p.Next,
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
			case dropped, q.Status != "" && q.Status != view.Status:
				others++
			default:
				doc, err := ledger.Encode(view)
				if err != nil {
					return p, err
				}
				p.Items, size = append(p.Items, view), size+len(doc)
				seen[a.server.Partition(n.Ref)] = max(seen[a.server.Partition(n.Ref)], seq)
			}
			if len(p.Items) == q.Limit || size >= pageBytes || others >= maxOthers {
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
