package rules

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/executor"
	"weir/internal/traffic"
	"weir/schemas"
)

// Question is what a preview is about.
type Question struct {
	Call  schemas.HTTPCall
	Facts traffic.Facts
	// Rule is looked at as if it were in the set, in the place of the one with its
	// id; nil: the set as it is. It is enabled and was checked.
	Rule *schemas.Rule
}

func (h handlers) preview(c *gin.Context) error {
	body, err := h.server.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	req, rule, err := ReadPreview(body, h.server.Now())
	if err != nil {
		return err
	}
	call, err := executor.Asked(req.ExplainRequest)
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	q := Question{Call: call, Facts: Facts(req.Scope, who.ID), Rule: rule}
	out, err := h.Preview(c.Request.Context(), who.Asks(q.Facts.Kind, q.Facts.TaskType), q)
	if err != nil {
		return err
	}
	ingress.WriteJSON(c, http.StatusOK, out)
	return nil
}

func (h handlers) record(c *gin.Context) error {
	body, err := h.server.Read(c.Writer, c.Request)
	if err != nil {
		return err
	}
	req, err := ReadRecord(body, h.server.Now())
	if err != nil {
		return err
	}
	who := ingress.Caller(c)
	h.Record(c.Writer, c.Request, who.Tenant, who.ID, req)
	return nil
}
