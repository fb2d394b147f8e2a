package ingress

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress/strict"
	"weir/schemas"
)

// Issuer makes and revokes tokens. by is an admin; what it may give away, and
// whose tokens it may see, is for the Issuer to say.
type Issuer interface {
	Create(ctx context.Context, by Identity, req schemas.TokenRequest) (schemas.NewToken, error)
	Revoke(ctx context.Context, by Identity, id string) (schemas.Token, error)
}

func (in *Room) mountTokens(e *gin.Engine) {
	if in.cfg.Issuer == nil {
		return
	}
	may := in.authorize(schemas.ScopeAdmin)
	e.POST("/v1/tokens", surface("tokens", ""), may, in.createToken)
	e.POST("/v1/tokens/:id/revoke", surface("tokens", ""), may, in.revokeToken)
}

// createToken is not repeatable: each answer holds another secret.
func (in *Room) createToken(c *gin.Context) {
	body, err := in.read(c.Writer, c.Request)
	if err != nil {
		in.fail(c, err)
		return
	}
	var req schemas.TokenRequest
	if err := strict.Decode(body, &req); err != nil {
		in.fail(c, err)
		return
	}
	made, err := in.cfg.Issuer.Create(c.Request.Context(), identity(c), req)
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, http.StatusCreated, made)
}

func (in *Room) revokeToken(c *gin.Context) {
	if err := in.readNothing(c.Writer, c.Request); err != nil {
		in.fail(c, err)
		return
	}
	t, err := in.cfg.Issuer.Revoke(c.Request.Context(), identity(c), c.Param("id"))
	if err != nil {
		in.fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, t)
}
