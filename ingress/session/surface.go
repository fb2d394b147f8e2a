package session

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

// Sessions sign browsers in and out.
type Sessions interface {
	// SignIn makes a session of a token; value is for the browser alone.
	SignIn(ctx context.Context, token string) (value string, until time.Time, err error)
	// SignOut ends one; one that has ended is no error.
	SignOut(ctx context.Context, value string) error
}

// Surface are the routes by which the console signs a browser in and out. public returns this
// node's URL as others know it, without a slash at its end.
func Surface(s *ingress.Server, sessions Sessions, public func() string) ingress.Surface {
	h := handlers{s, sessions, public}
	return ingress.Surface{Name: "console", Routes: []ingress.Route{
		ingress.Post(schemas.RouteConsoleSession, h.signIn),
		{Method: http.MethodDelete, Path: schemas.RouteConsoleSession, Handle: h.signOut},
	}}
}

type handlers struct {
	server   *ingress.Server
	sessions Sessions
	public   func() string
}

// own refuses what no page of the console sends: another page could sign a browser in as
// its own author, or out.
func (h handlers) own(c *gin.Context) error {
	if !Own(c.Request, h.public()) {
		return fault.New(schemas.Forbidden, "this is for the pages of the console")
	}
	return nil
}

func (h handlers) signIn(c *gin.Context) error {
	if err := h.own(c); err != nil {
		return err
	}
	var req struct {
		Token string `json:"token"`
	}
	if err := h.server.Decode(c, &req); err != nil {
		return err
	}
	value, until, err := h.sessions.SignIn(c.Request.Context(), req.Token)
	if err != nil {
		return err
	}
	Set(c.Writer, h.public(), value, until)
	ingress.WriteJSON(c, http.StatusOK, schemas.ConsoleSession{Mode: schemas.ConsoleTokens, SignedIn: true, ExpiresAt: until})
	return nil
}

func (h handlers) signOut(c *gin.Context) error {
	if err := h.own(c); err != nil {
		return err
	}
	if err := h.server.ReadNothing(c); err != nil {
		return err
	}
	if value, ok := Of(c.Request, h.public()); ok {
		if err := h.sessions.SignOut(c.Request.Context(), value); err != nil {
			return err
		}
	}
	Clear(c.Writer, h.public())
	ingress.WriteJSON(c, http.StatusOK, schemas.ConsoleSession{Mode: schemas.ConsoleTokens})
	return nil
}
