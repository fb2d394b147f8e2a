package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/index"
	"weir/egress/stream"
	"weir/egress/tasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// mountTasks shows tasks and repositories to whoever may see what is done, or files
// tasks.
func (e *Room) mountTasks(engine *gin.Engine) {
	if e.cfg.Repos == nil {
		return
	}
	shown := func(serve func(w http.ResponseWriter, r *http.Request, tenant, id string)) gin.HandlerFunc {
		return e.readBy("", func(c *gin.Context, who Reader) {
			if err := fault.Scope(who.Scopes, schemas.ScopeActionsRead, schemas.ScopeTasksWrite); err != nil {
				problem.Write(c.Writer, c.Request, err)
				return
			}
			serve(c.Writer, c.Request, who.Tenant, c.Param("id"))
		})
	}
	if e.cfg.Index != nil {
		read(engine, schemas.RouteTasks, shown(e.listTasks))
	}
	read(engine, schemas.RouteTasks+"/:id", shown(e.showTask))
	read(engine, schemas.RouteTasks+"/:id/events", shown(e.taskEvents))
	read(engine, schemas.RouteRepos, shown(e.listRepos))
	read(engine, schemas.RouteRepos+"/:id", shown(e.showRepo))
}

// repoURL is where git reaches a repository; empty without a name.
func (e *Room) repoURL(name string) string {
	if name == "" {
		return ""
	}
	return e.cfg.PublicURL() + schemas.RouteGit + "/" + name + ".git"
}

func (e *Room) listTasks(w http.ResponseWriter, r *http.Request, tenant, _ string) {
	q, err := tasks.ReadQuery(r.URL.Query())
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	page, err := e.taskPage(r.Context(), tenant, q)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// taskPage names tasks by the index, and shows them as the log has them: what the index
// takes for open may have ended since, and of those the log alone knows the state.
func (e *Room) taskPage(ctx context.Context, tenant string, q tasks.Query) (schemas.TaskPage, error) {
	page, seen := tasks.NewPage(q), make([]uint64, e.cfg.Layout.Partitions)
	ends, chosen := q.Ends()
	for cursor := q.Cursor; ; {
		asked, err := index.Of(tenant, schemas.KindTask, ends, chosen, q.Batch(), cursor)
		if err != nil {
			return schemas.TaskPage{}, err
		}
		named, next, fresh, err := e.cfg.Index.Refs(ctx, asked)
		if err != nil {
			return schemas.TaskPage{}, err
		}
		looked, more, err := e.addTasks(ctx, page, named, seen)
		if err != nil {
			return schemas.TaskPage{}, err
		}
		if looked < len(named) {
			next = named[looked-1].Next
		}
		if !more || next == "" || len(named) == 0 {
			return page.With(next, fresh), e.shownUpTo(ctx, seen)
		}
		cursor = next
	}
}

// addTasks puts tasks in until the page wants no more, and notes in seen up to where it has
// read the log.
func (e *Room) addTasks(ctx context.Context, page *tasks.Page, named []index.Named, seen []uint64) (looked int, more bool, err error) {
	for i, n := range named {
		added, more := false, false
		view, seq, err := e.taskView(ctx, n.Ref)
		switch {
		case errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone):
			more, err = page.Pass(), nil // the log has dropped it
		case err == nil:
			added, more, err = page.Add(view)
		}
		if added {
			p := e.cfg.Layout.Partition(n.Tenant, n.ID)
			seen[p] = max(seen[p], seq)
		}
		if err != nil || !more {
			return i + 1, false, err
		}
	}
	return len(named), true, nil
}

// shownUpTo waits until what was read of each partition may be shown.
func (e *Room) shownUpTo(ctx context.Context, seen []uint64) error {
	for p, seq := range seen {
		if err := e.feed.Durable(ctx, schemas.LogStream(p), seq); err != nil {
			return err
		}
	}
	return nil
}

func (e *Room) showTask(w http.ResponseWriter, r *http.Request, tenant, id string) {
	view, err := e.durableTask(r.Context(), taskRef(tenant, id))
	if err != nil {
		problem.Write(w, r, noTask(err))
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, view)
}

func taskRef(tenant, id string) schemas.Ref {
	return schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: id}
}

// noTask words that there is none.
func noTask(err error) error {
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return fault.New(schemas.NotFound, "there is no such task")
	case errors.Is(err, fault.ErrGone):
		return fault.New(schemas.StreamGone, "the history of this task has been dropped; its branch is still there")
	default:
		return err
	}
}

// durableTask is a task as it may be shown.
func (e *Room) durableTask(ctx context.Context, ref schemas.Ref) (schemas.TaskView, error) {
	view, seq, err := e.taskView(ctx, ref)
	if err != nil {
		return view, err
	}
	return view, e.feed.Durable(ctx, schemas.LogStream(e.cfg.Layout.Partition(ref.Tenant, ref.ID)), seq)
}

// taskView is a task as the log has it, up to a sequence.
func (e *Room) taskView(ctx context.Context, ref schemas.Ref) (schemas.TaskView, uint64, error) {
	if !schemas.ValidID(ref.ID) {
		return schemas.TaskView{}, 0, fault.ErrNotFound
	}
	st, err := e.actions.Load(ctx, ref)
	if err != nil {
		return schemas.TaskView{}, 0, err
	}
	t, err := e.fold(ctx, st)
	if err != nil {
		return schemas.TaskView{}, 0, err
	}
	return tasks.View(st.Action, t, e.repoURL(t.Order.Repo)), st.Seq, nil
}

// fold is the task of a state that was read. What cannot be read of it is left out: a
// worker ends such a task, and its people see that.
func (e *Room) fold(ctx context.Context, st *ledger.State) (*task.State, error) {
	payload, err := e.payload(ctx, st.Action)
	if err != nil {
		return nil, err
	}
	t, _ := task.Fold(st.Action, payload, st.History()) // without an order where there is none
	if st.Settled != nil && !t.Over() {                 // by a record that cannot be read
		t.Apply(schemas.Event{Type: schemas.EventSettled, Settled: st.Settled})
	}
	return t, nil
}

// payload is what an action was accepted with, wherever it lies.
func (e *Room) payload(ctx context.Context, a schemas.Action) (json.RawMessage, error) {
	doc, err := e.actions.Blob(ctx, a.Payload, a.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.ErrGone // the action is there, its payload was dropped
	}
	return doc, err
}

// taskEvents answers with the changes of a task's state.
func (e *Room) taskEvents(w http.ResponseWriter, r *http.Request, tenant, id string) {
	if !schemas.ValidID(id) {
		problem.Write(w, r, noTask(fault.ErrNotFound))
		return
	}
	ref := taskRef(tenant, id)
	data := func(ctx context.Context, it *stream.Item) ([]byte, error) { return e.update(ctx, ref, it) }
	e.events.ServeAs(w, r, stream.Dialect{
		Ref: ref, Data: data,
		Frame: func(ctx context.Context, it *stream.Item) ([]byte, error) {
			doc, err := data(ctx, it)
			if err != nil || len(doc) == 0 {
				return nil, err
			}
			return stream.AppendFrame(make([]byte, 0, len(doc)+64), it.Seq, "status", doc), nil
		},
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			if problem.Of(err).Code == schemas.NotFound {
				err = noTask(fault.ErrNotFound)
			}
			problem.Write(w, r, err)
		},
	})
}

// update is what an event changes of a task; nil: nothing.
func (e *Room) update(ctx context.Context, ref schemas.Ref, it *stream.Item) ([]byte, error) {
	u, ok := task.Update(ref.ID, it.Event)
	if !ok {
		return nil, nil
	}
	if u.Status == "" { // the event does not say it: the task as it was then does
		st, err := e.actions.Load(ctx, ref)
		if err != nil {
			return nil, err
		}
		t := task.Begin(st.Action, schemas.TaskOrder{})
		for _, ev := range st.Events {
			if ev.N <= it.Event.N {
				t.Apply(ev.Event)
			}
		}
		u.Status = t.Status
	}
	return ledger.Encode(u)
}

// Task answers with a task as its people see it, and with its token if it has one to
// show: whoever is asked again does not know it.
func (e *Room) Task(w http.ResponseWriter, r *http.Request, ref schemas.Ref, status int, token string) {
	view, err := e.durableTask(r.Context(), ref)
	if err != nil {
		problem.Write(w, r, noTask(err))
		return
	}
	stream.WriteJSON(w, r, status, schemas.NewTask{TaskView: view, Token: token})
}
