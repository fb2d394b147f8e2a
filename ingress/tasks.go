package ingress

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

func (in *Room) mountTasks(e *gin.Engine) {
	if in.cfg.Tasks == nil {
		return
	}
	may := in.authorize(schemas.ScopeTasksWrite)
	here := surface("tasks", "")
	e.POST(schemas.RouteTasks, here, may, in.createTask)
	e.POST(schemas.RouteTasks+"/:id/cancel", here, may, in.cancelTask)
	e.POST(schemas.RouteTasks+"/:id/answer", here, may, in.answerTask)
	e.POST(schemas.RouteTasks+"/:id/token", here, may, in.reissueToken)
	e.POST(schemas.RouteRepos, surface("repos", ""), may, in.atOnce, in.createRepo)
	in.mountAgents(e)
}

// createTask stores a task and answers with it and its token. A repeat joins it, and
// is not shown the token again.
func (in *Room) createTask(c *gin.Context) {
	req, err := in.newTask(c)
	if err != nil {
		in.fail(c, err)
		return
	}
	secret := in.cfg.Tasks.Secret()
	req.TokenHash = secret.Hash()
	out, err := in.acceptor.Accept(c.Request.Context(), req)
	if out.ID != "" && isInFlight(err) { // it is under way for hours, and whoever repeats its key wants to know its name
		out.Receipt.Duplicate, out.Replayed, err = true, true, nil
	}
	if !in.taken(c, out, err) {
		return
	}
	status, token := http.StatusCreated, ""
	if out.Receipt.Duplicate {
		status = http.StatusOK
	} else {
		token = secret.Text(out.Ref, 0)
	}
	c.Writer.Header().Set("Location", taskURL(out.ID))
	in.responder.Task(c.Writer, c.Request, out.Ref, status, token)
}

// newTask reads a task to be stored. What speaks against a new one does not speak
// against joining one: the branch that must not exist is that one's own.
func (in *Room) newTask(c *gin.Context) (accept.Request, error) {
	key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
	if err != nil {
		return accept.Request{}, err
	}
	terms, err := accept.ReadTerms(c.Request.Header, in.cfg.Accept.Now())
	if err != nil {
		return accept.Request{}, err
	}
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		return accept.Request{}, err
	}
	t, err := tasks.Read(body)
	if err != nil {
		return accept.Request{}, err
	}
	payload, err := ledger.Encode(t.Order)
	if err != nil {
		return accept.Request{}, err
	}
	who := identity(c)
	timeout, refusal := t.Timeout(in.cfg.Accept.Now(), in.cfg.MaxTask)
	if refusal == nil {
		refusal = in.askable(who, t.Order.Model)
	}
	if refusal == nil {
		refusal = in.feasible(c.Request.Context(), who, t.Order)
	}
	return accept.Request{
		Name: accept.NameOf(who.Tenant, schemas.RouteTasks, t.ID, key), Tenant: who.Tenant, Kind: schemas.KindTask,
		Timeout: timeout, Terms: terms, Payload: payload, Principal: who.ID, Entries: who.Entries, Models: who.Models, Refusal: refusal,
	}, nil
}

// askable refuses a task with a model of its own that whoever files it may not use: its
// holder could ask nothing. A name that is no model's here is the agent's own matter: it
// may have another gateway, and is told the name.
func (in *Room) askable(who Identity, model string) error {
	if model == "" || in.cfg.Chat == nil {
		return nil
	}
	set := in.cfg.Chat.Models()
	p := patron{entries: who.Entries, models: who.Models}
	if _, _, there := set.Find(model); !there || len(set.Candidates([]string{model}, p.may, p.enters, "")) > 0 {
		return nil
	}
	return fault.New(schemas.Forbidden, "at /model: the token may not use this model, and so could not the task's; GET /models shows those it may")
}

// feasible refuses a task whose branch cannot be made. It may be made or lost until
// the worker looks, so that this is only the answer that comes sooner.
func (in *Room) feasible(ctx context.Context, who Identity, o schemas.TaskOrder) error {
	repo, err := in.cfg.Repos.Get(ctx, who.Tenant, o.Repo)
	if errors.Is(err, fault.ErrNotFound) {
		return fault.New(schemas.ValidationError, "at /repo: there is no such repository; make it with POST /v1/repos")
	}
	if err == nil {
		err = grant.Repo(schemas.RepoOrder{AllowlistKey: repo.AllowlistKey}, who.Entries)
	}
	if err != nil {
		return unseen(err)
	}
	base := o.BaseRef
	if base == "" {
		base = repo.DefaultBranch
	}
	there, err := in.cfg.Branches(ctx, repo, base)
	switch {
	case errors.Is(err, git.ErrNoRepo): // whoever has it looks, once the task is stored
		return nil
	case err != nil:
		return unseen(err)
	case !there:
		return fault.New(schemas.ValidationError, "at /base_ref: the repository has no such branch; name one that it has, without refs/heads/")
	case o.Branch == "":
		return nil
	}
	there, err = in.cfg.Branches(ctx, repo, o.Branch)
	switch {
	case err != nil:
		return unseen(err)
	case there:
		return fault.New(schemas.Conflict, "at /branch: the repository has this branch already; name another one, or none")
	default:
		return nil
	}
}

// unseen words that a repository could not be looked at. Public errors pass.
func unseen(err error) error {
	_, public := errors.AsType[*fault.Error](err)
	if _, rich := errors.AsType[*problem.Error](err); public || rich {
		return err
	}
	return &fault.Error{Code: schemas.Unavailable, Message: "the repository cannot be looked at just now, nothing was stored; try again", Cause: err}
}

func isInFlight(err error) bool {
	public, ok := errors.AsType[*fault.Error](err)
	return ok && public.Code == schemas.InFlight
}

// cancelTask asks a task to stop.
func (in *Room) cancelTask(c *gin.Context) {
	if err := in.readNothing(c.Writer, c.Request); err != nil {
		in.fail(c, err)
		return
	}
	s, err := in.control.CancelTask(c.Request.Context(), identity(c).Tenant, c.Param("id"))
	in.showTask(c, s.Ref(), err, http.StatusAccepted, "")
}

// answerTask answers an agent's question.
func (in *Room) answerTask(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	req, err := tasks.ReadAnswer(body)
	if err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	ref, err := in.cfg.Tasks.Answer(c.Request.Context(), who.Tenant, c.Param("id"), req, who.Name)
	in.showTask(c, ref, err, http.StatusOK, "")
}

// reissueToken gives a task another token of its own.
func (in *Room) reissueToken(c *gin.Context) {
	if err := in.readNothing(c.Writer, c.Request); err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	ref, token, err := in.cfg.Tasks.Reissue(c.Request.Context(), who.Tenant, c.Param("id"), who.Entries, who.Models)
	in.showTask(c, ref, err, http.StatusOK, token)
}

// showTask answers with a task that was changed.
func (in *Room) showTask(c *gin.Context, ref schemas.Ref, err error, status int, token string) {
	if ref.ID != "" {
		joined(c, ref)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	in.responder.Task(c.Writer, c.Request, ref, status, token)
}

// taskURL is where a task can be looked up.
func taskURL(id string) string { return schemas.RouteTasks + "/" + url.PathEscape(id) }
