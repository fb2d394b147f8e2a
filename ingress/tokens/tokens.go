// Package tokens makes and revokes tokens.
package tokens

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/schemas"
)

// Issuer makes and revokes tokens. by is an admin; the Issuer decides which permissions it may
// grant and which tokens it may see.
type Issuer interface {
	Create(ctx context.Context, by schemas.Token, req schemas.TokenRequest) (schemas.NewToken, error)
	Revoke(ctx context.Context, by schemas.Token, id string) (schemas.Token, error)
}

// Surface are the routes that make and revoke tokens. Making one is not repeatable: each answer
// holds another secret.
func Surface(s *ingress.Server, issuer Issuer) ingress.Surface {
	return ingress.Surface{Name: "tokens", Routes: []ingress.Route{
		ingress.Post("/v1/tokens", func(c *gin.Context) error {
			var req schemas.TokenRequest
			if err := s.Decode(c, &req); err != nil {
				return err
			}
			made, err := issuer.Create(c.Request.Context(), ingress.Caller(c).Token, req)
			if err != nil {
				return err
			}
			ingress.WriteJSON(c, http.StatusCreated, made)
			return nil
		}, schemas.ScopeAdmin),
		ingress.Post("/v1/tokens/:id/revoke", func(c *gin.Context) error {
			if err := s.ReadNothing(c); err != nil {
				return err
			}
			t, err := issuer.Revoke(c.Request.Context(), ingress.Caller(c).Token, c.Param("id"))
			if err != nil {
				return err
			}
			ingress.WriteJSON(c, http.StatusOK, t)
			return nil
		}, schemas.ScopeAdmin),
	}}
}
