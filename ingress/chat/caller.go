package chat

import (
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/grant"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/internal/task"
	"weir/schemas"
)

// caller is the sender of a request for a completion. Its Principal is the id of the token, or of
// the one that filed the task.
type caller struct {
	grant.Caller

	who ingress.Identity
}

// caller authenticates the sender: the holder of a task by the task's token or as an agent of a
// pool, or a token that may write actions. In open mode every request is allowed, but a task's
// token still identifies its task. A token with the scope tasks:work itself, not through admin, is
// a task's holder while it holds one.
func (h handlers) caller(c *gin.Context) (caller, error) {
	if token := tasks.Bearer(c); task.Is(token) {
		v, err := h.Tasks.Send(c.Request.Context(), token)
		return holder(c, v), err
	}
	who, err := h.server.Authenticate(c.Request)
	if err != nil {
		return caller{}, err
	}
	ingress.SetTenant(c, who.Tenant)
	if slices.Contains(who.Scopes, schemas.ScopeTasksWork) {
		v, ok, err := h.Tasks.Holds(c.Request.Context(), who.Tenant, who.ID)
		if err != nil || ok {
			return holder(c, v), err
		}
		if !schemas.Grants(who.Scopes, schemas.ScopeActionsWrite) {
			return caller{}, fault.New(schemas.TaskNotRunning, "Task is not running: this token holds no task, and may ask for completions only while it does")
		}
	}
	return caller{who.Asks(schemas.KindChat, ""), who}, fault.Scope(who.Scopes, schemas.ScopeActionsWrite)
}

// holder is the holder of a task: it may what the token that filed the task might.
func holder(c *gin.Context, v tasks.Access) caller {
	who := v.Identity()
	if who.Holding == nil {
		return caller{}
	}
	ingress.SetTenant(c, who.Tenant)
	return caller{who.Asks(schemas.KindChat, ""), who}
}

// narrow leaves the task's own model of what is asked, where the task has one. Another
// name for it is as good.
func (p caller) narrow(set *models.Set, o *schemas.ChatOrder) error {
	if p.who.Holding == nil || p.who.Holding.Model == "" {
		return nil
	}
	only := p.who.Holding.Model
	_, asked, ok := set.Find(o.Model)
	_, own, known := set.Find(only)
	if o.Model != only && (!ok || !known || asked != own) {
		return fault.New(schemas.Forbidden, "at /model: the task may use no model but "+only)
	}
	o.Models = nil
	return nil
}

// worst is what a completion may use at most, by all of those that may answer it.
func (h handlers) worst(a *asked, found []models.Candidate) budget.Order {
	b := budget.WorstCase(&a.order, found)
	b.Tenant, b.Action, b.Token, b.Models, b.Until = a.Tenant, a.req.Name.ID, a.Principal, a.req.Answers, h.server.Now().Add(lookAhead)
	return b
}

// lookAhead is by when a completion that is only looked at will have ended. Nothing is
// held for it.
const lookAhead = time.Hour
