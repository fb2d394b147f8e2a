package egress

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress/git"
	"weir/egress/index"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/schemas"
)

// Routes are those of the room, by what they are mounted with.
func Routes() gin.RoutesInfo {
	engine := gin.New()
	(&Room{cfg: Config{
		Rules: struct{ Rules }{}, Repos: struct{ Repos }{}, Budgets: struct{ Budgets }{}, Operations: func() schemas.OperationsView { return schemas.OperationsView{} }, Git: &git.Config{}, Index: &index.Index{},
		Session: func(*http.Request) (schemas.ConsoleSession, error) { return schemas.ConsoleSession{}, nil },
		Policy:  func([]string, bool) schemas.PolicyView { return schemas.PolicyView{} }, Models: func() *models.Set { return nil },
		Tokens: func(context.Context, string, string, int) (schemas.Page[schemas.Token], error) {
			return schemas.Page[schemas.Token]{}, nil
		},
	}}).Mount(engine)
	return engine.Routes()
}

// mountReads registers the routes whose answers belong to a tenant.
func (e *Room) mountReads(engine *gin.Engine) {
	e.mountIndex(engine)
	read(engine, "/v1/actions/:id", e.scoped(schemas.ScopeActionsRead, e.status.Serve))
	read(engine, "/v1/actions/:id/payload", e.scoped(schemas.ScopeActionsRead, e.status.ServePayload))
	read(engine, "/v1/actions/:id/events", e.scoped(schemas.ScopeActionsRead, e.events.Serve))
	read(engine, "/v1/evidence", e.scoped(schemas.ScopeEvidenceRead, func(w http.ResponseWriter, r *http.Request, tenant, _ string) {
		e.records.Serve(w, r, tenant)
	}))
	read(engine, "/v1/dead-letters", e.scoped(schemas.ScopeActionsRead, func(w http.ResponseWriter, r *http.Request, tenant, _ string) {
		e.records.ServeDead(w, r, tenant)
	}))
	e.mountRules(engine)
	e.mountPolicy(engine)
	e.mountTokens(engine)
	e.mountTasks(engine)
	e.mountGit(engine)
	e.mountModels(engine)
	e.mountBudgets(engine)
	e.mountOperations(engine)
	e.mountConsole(engine)
}

// scoped serves the records of the reader's tenant.
func (e *Room) scoped(scope string, serve func(w http.ResponseWriter, r *http.Request, tenant, id string)) gin.HandlerFunc {
	return e.readBy(scope, func(c *gin.Context, who Reader) {
		serve(c.Writer, c.Request, who.Tenant, c.Param("id"))
	})
}

// readBy finds out who reads before anything is read.
func (e *Room) readBy(scope string, serve func(c *gin.Context, who Reader)) gin.HandlerFunc {
	return func(c *gin.Context) {
		who, err := e.cfg.Reader(c.Request, scope)
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		serve(c, who)
	}
}

// read registers a route for GET and HEAD.
func read(engine *gin.Engine, path string, h gin.HandlerFunc) {
	engine.GET(path, h)
	engine.HEAD(path, h)
}
