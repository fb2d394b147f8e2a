package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/ingress/session"
	"weir/internal/fault"
	"weir/internal/token"
	"weir/schemas"
)

// signIns are the sessions of the tokens.
type signIns struct{ *token.Keeper }

// SignIn is the keeper's, and says when to come back to who has asked too often.
func (s signIns) SignIn(ctx context.Context, text string) (value string, until time.Time, err error) {
	value, until, err = s.Keeper.SignIn(ctx, text)
	_, err = limited(schemas.Token{}, err)
	return value, until, err
}

// who is the token that a request comes with, or that the browser is signed in with.
func (a *App) who(r *http.Request) (schemas.Token, error) {
	value, ok := session.Of(r, a.baseURL())
	if !ok {
		return a.verify(r.Header.Values("Authorization"))
	}
	t, _, err := a.tokens.VerifySession(value)
	return limited(t, err)
}

// consoleSession says for whom a page of the console works. That it works for nobody yet is
// no error.
func (a *App) consoleSession(r *http.Request) (schemas.ConsoleSession, error) {
	if a.open() {
		return schemas.ConsoleSession{Mode: schemas.ConsoleOpen, SignedIn: true, Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}, nil
	}
	out := schemas.ConsoleSession{Mode: schemas.ConsoleTokens}
	value, ok := session.Of(r, a.baseURL())
	if !ok {
		return out, nil
	}
	t, until, err := a.tokens.VerifySession(value)
	var public *fault.Error
	if errors.As(err, &public) && public.Code == schemas.Unauthorized {
		return out, nil
	}
	if _, err = limited(t, err); err != nil {
		return out, err
	}
	out.SignedIn, out.Tenant, out.Name, out.Scopes, out.ExpiresAt = true, t.Tenant, t.Name, t.Scopes, until
	return out, nil
}
