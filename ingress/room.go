package ingress

import (
	"context"
	"io"

	"github.com/gin-gonic/gin"

	"weir/internal/fault"
	"weir/schemas"
)

// counted is a body that waits for memory before it is read. It costs up to ten times its size until
// it is stored, and how many come at once is up to the clients.
type counted struct {
	io.ReadCloser

	server  *Server
	of      *gin.Context
	release func()
}

// Count has the body of a request wait for memory of its tenant, if it is large. It is given back once
// the action is stored, and at the latest by release.
func (s *Server) Count(c *gin.Context) (release func()) {
	body := c.Request.Body
	if _, own := body.(Reserver); own || s.cfg.Memory == nil || body == nil || c.Request.ContentLength >= 0 && c.Request.ContentLength <= schemas.InlineLimit {
		return func() {}
	}
	own := *c.Request
	own.Body = &counted{ReadCloser: body, server: s, of: c, release: func() {}}
	c.Request = &own
	return func() { stored(c) }
}

// stored gives back the memory of a request's body.
func stored(c *gin.Context) {
	if body, ok := c.Request.Body.(*counted); ok {
		body.release()
	}
}

// Reserve waits as long as a body may take to arrive.
func (b *counted) Reserve(ctx context.Context, n int64) error {
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
