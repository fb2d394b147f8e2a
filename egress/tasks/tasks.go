// Package tasks renders the tasks surface: a task as its people see it and as its
// agent reads it, the changes of its state, and the repositories that tasks are on.
package tasks

import (
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
