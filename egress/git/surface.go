package git

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/internal/fault"
	"weir/schemas"
)

// Surface are the routes by which git's clients read, and the view of kind push. They push
// through ingress. Without a configuration the routes are not served.
func Surface(cfg *Config) egress.Surface {
	door := New(Config{})
	if cfg != nil {
		door = New(*cfg)
	}
	repo := schemas.RouteGit + "/:repo/"
	return egress.Surface{
		Name: "git", Absent: cfg == nil,
		Routes: []egress.Route{
			{Method: http.MethodGet, Path: repo + "info/refs", Handle: func(c *gin.Context) error {
				door.Refs(c.Writer, c.Request, c.Param("repo"))
				return nil
			}},
			{Method: http.MethodPost, Path: repo + schemas.GitUploadPack, Handle: func(c *gin.Context) error {
				door.Fetch(c.Writer, c.Request, c.Param("repo"))
				return nil
			}},
		},
		Views: []egress.View{{
			Kind: schemas.KindPush, Reading: true,
			Stopping: fault.New(schemas.Unavailable, "the node is stopping, and whether the branch was updated is not known yet; look at it with git ls-remote, and push again if it was not"),
			Answer: func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
				Push(w, r, s, doc)
				return nil
			},
			Result: func(_ schemas.Ref, _ *schemas.Settled, doc json.RawMessage) json.RawMessage { return Result(doc) },
			Fail:   func(w http.ResponseWriter, r *http.Request, _ schemas.Ref, err error) { Refuse(w, r, err) },
		}},
	}
}
