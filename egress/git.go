package egress

import (
	"errors"

	"github.com/gin-gonic/gin"

	"weir/egress/git"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/schemas"
)

// mountGit registers what git's clients read. They push through ingress.
func (e *Room) mountGit(engine *gin.Engine) {
	if e.cfg.Git == nil {
		return
	}
	door := git.New(*e.cfg.Git)
	repo := schemas.RouteGit + "/:repo/"
	engine.GET(repo+"info/refs", func(c *gin.Context) { door.Refs(c.Writer, c.Request, c.Param("repo")) })
	engine.POST(repo+schemas.GitUploadPack, func(c *gin.Context) { door.Fetch(c.Writer, c.Request, c.Param("repo")) })
}

// errPush is what a push is answered whose end this node could not wait for.
func errPush(err error) error {
	if errors.Is(err, stream.ErrClosed) {
		return fault.New(schemas.Unavailable, "the node is stopping, and whether the branch was updated is not known yet; look at it with git ls-remote, and push again if it was not")
	}
	return err
}
