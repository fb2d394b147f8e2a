package tasks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

func (h handlers) createRepo(c *gin.Context) error {
	if err := accept.AtOnce(c.Request.Header); err != nil {
		return err
	}
	req, err := h.newRepo(c)
	if err != nil {
		return err
	}
	return h.server.Submit(c, req, nil)
}

// newRepo reads the making of a repository. A name that is taken can be the one that
// an earlier request of this kind has made, so that it may still be joined.
func (h handlers) newRepo(c *gin.Context) (req accept.Request, err error) {
	key, err := accept.Key(c.Request.Header.Values("Idempotency-Key"))
	if err != nil {
		return req, err
	}
	body, err := h.server.Read(c)
	if err != nil {
		return req, err
	}
	who := ingress.Caller(c)
	id, order, err := ReadRepo(body)
	if err == nil {
		err = grant.Entry(order.AllowlistKey, who.Entries)
	}
	if err != nil {
		return req, err
	}
	payload, err := ledger.Encode(order)
	if err != nil {
		return req, err
	}
	refusal := h.nameFree(c.Request.Context(), who.Tenant, order.Name)
	if refusal == nil && order.UpstreamURL == "" {
		refusal = h.Hosts()
	}
	return accept.Request{
		Name:    accept.NameOf(who.Tenant, schemas.RouteRepos, id, key),
		Action:  schemas.Action{Tenant: who.Tenant, Kind: schemas.KindRepo, Payload: payload, Principal: who.ID, Entries: who.Entries},
		Refusal: refusal, Denied: h.repoDenied(who, order),
	}, nil
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
	decision, _ := h.Policy(who.Asks(schemas.KindRepo, "")).Evaluate(schemas.HTTPCall{
		Method: http.MethodGet, URL: upstream + "/info/refs?service=" + schemas.GitUploadPack, AllowlistKey: order.AllowlistKey,
	})
	return !decision.Allowed
}

// The longest of what names an upstream, in characters.
const (
	maxURL = 2048
	maxKey = 128
)

// ReadRepo reads a checked body of POST /v1/repos. Whether its URL may be called is
// not looked into. Its errors are those of Read.
func ReadRepo(body []byte) (id string, order schemas.RepoOrder, err error) {
	var doc schemas.RepoRequest
	if err := strict.Decode(body, &doc); err != nil {
		return "", order, err
	}
	order = schemas.RepoOrder{
		Name: doc.Name, ImportURL: doc.ImportURL, UpstreamURL: doc.UpstreamURL,
		DefaultBranch: doc.DefaultBranch, AllowlistKey: doc.AllowlistKey,
	}
	const form = "must be an absolute http or https URL without user, query and fragment; credentials are the policy entry's"
	for _, m := range []struct {
		name string
		ok   bool
		what string
	}{
		{"request_id", doc.RequestID == "" || schemas.ValidID(doc.RequestID), idForm},
		{"name", doc.Name != "", "is missing; name the repository"},
		{"name", schemas.ValidRepoName(doc.Name), "must be 1 to 100 of the characters a-z 0-9 . _ -, begin with a letter or a digit, and have neither .. nor .git or .lock at its end"},
		{"upstream_url", doc.ImportURL == "" || doc.UpstreamURL == "", "cannot be combined with import_url: a repository is either copied here or stays upstream"},
		{"import_url", doc.ImportURL == "" || validURL(doc.ImportURL), form},
		{"upstream_url", doc.UpstreamURL == "" || validURL(doc.UpstreamURL), form},
		{"default_branch", doc.DefaultBranch == "" || validBranch(doc.DefaultBranch), "must be the name of a branch, without refs/heads/"},
		{"allowlist_key", utf8.RuneCountInString(doc.AllowlistKey) <= maxKey, "must be at most 128 characters"},
		{"allowlist_key", doc.AllowlistKey == "" || Upstream(order) != "", "goes with import_url or upstream_url alone"},
	} {
		if !m.ok {
			return "", schemas.RepoOrder{}, refuse(m.name, m.what)
		}
	}
	return doc.RequestID, order, nil
}

// Upstream is the URL that the making of a repository calls; empty: none.
func Upstream(order schemas.RepoOrder) string {
	if order.ImportURL != "" {
		return order.ImportURL
	}
	return order.UpstreamURL
}

func validURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && utf8.RuneCountInString(text) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") &&
		u.Hostname() != "" && u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && u.Opaque == ""
}
