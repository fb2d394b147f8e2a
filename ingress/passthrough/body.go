package passthrough

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/schemas"
)

// Bodies stores large bodies while they arrive.
type Bodies interface {
	// Spool stores a body under no name yet. After an error nothing of it is kept.
	Spool(ctx context.Context, body io.Reader) (schemas.Spooled, error)
	// Commit gives a body its name, by which calls can be made. Not to be followed by Discard.
	Commit(ctx context.Context, tenant string, s schemas.Spooled) error
	// Discard drops a body that has no name.
	Discard(ctx context.Context, s schemas.Spooled)
	// Keep makes a body that has a name live as long as a new action; fault.ErrNotFound if it is gone.
	Keep(ctx context.Context, tenant, name string) error
	// Accepting returns fault.ErrFull while nothing new is stored.
	Accepting() error
}

// body is what a request brings: all of it in start, or more that is read from rest.
type body struct {
	start []byte
	rest  io.Reader // nil: there is no more

	bodies  Bodies
	spooled schemas.Spooled // what was stored of it
}

// open reads the start of a request's body. A coding of it is the target's to undo.
func (d *Handler) open(c *gin.Context) (*body, error) {
	b := &body{bodies: d.cfg.Bodies}
	in, err := d.server.Stream(c, d.cfg.MaxBody, "limits.upload")
	if err != nil {
		return b, err
	}
	var start bytes.Buffer
	if n := min(c.Request.ContentLength, schemas.InlineLimit); n > 0 {
		start.Grow(int(n) + bytes.MinRead)
	}
	n, err := start.ReadFrom(io.LimitReader(in, schemas.InlineLimit+1))
	b.start = start.Bytes()
	if n > schemas.InlineLimit {
		b.rest = in
	}
	return b, err
}

// spool reads the rest of a large body into the call that it belongs to. It is stored if keep is set and the
// log takes new work, also if the client leaves once it has sent all of it.
func (b *body) spool(ctx context.Context, c *schemas.HTTPCall, keep bool) (err error) {
	in := io.MultiReader(bytes.NewReader(b.start), b.rest)
	large := b.rest != nil
	if b.start, b.rest = nil, nil; !large {
		return nil
	}
	if keep && b.bodies.Accepting() == nil {
		b.spooled, err = b.bodies.Spool(context.WithoutCancel(ctx), in)
	} else {
		sum := sha256.New()
		var n int64
		n, err = io.Copy(sum, in)
		b.spooled = schemas.Spooled{Name: hex.EncodeToString(sum.Sum(nil)), Size: int(n)}
	}
	c.Body, c.TextBody, c.Base64Body, c.BodyBlob, c.BodyBytes = nil, false, false, b.spooled.Name, b.spooled.Size
	return err
}

// commit is called before a call with this body is stored.
func (b *body) commit(tenant string) func(context.Context) error {
	if b.spooled.Name == "" {
		return nil
	}
	return func(ctx context.Context) error {
		s := b.spooled
		if b.spooled.Object = ""; s.Object == "" {
			return fault.ErrFull
		}
		return b.bodies.Commit(ctx, tenant, s)
	}
}

// discard drops what no call names. It may be called more than once.
func (b *body) discard(ctx context.Context) {
	if b.spooled.Object != "" {
		b.bodies.Discard(ctx, b.spooled)
		b.spooled.Object = ""
	}
}

// redrive completes a request that repeats a stored call. A body that is stored apart must live as long as
// the new action.
func (d *Handler) redrive(req *accept.Request, by grant.Caller) error {
	if err := executor.Redrive(d.cfg.Policy)(req, by); err != nil {
		return err
	}
	call, err := ingress.Payload[schemas.HTTPCall](req.Payload)
	if err != nil || call.BodyBlob == "" {
		return err
	}
	tenant := req.Tenant
	req.Commit = func(ctx context.Context) error {
		err := d.cfg.Bodies.Keep(ctx, tenant, call.BodyBlob)
		if errors.Is(err, fault.ErrNotFound) {
			return fault.New(schemas.StreamGone, "the body of the old action has been dropped; send a new request")
		}
		return err
	}
	return nil
}
