package ingress

import (
	"context"
	"io"

	"github.com/gin-gonic/gin"

	"weir/internal/fault"
	"weir/schemas"
)

// reservedBody is a body that waits for memory before it is read. Until it is stored it costs up to ten
// times its size, and clients decide how many arrive at once.
type reservedBody struct {
	io.ReadCloser

	server  *Server
	of      *gin.Context
	release func()
}

// ReserveBody makes the body of a request wait for memory of the caller's tenant, if it can be large. The
// memory is free again after the action is stored, and at the latest after release. Only handlers
// that store an action at once use it: a handler that waits would hold the memory meanwhile.
func (s *Server) ReserveBody(c *gin.Context) (release func()) {
	body := c.Request.Body
	if s.cfg.Memory == nil || body == nil || announced(c.Request, schemas.InlineLimit+1) <= schemas.InlineLimit {
		return func() {}
	}
	own := *c.Request
	own.Body = &reservedBody{ReadCloser: body, server: s, of: c, release: func() {}}
	c.Request = &own
	return func() { releaseBody(c) }
}

// releaseBody gives back the memory of a request's body.
func releaseBody(c *gin.Context) {
	if body, ok := c.Request.Body.(*reservedBody); ok {
		body.release()
	}
}

// reserve reserves room for the bytes that a body may have, before the first is read. It waits as long
// as a body may take to arrive.
func (b *reservedBody) reserve(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, b.server.cfg.BodyTimeout)
	defer cancel()
	release, err := b.server.cfg.Memory(ctx, b.of.GetString(keyTenant), n)
	if err != nil {
		return &fault.Error{
			Code: schemas.Unavailable, Cause: err,
			Message: "too many large requests are being taken just now, and this one was not read; send it again when Retry-After says",
		}
	}
	b.release = release
	return nil
}
