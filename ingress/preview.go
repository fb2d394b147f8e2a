package ingress

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress/executor"
	"weir/ingress/rules"
	"weir/internal/traffic"
	"weir/schemas"
)

// Previewer says what would become of a call that is not made.
type Previewer interface {
	// Preview asks the traffic rules of the asker's tenant, and then the policy as
	// far as the asker may use it. Its errors are public ones.
	Preview(ctx context.Context, who Asker, q Question) (schemas.Preview, error)
}

// Question is what a preview is about.
type Question struct {
	Call  schemas.HTTPCall
	Facts traffic.Facts
	// Rule is looked at as if it were in the set, in the place of the one with its
	// id; nil: the set as it is. It is enabled and was checked.
	Rule *schemas.Rule
}

func (in *Room) preview(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	req, rule, err := rules.ReadPreview(body, in.cfg.Accept.Now())
	if err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	q := Question{Call: executor.Asked(req.ExplainRequest), Facts: rules.Facts(req.Scope, who.ID), Rule: rule}
	out, err := in.cfg.Previewer.Preview(c.Request.Context(), who.asks(q.Facts.Kind, q.Facts.TaskType), q)
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, out)
}

func (in *Room) record(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	req, err := rules.ReadRecord(body, in.cfg.Accept.Now())
	if err != nil {
		in.fail(c, err)
		return
	}
	who := identity(c)
	in.responder.RecordRules(c.Writer, c.Request, who.Tenant, who.ID, req)
}
