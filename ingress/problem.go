package ingress

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"weir/internal/ledger"
	"weir/internal/problem"
)

// Fail is the only place of ingress where an error becomes a body, in the form of the route's surface.
// Handlers call it if they have to answer before they return. Nothing may have been written before.
func Fail(c *gin.Context, err error) {
	c.Abort()
	p := problem.Of(err)
	r := stateOf(c)
	s := r.surface
	if s.Fail == nil {
		s = r.engine.owner(c.Request)
	}
	if s.Fail != nil {
		p.Code = s.Fail(c, p, err)
	} else {
		problem.Write(c.Writer, c.Request, err)
	}
	problem.ReportOf(c.Request.Context()).Code = p.Code
	r.engine.Metrics.Refused(p.Code)
}

// owner is the surface that owns the path of a request, or the zero one.
func (m *middleware) owner(r *http.Request) *Surface {
	path := r.URL.EscapedPath()
	for i := range m.Surfaces {
		if s := &m.Surfaces[i]; s.Owns != nil && s.Owns(path) {
			return s
		}
	}
	return &m.none
}

// WriteJSON answers with a document of Weir's own.
func WriteJSON(c *gin.Context, status int, doc any) {
	data, err := ledger.Encode(doc)
	if err != nil {
		problem.Write(c.Writer, c.Request, err)
		return
	}
	h := c.Writer.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(data) // the client is gone if this fails
}
