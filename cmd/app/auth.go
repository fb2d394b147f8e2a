package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"weir/egress"
	"weir/ingress"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/token"
	"weir/schemas"
)

// openTokens opens the store of tokens, unless the node is open to everybody
// on this machine. Where the operator has no admin, it makes one.
func (a *App) openTokens(ctx context.Context) error {
	if a.cfg.Auth.Mode != config.AuthTokens {
		return nil
	}
	k := token.New(a.broker.Tokens(), token.Config{Rate: a.cfg.Auth.Rate, Streams: a.cfg.Auth.Streams, Logger: a.log})
	if err := k.Start(ctx); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	a.teardown.push(func(context.Context) error { k.Stop(); return nil })
	made, err := k.First(ctx, a.cfg.AdminTokenFile(), a.newAdmin)
	if err != nil {
		return fmt.Errorf("auth.admin_token_file: %w", err)
	}
	a.tokens, a.firstAdmin = k, made
	if made {
		a.log.LogAttrs(ctx, slog.LevelInfo, "first admin token made")
	}
	return nil
}

// authenticate says who sent a request, and counts it against that one's rate.
// In open mode everybody is the default tenant and an admin.
func (a *App) authenticate(r *http.Request) (ingress.Identity, error) {
	if a.tokens == nil {
		return ingress.Identity{Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}, nil
	}
	t, err := a.tokens.Verify(r.Header.Values("Authorization"))
	if limited, ok := errors.AsType[*token.LimitedError](err); ok {
		err = &problem.Error{
			Problem:    schemas.Problem{Code: schemas.RateLimited, Detail: "this token has sent too many requests; wait as long as Retry-After says"},
			RetryAfter: limited.Wait,
		}
	}
	if err != nil {
		return ingress.Identity{}, err
	}
	return ingress.Identity{Tenant: t.Tenant, Scopes: t.Scopes, ID: t.ID, Name: t.Name, Entries: t.Entries, ExpiresAt: t.ExpiresAt}, nil
}

// reader says who sent a request that reads. With no scope any token will do.
func (a *App) reader(r *http.Request, scope string) (egress.Reader, error) {
	who, err := a.authenticate(r)
	if err == nil && scope != "" {
		err = fault.Scope(who.Scopes, scope)
	}
	return egress.Reader{Tenant: who.Tenant, Entries: who.Entries, Scopes: who.Scopes}, err
}

// allow lets whoever has the scope see what the node says about itself. An
// admin's word about the node counts only in the operator's tenant.
func (a *App) allow(r *http.Request, scope string) error {
	who, err := a.reader(r, scope)
	if err == nil && scope == schemas.ScopeAdmin {
		return fault.Operator(who.Tenant, "see this")
	}
	return err
}

// watch lets a request hold an event stream open, for as long as its token is
// in force.
func (a *App) watch(r *http.Request) (context.Context, func(), error) {
	if a.tokens == nil {
		return r.Context(), func() {}, nil
	}
	return a.tokens.Stream(r.Context(), r.Header.Values("Authorization"))
}

// listTokens lists a tenant's; an open node has none.
func (a *App) listTokens() func(context.Context, string, string, int) (schemas.Page[schemas.Token], error) {
	if a.tokens == nil {
		return nil
	}
	return func(_ context.Context, tenant, cursor string, limit int) (schemas.Page[schemas.Token], error) {
		return a.tokens.List(tenant, cursor, limit)
	}
}

// issuer makes and revokes tokens; an open node has none.
func (a *App) issuer() ingress.Issuer {
	if a.tokens == nil {
		return nil
	}
	return issuer{a.tokens}
}

type issuer struct{ keeper *token.Keeper }

func (i issuer) Create(ctx context.Context, by ingress.Identity, req schemas.TokenRequest) (schemas.NewToken, error) {
	return i.keeper.Create(ctx, holder(by), req)
}

func (i issuer) Revoke(ctx context.Context, by ingress.Identity, id string) (schemas.Token, error) {
	return i.keeper.Revoke(ctx, holder(by), id)
}

func holder(who ingress.Identity) schemas.Token {
	return schemas.Token{ID: who.ID, Tenant: who.Tenant, Entries: who.Entries, ExpiresAt: who.ExpiresAt}
}
