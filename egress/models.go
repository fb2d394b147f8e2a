package egress

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// mountModels shows the models to whoever may ask them, or may see what is done.
func (e *Room) mountModels(engine *gin.Engine) {
	if e.cfg.Models == nil {
		return
	}
	for _, base := range schemas.ChatBases() {
		read(engine, base+schemas.RouteModels, e.modelsFor(e.listModels))
		read(engine, base+schemas.RouteModels+"/*id", e.modelsFor(e.showModel))
	}
}

// modelsFor finds out who asks, and so which models that may use.
func (e *Room) modelsFor(serve func(c *gin.Context, who Reader)) gin.HandlerFunc {
	return func(c *gin.Context) {
		who, err := e.asks(c.Request)
		if err != nil {
			problem.WriteChat(c.Writer, c.Request, err)
			return
		}
		serve(c, who)
	}
}

// asks is who may ask for models. A task's token is that task's in open mode too.
func (e *Room) asks(r *http.Request) (Reader, error) {
	if token, _ := githttp.Token(r.Header.Values("Authorization"), false); task.Is(token) && e.cfg.Holder != nil {
		return e.cfg.Holder(r.Context(), token)
	}
	who, err := e.cfg.Reader(r, "")
	if err != nil {
		return who, err
	}
	return who, fault.Scope(who.Scopes, schemas.ScopeActionsWrite, schemas.ScopeActionsRead)
}

func (e *Room) listModels(c *gin.Context, who Reader) {
	stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.ModelList{Object: "list", Data: e.cfg.Models().List(who.Models, who.enters())})
}

// enters says which entries of the policy a reader may use; nil: all.
func (who Reader) enters() func(entry string) bool {
	if len(who.Entries) == 0 {
		return nil
	}
	return func(entry string) bool { return slices.Contains(who.Entries, entry) }
}

// showModel answers with one model. Its name may have slashes in it. One that may not be
// used is none here, as it is none of the list; whoever asks it something is told that.
func (e *Room) showModel(c *gin.Context, who Reader) {
	id := strings.TrimLeft(c.Param("id"), "/")
	if id == "" {
		e.listModels(c, who)
		return
	}
	view, ok := e.cfg.Models().View(id, func(name string) bool { return models.May(who.Models, name) }, who.enters())
	if !ok {
		problem.WriteChat(c.Writer, c.Request, fault.New(schemas.ModelNotFound, "there is no such model, or it may not be used with this token"))
		return
	}
	stream.WriteJSON(c.Writer, c.Request, http.StatusOK, view)
}
