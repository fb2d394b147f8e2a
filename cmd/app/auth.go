package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"weir/egress"
	"weir/ingress"
	"weir/ingress/passthrough"
	"weir/ingress/session"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/token"
	"weir/schemas"
)

// openTokens opens the store of tokens. If the operator has no admin token, it makes one, unless
// the node is in open mode: then only agents and git need tokens.
func (a *App) openTokens(ctx context.Context) error {
	k := token.New(a.broker.Bucket(schemas.TokenBucket), token.Config{Rate: a.cfg.Auth.Rate, Streams: a.cfg.Auth.Streams, Reads: !a.role.accepts(), Logger: a.log})
	if err := k.Start(ctx); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	a.teardown.push(func(context.Context) error { k.Stop(); return nil })
	a.tokens = k
	switch {
	case a.open():
		return nil
	case a.role.accepts() && a.cfg.AdminTokenFile() != "":
		return a.makeAdmin(ctx)
	case !k.Administered():
		// One of those that were started with this one may be about to make it.
		a.log.LogAttrs(ctx, slog.LevelWarn, "admin_token_missing")
		a.notice("there is no admin token yet, and this node makes none: an ingress or `weir serve` on this log that has auth.admin_token_file writes the first one there when it starts")
	}
	return nil
}

// makeAdmin makes the first admin token, or another one on request.
func (a *App) makeAdmin(ctx context.Context) error {
	made, err := a.tokens.First(ctx, a.cfg.AdminTokenFile(), a.opts.NewAdmin)
	if err != nil {
		return fmt.Errorf("auth.admin_token_file: %w", err)
	}
	a.firstAdmin = made
	if made {
		a.log.LogAttrs(ctx, slog.LevelInfo, "admin_token_created")
	}
	return nil
}

// open reports whether all requests from this machine are allowed without a token.
func (a *App) open() bool { return a.cfg.Auth.Mode != config.AuthTokens }

// authenticate identifies the sender of a request, and counts the request against its rate. In open
// mode every sender is the default tenant and an admin.
func (a *App) authenticate(r *http.Request) (ingress.Identity, error) {
	if a.open() {
		return everyone(), nil
	}
	t, err := a.verify(a.credential(r))
	if err != nil {
		return ingress.Identity{}, err
	}
	return ingress.Identity{Token: t}, nil
}

// everyone is every sender in open mode.
func everyone() ingress.Identity {
	return ingress.Identity{Token: schemas.Token{Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}}
}

// verify finds the token of a credential, open mode or not.
func (a *App) verify(c token.Credential) (schemas.Token, error) {
	t, _, err := a.tokens.Verify(c)
	return t, limited(err)
}

// known reports whether a request has a valid token, in any of the places where passthrough reads
// one. It counts no request.
func (a *App) known(r *http.Request) bool { return a.inForce(r.Context(), passthrough.Token(r.Header)) }

// inForce reports whether a token of the registry or of a task is valid.
func (a *App) inForce(ctx context.Context, text string) bool {
	if task.Is(text) {
		return a.taskService != nil && a.taskService.Knows(ctx, text)
	}
	return text != "" && a.tokens.Known(token.Bearer("Bearer "+text))
}

// limited returns the Retry-After for a client that has sent too many requests.
func limited(err error) error {
	if limited, ok := errors.AsType[*token.LimitedError](err); ok {
		err = &problem.Error{
			Problem:    schemas.Problem{Code: schemas.RateLimited, Detail: "this token has sent too many requests; wait as long as Retry-After says"},
			RetryAfter: limited.Wait,
		}
	}
	return err
}

// reader returns the sender of a request that reads. Without scopes every token suffices.
func (a *App) reader(r *http.Request, scope string) (egress.Reader, error) {
	who, err := a.authenticate(r)
	if err == nil && scope != "" {
		err = fault.Scope(who.Scopes, scope)
	}
	return egress.Reader{Tenant: who.Tenant, Entries: who.Entries, Scopes: who.Scopes, Models: who.Models, ID: who.ID}, err
}

// allow lets a token with the scope read the node's reports about itself. The token must belong to
// the operator's tenant.
func (a *App) allow(r *http.Request, scope string) error {
	who, err := a.reader(r, scope)
	if err == nil {
		return fault.Operator(who.Tenant, "see this")
	}
	return err
}

// watch permits an event stream for a request, for as long as its token is in force. The streams of
// a task's holders end with their actions.
func (a *App) watch(r *http.Request) (context.Context, func(), error) {
	if watch := a.surfaces.slots.Watch(r); watch != nil {
		return watch(r)
	}
	if a.open() {
		return r.Context(), func() {}, nil
	}
	return a.tokens.Stream(r.Context(), a.credential(r))
}

// listTokens lists a tenant's.
func (a *App) listTokens(_ context.Context, tenant, cursor string, limit int) (schemas.Page[schemas.Token], error) {
	return a.tokens.List(tenant, cursor, limit)
}

// signIns are the sessions of the tokens.
type signIns struct{ *token.Keeper }

// SignIn is the keeper's, with a Retry-After for a client that has sent too many requests.
func (s signIns) SignIn(ctx context.Context, text string) (value string, until time.Time, err error) {
	value, until, err = s.Keeper.SignIn(ctx, text)
	return value, until, limited(err)
}

// credential is that of a request, or of the session that its browser has.
func (a *App) credential(r *http.Request) token.Credential {
	if value, ok := session.Of(r, a.baseURL()); ok {
		return token.Session(value)
	}
	return token.Bearer(r.Header.Values("Authorization")...)
}

// consoleSession is the session of a console page. A page without a session is no error.
func (a *App) consoleSession(r *http.Request) (schemas.ConsoleSession, error) {
	if a.open() {
		return schemas.ConsoleSession{Mode: schemas.ConsoleOpen, SignedIn: true, Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}, nil
	}
	out := schemas.ConsoleSession{Mode: schemas.ConsoleTokens}
	value, ok := session.Of(r, a.baseURL())
	if !ok {
		return out, nil
	}
	t, until, err := a.tokens.Verify(token.Session(value))
	var public *fault.Error
	if errors.As(err, &public) && public.Code == schemas.Unauthorized {
		return out, nil
	}
	if err = limited(err); err != nil {
		return out, err
	}
	out.SignedIn, out.Tenant, out.Name, out.Scopes, out.ExpiresAt = true, t.Tenant, t.Name, t.Scopes, until
	return out, nil
}
