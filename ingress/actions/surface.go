package actions

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/schemas"
)

type handlers struct {
	server   *ingress.Server
	control  *Control
	redriver *Redriver
}

// Surfaces are the routes that change the course of an action of any kind, and those that redrive an
// action or a dead letter.
func Surfaces(s *ingress.Server, c *Control, r *Redriver) []ingress.Surface {
	h := handlers{s, c, r}
	return []ingress.Surface{
		{Name: "actions", Routes: []ingress.Route{
			ingress.Post("/v1/actions/:id/cancel", h.cancel, schemas.ScopeActionsWrite),
			ingress.Post("/v1/actions/:id/resolve", h.resolve, schemas.ScopeActionsWrite),
			ingress.Post("/v1/actions/:id/redrive", h.redriveAction, schemas.ScopeActionsWrite),
		}},
		{Name: "dead_letters", Routes: []ingress.Route{
			ingress.Post("/v1/dead-letters/redrive", h.redrive, schemas.ScopeAdmin),
		}},
	}
}

func (h handlers) cancel(c *gin.Context) error {
	if err := h.server.ReadNothing(c); err != nil {
		return err
	}
	s, err := h.control.Cancel(c.Request.Context(), ingress.Caller(c).Tenant, c.Param("id"))
	status := http.StatusOK
	if s.CancelRequested {
		status = http.StatusAccepted
	}
	return written(c, status, s, err)
}

func (h handlers) resolve(c *gin.Context) error {
	body, err := h.server.Read(c)
	if err != nil {
		return err
	}
	word, err := ReadResolution(body)
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	word.By = who.Name
	s, err := h.control.Resolve(c.Request.Context(), who.Tenant, c.Param("id"), word)
	return written(c, http.StatusOK, s, err)
}

// written answers a request to change an action.
func written(c *gin.Context, status int, s schemas.ActionStatus, err error) error {
	if s.ID != "" {
		ingress.SetAction(c, schemas.Ref{ID: s.ID})
	}
	if err == nil {
		ingress.WriteJSON(c, status, s)
	}
	return err
}

func (h handlers) redrive(c *gin.Context) error {
	if err := accept.AtOnce(c.Request.Header); err != nil {
		return err
	}
	body, err := h.server.Read(c)
	if err != nil {
		return err
	}
	sequence, err := ReadRedrive(body)
	if err != nil {
		return err
	}
	out, err := h.redriver.Redrive(c.Request.Context(), ingress.Caller(c).Asks("", ""), sequence)
	return h.server.Answer(c, out, err)
}

func (h handlers) redriveAction(c *gin.Context) error {
	if err := accept.AtOnce(c.Request.Header); err != nil {
		return err
	}
	if err := h.server.ReadNothing(c); err != nil {
		return err
	}
	out, err := h.redriver.RedriveAction(c.Request.Context(), ingress.Caller(c).Asks("", ""), c.Param("id"))
	return h.server.Answer(c, out, err)
}
