package tasks

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Repos is the table of repositories.
type Repos interface {
	// Get returns a tenant's repository, or fault.ErrNotFound.
	Get(ctx context.Context, tenant, name string) (schemas.Repo, error)
}

// SurfaceConfig configures the surfaces of tasks and repositories. Fields without a default are
// required.
type SurfaceConfig struct {
	Tasks   *Service
	Control *actions.Control
	// Policy returns what decides about a caller's calls.
	Policy func(who grant.Caller) executor.Policy
	Repos  Repos
	// Branches reports whether a repository has a branch. ErrNoRepo of internal/git means
	// that only another node knows, and an error that is not a public one that no node
	// knows at the moment.
	Branches func(ctx context.Context, repo schemas.Repo, branch string) (exists bool, err error)
	// Hosts returns why a repository of Weir's own cannot be made; default: it can.
	Hosts func() error
	// Models are those in force; nil: completions are not served.
	Models func() *models.Set
	// Entries are the names of the policy's entries; nil: a task may name any.
	Entries func() []string
	// MaxTask is the longest time that a task may ask for; default 7 days.
	MaxTask time.Duration

	// Show answers with a task as its people see it; with a token, which is shown this
	// once, as schemas.NewTask. The headers that name it are set already.
	Show func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, status int, token string)
	// Agent answers with a task as the holder of a lease reads it, once its branch is
	// there or the wait for that is over; lease 0 is the task's own token's.
	Agent func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int)
	// Leased answers with a task, the lease that was made of it, and its token. Timeout is
	// after how long without a call the lease is lost. If given is false, the token was not sent, as for a client
	// that has gone.
	Leased func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int, token string, timeout time.Duration) (given bool)
	// Inquiry waits for the answer to a task's n-th question while the lease that asks holds the
	// task, and answers with that.
	Inquiry func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease, n int)
}

type handlers struct {
	SurfaceConfig

	server *ingress.Server
}

// Surfaces are tasks, for the people who file them and for the agents who work on them, and
// the making of repositories.
func Surfaces(s *ingress.Server, cfg SurfaceConfig) []ingress.Surface {
	if cfg.MaxTask <= 0 {
		cfg.MaxTask = 7 * 24 * time.Hour
	}
	if cfg.Hosts == nil {
		cfg.Hosts = func() error { return nil }
	}
	h := handlers{cfg, s}
	return []ingress.Surface{{
		Name: "tasks", Kind: schemas.KindTask, Tidy: agentRoute,
		Routes: append([]ingress.Route{
			ingress.Post(schemas.RouteTasks, h.create, schemas.ScopeTasksWrite),
			ingress.Post(schemas.RouteTasks+"/:id/cancel", h.cancel, schemas.ScopeTasksWrite),
			ingress.Post(schemas.RouteTasks+"/:id/answer", h.answer, schemas.ScopeTasksWrite),
			ingress.Post(schemas.RouteTasks+"/:id/token", h.reissue, schemas.ScopeTasksWrite),
		}, h.agentRoutes()...),
		NotRedriven: "a task is not redriven; file a new one with POST /v1/tasks, it may begin at this one's branch",
	}, {
		Name: "repos", Kind: schemas.KindRepo,
		Routes:      []ingress.Route{ingress.Post(schemas.RouteRepos, h.createRepo, schemas.ScopeTasksWrite)},
		NotRedriven: "the making of a repository is not redriven; ask for it anew with POST /v1/repos",
	}}
}

// create stores a task and answers with it and its token. A repeat joins it, and
// is not shown the token again.
func (h handlers) create(c *gin.Context) error {
	req, err := h.newTask(c)
	if err != nil {
		return err
	}
	secret := h.Tasks.Secret()
	req.TokenHash = secret.Hash()
	out, err := h.server.Acceptor().Accept(c.Request.Context(), req)
	if out.ID != "" && accept.InFlight(err) { // it runs for hours, and a repeat of its key needs its name
		out.Receipt.Duplicate, out.Replayed, err = true, true, nil
	}
	if err := h.server.Accepted(c, out, err); err != nil {
		return err
	}
	status, token := http.StatusCreated, ""
	if out.Receipt.Duplicate {
		status = http.StatusOK
	} else {
		token = secret.Text(out.Ref, 0)
	}
	c.Writer.Header().Set("Location", schemas.RouteTasks+"/"+url.PathEscape(out.ID))
	h.Show(c.Writer, c.Request, out.Ref, status, token)
	return nil
}

// newTask reads a task to be stored. What speaks against a new one does not speak
// against joining one: the branch that must not exist is that one's own.
func (h handlers) newTask(c *gin.Context) (accept.Request, error) {
	key, terms, err := accept.ReadHeaders(c.Request.Header, h.server.Now())
	if err != nil {
		return accept.Request{}, err
	}
	t, err := body(h, c, Read)()
	if err != nil {
		return accept.Request{}, err
	}
	payload, err := ledger.Encode(t.Order)
	if err != nil {
		return accept.Request{}, err
	}
	who := ingress.Caller(c)
	if who, err = limited(who, t.Order); err != nil {
		return accept.Request{}, err
	}
	timeout, until, refusal := t.Timeout(h.server.Now(), h.MaxTask)
	if refusal == nil {
		refusal = h.known(t.Order)
	}
	if refusal == nil {
		refusal = h.askable(who, t.Order)
	}
	if refusal == nil {
		refusal = h.feasible(c.Request.Context(), who, t.Order)
	}
	return accept.Request{
		Name: accept.NameOf(who.Tenant, schemas.RouteTasks, t.ID, key), Timeout: timeout, Until: until, Refusal: refusal,
		Action: schemas.Action{
			Tenant: who.Tenant, Kind: schemas.KindTask, Payload: payload, Principal: who.ID, Entries: who.Entries, Models: who.Models,
			NotBefore: terms.NotBefore, Priority: terms.Priority,
		},
	}, nil
}

func boundsOf(who ingress.Identity) task.Bounds {
	return task.Bounds{Entries: who.Entries, Models: who.Models}
}

// limited is the sender of a task with the bounds of the task's holders: those that the order names, and
// else the sender's own. The preferred model is always one of its models.
func limited(who ingress.Identity, o schemas.TaskOrder) (ingress.Identity, error) {
	to := task.Bounds{Entries: o.Entries, Models: o.Models}
	if len(to.Models) > 0 && o.Model != "" && !models.May(to.Models, o.Model) {
		to.Models = append(slices.Clone(to.Models), o.Model)
	}
	b, err := boundsOf(who).Narrow(to)
	who.Entries, who.Models = b.Entries, b.Models
	return who, err
}

// known refuses a task that names an entry that is not in the policy.
func (h handlers) known(o schemas.TaskOrder) error {
	if len(o.Entries) == 0 || h.Entries == nil {
		return nil
	}
	all := h.Entries()
	for i, name := range o.Entries {
		if !slices.Contains(all, name) {
			return fault.New(schemas.ValidationError, "at /entries/"+strconv.Itoa(i)+": the policy has no entry "+name+"; GET /v1/policy shows those it has")
		}
	}
	return nil
}

// askable refuses a task with a model that its holder could not call. An unknown model name is the
// agent's own concern: it may use another gateway, and receives the name.
func (h handlers) askable(who ingress.Identity, o schemas.TaskOrder) error {
	if o.Model == "" || h.Models == nil {
		return nil
	}
	set, asker := h.Models(), who.Asks(schemas.KindChat, "")
	_, _, there := set.Find(o.Model)
	switch {
	case !there || len(set.Candidates([]string{o.Model}, asker.May, asker.Enters, "")) > 0:
		return nil
	case len(o.Entries) > 0:
		return fault.New(schemas.Forbidden, "at /entries: the task may use no upstream of its model; name the entry of one too, such as model:UPSTREAM")
	default:
		return fault.New(schemas.Forbidden, "at /model: the token may not use this model, and so could not the task's; GET /models shows those it may")
	}
}

// feasible refuses a task whose branch cannot be made. It may be made or lost until
// the worker looks, so that this is only the answer that comes sooner.
func (h handlers) feasible(ctx context.Context, who ingress.Identity, o schemas.TaskOrder) error {
	repo, err := h.Repos.Get(ctx, who.Tenant, o.Repo)
	if errors.Is(err, fault.ErrNotFound) {
		return fault.New(schemas.ValidationError, "at /repo: there is no such repository; make it with POST /v1/repos")
	}
	if err == nil {
		err = grant.Entry(repo.AllowlistKey, who.Entries)
		if err != nil && len(o.Entries) > 0 {
			err = fault.New(schemas.Forbidden, "at /entries: the repository is reached by the entry "+repo.AllowlistKey+"; name it too, or leave entries out")
		}
	}
	if err != nil {
		return unseen(err)
	}
	there, err := h.Branches(ctx, repo, cmp.Or(o.BaseRef, repo.DefaultBranch))
	switch {
	case errors.Is(err, git.ErrNoRepo): // the node that has it checks once the task is stored
		return nil
	case err != nil:
		return unseen(err)
	case !there:
		return fault.New(schemas.ValidationError, "at /base_ref: the repository has no such branch; name one that it has, without refs/heads/")
	case o.Branch == "":
		return nil
	}
	there, err = h.Branches(ctx, repo, o.Branch)
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

func (h handlers) cancel(c *gin.Context) error {
	if err := h.server.ReadNothing(c); err != nil {
		return err
	}
	tenant := ingress.Caller(c).Tenant
	s, err := h.Control.CancelTask(c.Request.Context(), tenant, c.Param("id"))
	return h.show(c, schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: s.ID}, err, http.StatusAccepted, "")
}

func (h handlers) answer(c *gin.Context) error {
	req, err := body(h, c, ReadAnswer)()
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	ref, err := h.Tasks.Answer(c.Request.Context(), who.Tenant, c.Param("id"), req, who.Name)
	return h.show(c, ref, err, http.StatusOK, "")
}

func (h handlers) reissue(c *gin.Context) error {
	if err := h.server.ReadNothing(c); err != nil {
		return err
	}
	who := ingress.Caller(c)
	ref, token, err := h.Tasks.Reissue(c.Request.Context(), who.Tenant, c.Param("id"), boundsOf(who))
	return h.show(c, ref, err, http.StatusOK, token)
}

func (h handlers) show(c *gin.Context, ref schemas.Ref, err error, status int, token string) error {
	if ref.ID != "" {
		ingress.SetAction(c, ref)
	}
	if err != nil {
		return err
	}
	h.Show(c.Writer, c.Request, ref, status, token)
	return nil
}
