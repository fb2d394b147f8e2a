package egress

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

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
	read(engine, schemas.RouteTasks, shown(e.listTasks))
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
	page, others := tasks.NewPage(q), 0
	next, err := e.walker.Walk(r.Context(), tenant, schemas.KindTask, q.Cursor, func(ctx context.Context, rec schemas.Record) (uint64, bool, error) {
		ref, _, err := schemas.ParseSubject(rec.Subject)
		if err != nil {
			return 0, true, err
		}
		if wanted, err := e.mayBe(ctx, ref, q.Status); err != nil || !wanted {
			return 0, true, err
		}
		view, seq, err := e.taskView(ctx, ref)
		if err != nil {
			return 0, true, err
		}
		added, more, err := page.Add(view)
		if !added {
			seq, others = 0, others+1
		}
		return seq, more && others < maxOthers, err
	})
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page.With(next))
}

// maxOthers is how many tasks are read to their end for one page that then does not show
// them. A page that ends there is short and has a next.
const maxOthers = 100

// mayBe reports whether a task may have a status, by the one record that tells its end:
// of many tasks that have ended, few need to be read as a whole. Without a status every
// task may.
func (e *Room) mayBe(ctx context.Context, ref schemas.Ref, want schemas.TaskStatus) (bool, error) {
	if want == "" {
		return true, nil
	}
	end, err := e.log.Last(ctx, schemas.LogStream(e.cfg.Layout.Partition(ref.Tenant, ref.ID)), e.cfg.Layout.Subject(ref, schemas.TailSettled))
	if errors.Is(err, fault.ErrNotFound) {
		return true, nil // its events tell
	} else if err != nil {
		return false, err
	}
	ev, err := ledger.Decode(end.Data)
	if err != nil || ev.Settled == nil || ev.Settled.Code == schemas.Poison {
		return want.Final(), nil //nolint:nilerr // it has ended, whatever it said before
	}
	return task.StatusOf(ev.Settled.Outcome) == want, nil
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
