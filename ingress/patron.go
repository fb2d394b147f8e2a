package ingress

import (
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
)

// patron is who asks for a completion.
type patron struct {
	tenant string
	// principal is the id of the token, or of the one that filed the task.
	principal string
	// entries and models bound what may be used; empty: nothing does.
	entries, models []string
	// task is set where a task's holder asks, by its lease; until is when the task ends
	// at the latest.
	task  *schemas.Ref
	lease int
	until time.Time
	// only is the one model of the task; empty: it names none.
	only   string
	budget *schemas.TaskBudget
}

// patron finds out who asks: the holder of a task by the task's token or as an agent of a
// pool, or whoever may write actions. In open mode that is anybody, but a task's token is
// that task's there too. Who has the scope tasks:work itself, not by admin, is the task's
// holder while it holds one.
func (in *Room) patron(c *gin.Context) (patron, error) {
	if token := bearer(c); task.Is(token) {
		if in.cfg.Tasks == nil {
			return patron{}, fault.New(schemas.Unauthorized, "tokens of tasks are not served here")
		}
		v, err := in.cfg.Tasks.Enter(c.Request.Context(), token)
		return holder(c, v), err
	}
	who, err := in.cfg.Authenticate(c.Request)
	if err != nil {
		return patron{}, err
	}
	c.Set(keyTenant, who.Tenant)
	p := patron{tenant: who.Tenant, principal: who.ID, entries: who.Entries, models: who.Models}
	if in.cfg.Tasks != nil && slices.Contains(who.Scopes, schemas.ScopeTasksWork) {
		v, ok, err := in.cfg.Tasks.Holds(c.Request.Context(), who.Tenant, who.ID)
		if err != nil || ok {
			return holder(c, v), err
		}
		if !schemas.Grants(who.Scopes, schemas.ScopeActionsWrite) {
			return patron{}, fault.New(schemas.TaskNotRunning, "Task is not running: this token holds no task, and may ask for completions only while it does")
		}
	}
	return p, fault.Scope(who.Scopes, schemas.ScopeActionsWrite)
}

// holder is whoever holds a task: it may what the one who filed the task might.
func holder(c *gin.Context, v tasks.Visit) patron {
	if v.Task == nil {
		return patron{}
	}
	a := v.Action()
	c.Set(keyTenant, v.Ref.Tenant)
	return patron{
		tenant: v.Ref.Tenant, principal: a.Principal, entries: a.Entries, models: a.Models,
		task: &v.Ref, lease: v.Lease, until: a.Deadline, only: v.Task.Order.Model, budget: v.Task.Order.Budget,
	}
}

// route is the one by which an Idempotency-Key is one of this patron's: the keys of
// a task's holder are not those of anybody else.
func (p patron) route() string {
	if p.task == nil {
		return schemas.RouteChat
	}
	return schemas.RouteChat + "?task=" + p.task.ID
}

// may reports whether a name of a model is one that may be used.
func (p patron) may(name string) bool { return models.May(p.models, name) }

// enters reports whether an entry of the policy may be used.
func (p patron) enters(entry string) bool {
	return len(p.entries) == 0 || slices.Contains(p.entries, entry)
}

// narrow leaves the task's own model of what is asked, where the task has one. Another
// name for it is as good.
func (p patron) narrow(set *models.Set, o *schemas.ChatOrder) error {
	if p.only == "" {
		return nil
	}
	_, asked, ok := set.Find(o.Model)
	_, own, known := set.Find(p.only)
	if o.Model != p.only && (!ok || !known || asked != own) {
		return fault.New(schemas.Forbidden, "at /model: the task may use no model but "+p.only)
	}
	o.Models = nil
	return nil
}

// worst is what a completion may use at most, by all of those that may answer it.
func (in *Room) worst(a *asked, found []models.Candidate) budget.Order {
	b := budget.WorstCase(&a.order, found)
	b.Tenant, b.Action, b.Token, b.Models, b.Until = a.tenant, a.req.ID, a.principal, a.req.Answers, in.cfg.Accept.Now().Add(lookAhead)
	return b
}

// lookAhead is by when a completion that is only looked at will have ended. Nothing is
// held for it.
const lookAhead = time.Hour
