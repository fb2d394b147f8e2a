package tasks

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// createRepo stores the making of a repository and answers with that.
func (h handlers) createRepo(c *gin.Context) error {
	if err := accept.AtOnce(c.Request.Header); err != nil {
		return err
	}
	req, denied, err := h.newRepo(c)
	if err != nil {
		return err
	}
	return h.server.Submit(c, req, denied)
}

// newRepo reads the making of a repository. A name that is taken can be the one that
// an earlier request of this kind has made, so that it may still be joined.
func (h handlers) newRepo(c *gin.Context) (req accept.Request, denied bool, err error) {
	key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
	if err != nil {
		return req, false, err
	}
	body, err := h.server.Read(c.Writer, c.Request)
	if err != nil {
		return req, false, err
	}
	who := ingress.Caller(c)
	id, order, err := ReadRepo(body)
	if err == nil {
		err = grant.Repo(order, who.Entries)
	}
	if err != nil {
		return req, false, err
	}
	payload, err := ledger.Encode(order)
	if err != nil {
		return req, false, err
	}
	refusal := h.nameFree(c.Request.Context(), who.Tenant, order.Name)
	if refusal == nil && order.UpstreamURL == "" {
		refusal = h.Hosts()
	}
	return accept.Request{
		Name: accept.NameOf(who.Tenant, schemas.RouteRepos, id, key), Tenant: who.Tenant, Kind: schemas.KindRepo,
		Payload: payload, Principal: who.ID, Entries: who.Entries, Refusal: refusal,
	}, h.repoDenied(who, order), nil
}

func (h handlers) nameFree(ctx context.Context, tenant, name string) error {
	_, err := h.Repos.Get(ctx, tenant, name)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return nil
	case err != nil:
		return unseen(err)
	default:
		return fault.New(schemas.Conflict, "at /name: there is a repository of this name already; choose another one")
	}
}

// repoDenied reports whether policy refuses already what git would ask the upstream
// first. The worker's word is the one that counts.
func (h handlers) repoDenied(who ingress.Identity, order schemas.RepoOrder) bool {
	upstream := Upstream(order)
	if upstream == "" {
		return false
	}
	decision, _ := h.Policy(who.Asks(schemas.KindRepo, "")).Judge(schemas.HTTPCall{
		Method: http.MethodGet, URL: upstream + "/info/refs?service=" + schemas.GitUploadPack, AllowlistKey: order.AllowlistKey,
	})
	return !decision.Allowed
}
