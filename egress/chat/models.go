package chat

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// models shows the models to tokens that may ask them, or may see what is done.
func (a Answerer) models() []egress.Route {
	var all []egress.Route
	for _, base := range schemas.ChatBases() {
		all = append(all, egress.Read(base+schemas.RouteModels, a.modelsFor(a.listModels))...)
		all = append(all, egress.Read(base+schemas.RouteModels+"/*id", a.modelsFor(a.showModel))...)
	}
	return all
}

// modelsFor authenticates the sender, and so finds which models it may use. Errors are the
// protocol's.
func (a Answerer) modelsFor(serve func(c *gin.Context, who egress.Reader) error) egress.Handler {
	return func(c *gin.Context) error {
		who, err := a.asks(c.Request)
		if err == nil {
			err = serve(c, who)
		}
		if err != nil {
			problem.WriteChat(c.Writer, c.Request, err)
		}
		return nil
	}
}

// asks is who may ask for models. A task's token is that task's in open mode too.
func (a Answerer) asks(r *http.Request) (egress.Reader, error) {
	if who, ok, err := a.holder(r); ok {
		return who, err
	}
	return a.server.Reader(r, schemas.ScopeActionsWrite, schemas.ScopeActionsRead)
}

// holder is the holder of a task; ok is false for a request with another token.
func (a Answerer) holder(r *http.Request) (who egress.Reader, ok bool, err error) {
	token, _ := githttp.BearerToken(r.Header.Values("Authorization"), false)
	if !task.Is(token) || a.cfg.Holder == nil {
		return who, false, nil
	}
	who, err = a.cfg.Holder(r.Context(), token)
	return who, true, err
}

func (a Answerer) listModels(c *gin.Context, who egress.Reader) error {
	stream.WriteJSON(c.Writer, c.Request, http.StatusOK, schemas.ModelList{Object: "list", Data: a.cfg.Models().List(who.Models, enters(who))})
	return nil
}

// enters says which entries of the policy a reader may use; nil: all.
func enters(who egress.Reader) func(entry string) bool {
	if len(who.Entries) == 0 {
		return nil
	}
	return func(entry string) bool { return slices.Contains(who.Entries, entry) }
}

// showModel answers with one model. Its name may have slashes in it. One that may not be
// used does not exist here, as in the list; a request for a completion of it says why.
func (a Answerer) showModel(c *gin.Context, who egress.Reader) error {
	id := strings.TrimLeft(c.Param("id"), "/")
	if id == "" {
		return a.listModels(c, who)
	}
	view, ok := a.cfg.Models().View(id, func(name string) bool { return models.May(who.Models, name) }, enters(who))
	if !ok {
		return fault.New(schemas.ModelNotFound, "there is no such model, or it may not be used with this token")
	}
	stream.WriteJSON(c.Writer, c.Request, http.StatusOK, view)
	return nil
}
