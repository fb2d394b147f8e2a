package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Catalog is the table of repositories.
type Catalog interface {
	// Get is a tenant's repository, or fault.ErrNotFound, also for a name that none may
	// have; List are all of a tenant's, by name.
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
	List(ctx context.Context, tenant string) ([]schemas.Repo, error)
}

// Config of an Answerer.
type Config struct {
	// Repos are the repositories of the tenants; nil: neither they nor tasks are served.
	Repos Catalog
	// Index names tasks for lists; without one they are not served.
	Index egress.Index
	// Diff returns what differs between two commits of a repository on this node's disk, at most `most`
	// bytes; cut: there is more. Its errors are public ones, or fault.ErrNotFound where the commits are
	// gone. Required.
	Diff func(ctx context.Context, repo schemas.Repo, base, head string, most int) (diff []byte, cut bool, err error)
	// PublicURL is the prefix of complete URLs to this node, without a final slash. Required.
	PublicURL func() string
	// Partitions are how many the log has.
	Partitions int
}

// Answerer answers for tasks and repositories.
type Answerer struct {
	server *egress.Server
	cfg    Config
}

// NewAnswerer returns an Answerer by a server.
func NewAnswerer(s *egress.Server, cfg Config) Answerer { return Answerer{s, cfg} }

// Surfaces answer for kinds task and repo, and show both to tokens that may see what is done, or
// file tasks.
func (a Answerer) Surfaces() []egress.Surface {
	shown := func(path string, serve func(r *egress.Request) error) []egress.Route {
		return a.server.Read(path, serve, schemas.ScopeActionsRead, schemas.ScopeTasksWrite)
	}
	return []egress.Surface{
		{Name: "tasks", Absent: a.cfg.Repos == nil || a.cfg.Index.Absent(), Routes: shown(schemas.RouteTasks, egress.JSON(a.list))},
		{
			Name: "tasks", Absent: a.cfg.Repos == nil,
			Routes: egress.Routes(
				shown(schemas.RouteTasks+"/:id", egress.JSON(a.show)),
				shown(schemas.RouteTasks+"/:id/events", a.events),
				shown(schemas.RouteTasks+"/:id/diff", a.diff),
				shown(schemas.RouteRepos, egress.JSON(a.listRepos)),
				shown(schemas.RouteRepos+"/:name", egress.JSON(a.showRepo)),
			),
			Views: []egress.View{{
				Kind: schemas.KindTask, // as its people see it, its end with all the rest
				Answer: func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, _ *schemas.Settled, _ json.RawMessage) error {
					a.Task(w, r, ref, http.StatusOK, "")
					return nil
				},
			}, {
				Kind: schemas.KindRepo, Answer: a.made,
				Result: func(_ schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
					return RepoResult(s, doc)
				},
			}},
		},
	}
}

// repoURL is where git reaches a repository; empty without a name.
func (a Answerer) repoURL(name string) string {
	if name == "" {
		return ""
	}
	return a.cfg.PublicURL() + schemas.RouteGit + "/" + name + ".git"
}

func (a Answerer) show(r *egress.Request) (any, error) {
	view, err := a.durable(r.Request.Context(), taskRef(r.Reader.Tenant, r.Param("id")))
	return view, noTask(err)
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

// durable is a task as it may be shown.
func (a Answerer) durable(ctx context.Context, ref schemas.Ref) (schemas.TaskView, error) {
	view, seq, err := a.view(ctx, ref)
	if err != nil {
		return view, err
	}
	return view, a.server.Durable(ctx, ref, seq)
}

// view is a task as the log has it, up to a sequence.
func (a Answerer) view(ctx context.Context, ref schemas.Ref) (schemas.TaskView, uint64, error) {
	if !schemas.ValidID(ref.ID) {
		return schemas.TaskView{}, 0, fault.ErrNotFound
	}
	st, err := a.server.Actions().Load(ctx, ref)
	if err != nil {
		return schemas.TaskView{}, 0, err
	}
	t, err := a.fold(ctx, st)
	if err != nil {
		return schemas.TaskView{}, 0, err
	}
	return View(st.Action, t, a.repoURL(t.Order.Repo)), st.Seq, nil
}

// fold is the task of a state that was read. What cannot be read of it is left out: a
// worker ends such a task, and its people see that.
func (a Answerer) fold(ctx context.Context, st *ledger.State) (*task.State, error) {
	payload, err := a.payload(ctx, st.Action)
	if err != nil {
		return nil, err
	}
	t, _ := task.Fold(st.Action, payload, st.Events) // without an order where there is none
	if st.Settled != nil && !t.Over() {              // by a record that cannot be read
		t.Apply(schemas.Event{Type: schemas.EventSettled, Settled: st.Settled})
	}
	return t, nil
}

func (a Answerer) payload(ctx context.Context, of schemas.Action) (json.RawMessage, error) {
	doc, err := a.server.Actions().Blob(ctx, of.Payload, of.PayloadBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.ErrGone // the action is there, its payload was dropped
	}
	return doc, err
}

// events answers with the changes of a task's state.
func (a Answerer) events(r *egress.Request) error {
	id := r.Param("id")
	if !schemas.ValidID(id) {
		return noTask(fault.ErrNotFound)
	}
	ref := taskRef(r.Reader.Tenant, id)
	data := func(ctx context.Context, it *stream.Item) ([]byte, error) { return a.update(ctx, ref, it) }
	a.server.Feed().ServeAs(r.Writer, r.Request, stream.Dialect{
		Ref: ref, Data: data,
		Frame: func(ctx context.Context, it *stream.Item) ([]byte, error) {
			doc, err := data(ctx, it)
			if err != nil || len(doc) == 0 {
				return nil, err
			}
			name := "status"
			if it.Event.Type == schemas.EventProgress {
				name = schemas.TaskWhatOutput
			}
			return stream.AppendFrame(make([]byte, 0, len(doc)+64), it.Seq, "", name, doc), nil
		},
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			if problem.Of(err).Code == schemas.NotFound {
				err = noTask(fault.ErrNotFound)
			}
			problem.Write(w, r, err)
		},
	})
	return nil
}

// update is what an event changes of a task; nil: nothing.
func (a Answerer) update(ctx context.Context, ref schemas.Ref, it *stream.Item) ([]byte, error) {
	u, ok := task.Update(ref.ID, it.Event)
	if !ok {
		return nil, nil
	}
	if u.Status == "" { // the event does not say it: the task as it was then does
		st, err := a.server.Actions().Load(ctx, ref)
		if err != nil {
			return nil, err
		}
		t := task.Begin(st.Action, schemas.TaskOrder{})
		for _, ev := range st.Events {
			if ev.N <= it.Event.N {
				t.Apply(ev)
			}
		}
		u.Status = t.Status
	}
	return ledger.Encode(u)
}

// Task answers with a task as its people see it, and with its token if there is one to show:
// repeats do not know it.
func (a Answerer) Task(w http.ResponseWriter, r *http.Request, ref schemas.Ref, status int, token string) {
	view, err := a.durable(r.Context(), ref)
	if err != nil {
		problem.Write(w, r, noTask(err))
		return
	}
	stream.WriteJSON(w, r, status, schemas.NewTask{TaskView: view, Token: token})
}

func (a Answerer) listRepos(r *egress.Request) (any, error) {
	all, err := a.cfg.Repos.List(r.Request.Context(), r.Reader.Tenant)
	if err != nil {
		return nil, err
	}
	return Repos(r.Request.URL.Query(), all, a.repoURL)
}

func (a Answerer) showRepo(r *egress.Request) (any, error) {
	repo, err := a.cfg.Repos.Get(r.Request.Context(), r.Reader.Tenant, r.Param("name"))
	if errors.Is(err, fault.ErrNotFound) {
		err = NoRepo()
	}
	return Repo(repo, a.repoURL(repo.Name)), err
}

func (a Answerer) made(w http.ResponseWriter, r *http.Request, _ schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
	repo, err := Made(s, doc)
	if err != nil {
		return err
	}
	w.Header().Set("Location", RepoURL(repo.Name))
	stream.WriteJSON(w, r, http.StatusCreated, Repo(repo, a.repoURL(repo.Name)))
	return nil
}
