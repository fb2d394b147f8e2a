package ingress

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress/session"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// Sessions are how browsers are signed in.
type Sessions interface {
	// SignIn makes a session of a token; what it returns is the browser's alone.
	SignIn(ctx context.Context, token string) (value string, until time.Time, err error)
	// SignOut ends one; one that has ended is no error.
	SignOut(ctx context.Context, value string) error
}

func (in *Room) mountSessions(e *gin.Engine) {
	if in.cfg.Sessions == nil {
		return
	}
	e.POST(schemas.RouteConsoleSession, surface("console", ""), in.ownPage, in.signIn)
	e.DELETE(schemas.RouteConsoleSession, surface("console", ""), in.ownPage, in.signOut)
}

// ownPage refuses what no page of the console sends: a page of somebody else could sign a
// browser in as that somebody, or out.
func (in *Room) ownPage(c *gin.Context) {
	if !session.Own(c.Request, in.cfg.PublicURL()) {
		in.fail(c, fault.New(schemas.Forbidden, "this is for the pages of the console"))
	}
}

func (in *Room) signIn(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	var req struct {
		Token string `json:"token"`
	}
	if err == nil {
		err = strict.Decode(body, &req)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	value, until, err := in.cfg.Sessions.SignIn(c.Request.Context(), req.Token)
	if err != nil {
		in.fail(c, err)
		return
	}
	session.Set(c.Writer, in.cfg.PublicURL(), value, until)
	writeJSON(c, http.StatusOK, schemas.ConsoleSession{Mode: schemas.ConsoleTokens, SignedIn: true, ExpiresAt: until})
}

func (in *Room) signOut(c *gin.Context) {
	err := in.readNothing(c.Writer, c.Request)
	if value, ok := session.Of(c.Request, in.cfg.PublicURL()); ok && err == nil {
		err = in.cfg.Sessions.SignOut(c.Request.Context(), value)
	}
	if err != nil {
		in.fail(c, err)
		return
	}
	session.Clear(c.Writer, in.cfg.PublicURL())
	writeJSON(c, http.StatusOK, schemas.ConsoleSession{Mode: schemas.ConsoleTokens})
}
