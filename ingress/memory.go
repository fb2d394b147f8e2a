package ingress

import (
	"context"

	"github.com/gin-gonic/gin"

	"weir/internal/fault"
	"weir/schemas"
)

// ReserveBody makes the body of a request wait for memory of the caller's tenant before it is read, if
// it can be large: until it is stored it costs up to ten times its size, and clients decide how many
// arrive at once. The memory is free again after the action is stored, and at the latest after release.
// Only handlers that store an action at once use it: a handler that waits would hold the memory
// meanwhile.
func (s *Server) ReserveBody(c *gin.Context) (release func()) {
	if s.cfg.Memory != nil && announced(c.Request, schemas.InlineLimit+1) > schemas.InlineLimit {
		stateOf(c).releaseBody = func() {} // nothing is reserved yet
	}
	return stateOf(c).release
}

// release gives back the memory of the request's body.
func (r *state) release() {
	if r.releaseBody != nil {
		r.releaseBody()
	}
}

// reserve reserves room for the bytes that a body may have, before the first is read. It waits as long
// as a body may take to arrive.
func (s *Server) reserve(c *gin.Context, n int64) error {
	r := stateOf(c)
	if r.releaseBody == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), s.cfg.BodyTimeout)
	defer cancel()
	release, err := s.cfg.Memory(ctx, r.tenant, n)
	if err != nil {
		return &fault.Error{
			Code: schemas.Unavailable, Cause: err,
			Message: "too many large requests are being taken just now, and this one was not read; send it again when Retry-After says",
		}
	}
	r.releaseBody = release
	return nil
}
