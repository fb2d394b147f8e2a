package chat

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/internal/problem"
	"weir/schemas"
)

// shown are the routes of a path under every base that is read. Errors have the form of a protocol.
func shown(path string, protocol func(r *http.Request) schemas.Dialect, serve egress.Handler) (all []egress.Route) {
	for _, base := range schemas.ChatBases() {
		all = append(all, egress.Read(base+path, func(c *gin.Context) error {
			d := protocol(c.Request)
			if d.Family() == schemas.DialectMessages { // its clients read the id there
				c.Header("Request-Id", problem.RequestID(c.Request.Context()))
			}
			if err := serve(c); err != nil {
				problem.WriteChat(c.Writer, c.Request, d, err)
			}
			return nil
		})...)
	}
	return all
}

// models shows a document of models to tokens that may ask them, or may see what is done.
func (a Answerer) models(doc func(c *gin.Context, who egress.Reader) (any, error)) egress.Handler {
	return func(c *gin.Context) error {
		who, err := a.server.Sender(c.Request, schemas.ScopeActionsWrite, schemas.ScopeActionsRead)
		if err != nil {
			return err
		}
		list, err := doc(c, who)
		if err == nil {
			stream.WriteJSON(c.Writer, c.Request, http.StatusOK, list)
		}
		return err
	}
}

// protocol is the dialect in whose form a reader of models gets errors.
func protocol(r *http.Request) schemas.Dialect {
	if r.Header.Get("Anthropic-Version") != "" {
		return schemas.DialectMessages
	}
	return schemas.DialectChat
}

func (a Answerer) listModels(c *gin.Context, who egress.Reader) (any, error) {
	return pageOf(c.Request.URL.Query(), a.cfg.Models().List(a.scope(who)))
}

// pageOf is the part of a sorted list that limit, after_id and before_id select; without them all of
// it. A cursor need not be in the list: lists change. Other parameters are a client's own.
func pageOf(q url.Values, all []schemas.ModelView) (schemas.ModelList, error) {
	p := stream.Params{Values: q}
	limit := p.Limit(len(all))
	after, forward := p.One("after_id")
	before, back := p.One("before_id")
	if p.Err == nil && forward && back {
		p.Err = stream.Invalid("the parameters after_id and before_id exclude each other; send one of them")
	}
	if p.Err != nil {
		return schemas.ModelList{}, p.Err
	}
	place := func(id string) (at int, found bool) {
		return slices.BinarySearchFunc(all, id, func(m schemas.ModelView, id string) int { return strings.Compare(m.ID, id) })
	}
	list := schemas.ModelList{Object: "list"}
	if back {
		at, _ := place(before)
		list.Data, list.HasMore = all[max(0, at-limit):at], at > limit
	} else {
		at, found := place(after) // without one it is the beginning
		if found {
			at++
		}
		end := min(at+limit, len(all))
		list.Data, list.HasMore = all[at:end], end < len(all)
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	return list, nil
}

// scope is what a reader may see of the models.
func (a Answerer) scope(who egress.Reader) models.Scope {
	s := models.Scope{Patterns: who.Models, Lists: a.cfg.Lists}
	if len(who.Entries) > 0 {
		s.Entry = func(entry string) bool { return slices.Contains(who.Entries, entry) }
	}
	if who.Model == "" {
		return s
	}
	if !a.cfg.Models().Usable(who.Model, func(name string) bool { return models.May(who.Models, name) }) {
		s.Entry = func(string) bool { return false }
	}
	s.Patterns = []string{who.Model}
	return s
}

// showModel answers with one model. Its name may have slashes in it. One that may not be
// used does not exist here, as in the list; a request for a completion of it says why.
func (a Answerer) showModel(c *gin.Context, who egress.Reader) (any, error) {
	id := strings.TrimLeft(c.Param("id"), "/")
	if id == "" {
		return a.listModels(c, who)
	}
	view, ok := a.cfg.Models().View(id, a.scope(who))
	if !ok {
		return nil, fault.New(schemas.ModelNotFound, "there is no such model, or it may not be used with this token; GET /models lists those that may")
	}
	return view, nil
}
