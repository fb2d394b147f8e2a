package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"weir/cmd/cli"
	"weir/egress"
	"weir/ingress"
	"weir/ingress/passthrough"
	"weir/ingress/proxy"
	"weir/ingress/session"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/outbound"
	"weir/internal/task"
	"weir/internal/token"
	"weir/processors/tunnel"
	"weir/schemas"
)

// openTokens opens the store of tokens. If the operator has no admin token, it makes one, unless
// the node is in open mode: then only agents and git need tokens.
func (a *App) openTokens(ctx context.Context) error {
	a.tokens = token.New(a.broker.Bucket(schemas.TokenBucket), token.Config{Rate: a.cfg.Auth.Rate, Streams: a.cfg.Auth.Streams, Reads: !a.role.accepts(), Logger: a.log})
	if err := a.startPart(ctx, "tokens", a.tokens); err != nil {
		return err
	}
	switch {
	case a.cfg.Open():
		return nil
	case a.role.accepts() && a.cfg.AdminTokenFile() != "":
		return a.makeAdmin(ctx)
	case !a.tokens.Administered():
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

// authenticate identifies the sender of a request, and counts the request against its rate. In open
// mode every sender is the default tenant and an admin.
func (a *App) authenticate(r *http.Request) (ingress.Identity, error) {
	if a.cfg.Open() {
		return everyone(), nil
	}
	if text, _ := githttp.BearerToken(r.Header.Values("Authorization"), false); task.Is(text) { // in force or not: nothing is looked up
		return ingress.Identity{}, fault.New(schemas.Forbidden, "a task's token opens the routes of agents, /v1/execute, /v1/batch, "+
			"/via, the proxy, models, git and the actions that it has sent; use another token here")
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
	return t, err
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

// reader returns the sender of a request that reads. Without scopes every token suffices.
func (a *App) reader(r *http.Request, scope string) (egress.Reader, error) {
	who, err := a.authenticate(r)
	if err == nil && scope != "" {
		err = fault.Scope(who.Scopes, scope)
	}
	return egress.Reader{Token: who.Token}, err
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
	if a.cfg.Open() {
		return r.Context(), func() {}, nil
	}
	return a.tokens.Stream(r.Context(), a.credential(r))
}

// credential is the token of a request, or the session of its browser.
func (a *App) credential(r *http.Request) token.Credential {
	if value, ok := session.Of(r, a.baseURL()); ok {
		return token.Session(value)
	}
	return token.Bearer(r.Header.Values("Authorization")...)
}

// consoleSession is the session of a console page. A page without a session is no error.
func (a *App) consoleSession(r *http.Request) (schemas.ConsoleSession, error) {
	if a.cfg.Open() {
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
	if err != nil {
		return out, err
	}
	out.SignedIn, out.Tenant, out.Name, out.Scopes, out.ExpiresAt = true, t.Tenant, t.Name, t.Scopes, until
	return out, nil
}

// listenProxy opens the address of the forward proxy, if there is one.
func (a *App) listenProxy(ctx context.Context) error {
	at := a.cfg.Proxy.Listen
	if at == "" {
		return nil
	}
	if a.role != RoleAll {
		return cli.Usage(fmt.Errorf("proxy.listen: the proxy needs ingress and worker in one process; run it with `weir serve`, and remove it for `weir %s`", a.role))
	}
	server, err := a.listenAt(ctx, at)
	if err != nil {
		return fmt.Errorf("proxy.listen: %w; choose another address with --proxy-listen", err)
	}
	a.proxy = server
	if p := a.cfg.Proxy; p.CACert != "" {
		ca, err := proxy.LoadCA(p.CACert, p.CAKey, time.Now())
		if err != nil {
			return cli.Usage(err)
		}
		a.inspector = proxy.NewInspector(ca)
		a.inspected = a.newServer(a.inspector)
		a.inspected.server.ConnContext = a.inspector.Context
	}
	return nil
}

// ProxyURL is where the forward proxy is; empty: there is none.
func (a *App) ProxyURL() string {
	if a.proxy == nil {
		return ""
	}
	return "http://" + a.proxy.addr()
}

// openTunnels makes the tunnels of the proxy. They dial with the client of the workers.
func (a *App) openTunnels(client *outbound.Client) {
	if a.proxy == nil {
		return
	}
	p := a.cfg.Proxy
	cfg := tunnel.Config{
		Idle: p.Idle, Longest: p.Longest, Most: p.Tunnels, MostOfOne: p.TunnelsPerToken,
		Barrier: a.broker.Barrier, Destinations: a.destinations, Metrics: a.metrics, Logger: a.log,
	}
	if a.cfg.Open() {
		cfg.MostOfOne = cfg.Most
	}
	a.tunnels = tunnel.New(a.guard, client, a.recorder, cfg)
}

// openProxy makes what serves the requests of the proxy, and those in inspected tunnels.
func (a *App) openProxy() {
	if a.proxy == nil {
		return
	}
	cfg := proxy.Config{
		Authenticate: a.sender, While: a.whileToken, Open: a.openTunnel, Serve: a.surfaces.passthrough.Serve,
		Hint: func(who ingress.Identity, authority string) string {
			return a.Explain(schemas.HTTPCall{Method: http.MethodConnect, URL: authority}, who.Entries).Remedy
		},
	}
	if a.inspected != nil {
		cfg.Inspector = a.inspector
		a.inspected.surfaces = a.proxyEngine(a.inspector.Surface(cfg.Serve))
	}
	a.proxy.surfaces = a.proxyEngine(cfg.Surface())
}

// openTunnel opens a tunnel for the proxy.
func (a *App) openTunnel(ctx context.Context, who ingress.Identity, authority string) (proxy.Tunnel, error) {
	caller := tunnel.Caller{Tenant: who.Tenant, Principal: who.ID, Task: who.Task(), Entries: who.Entries}
	x, err := a.tunnels.Open(ctx, caller, authority)
	if err != nil {
		return proxy.Tunnel{}, err
	}
	t := proxy.Tunnel{Host: x.Host(), Authority: x.Authority(), Carry: x.Carry, Close: func() { x.Close(schemas.TunnelFailed) }} //nolint:contextcheck // the tunnel has its own
	if x.Inspected() {
		t.Inspect = x.Inspect
	}
	return t, nil
}

func (a *App) proxyEngine(s *ingress.Surface) http.Handler {
	return ingress.NewEngine(ingress.EngineConfig{
		Logger: a.log, Metrics: a.metrics, Local: a.cfg.Open(), Known: a.knownToProxy, Proxy: s,
	})
}

// startProxy serves the proxy, and the requests in its tunnels.
func (a *App) startProxy() {
	for _, h := range []*httpServer{a.inspected, a.proxy} {
		if h != nil {
			h.front.set(h.surfaces)
			a.serve(h)
		}
	}
}

// shutdown has the servers take no more requests and waits for those in progress. Tunnels are cut: their
// clients connect again elsewhere.
func (a *App) shutdown(ctx context.Context) error {
	if a.proxy == nil {
		return a.http.server.Shutdown(ctx)
	}
	others := make(chan error, 1)
	go func() {
		err := errors.Join(a.tunnels.Stop(ctx), a.proxy.server.Shutdown(ctx))
		if a.inspected != nil {
			err = errors.Join(err, a.inspected.server.Shutdown(ctx))
		}
		others <- err
	}()
	return errors.Join(a.http.server.Shutdown(ctx), <-others)
}

// sender returns the sender of a call with a token of the registry or of a task, and counts the
// request.
func (a *App) sender(ctx context.Context, text string) (ingress.Identity, error) {
	if task.Is(text) {
		v, err := a.taskService.Send(ctx, text)
		a.keepLease(ctx, v)
		return v.Identity(), err
	}
	if a.cfg.Open() {
		return everyone(), nil
	}
	t, err := a.verify(token.Bearer("Bearer " + text))
	return ingress.Identity{Token: t}, err
}

// keepLease keeps the lease of a request's sender while the request, or its tunnel, lasts.
func (a *App) keepLease(ctx context.Context, v tasks.Access) {
	release := a.taskService.Hold(task.Grant{Tenant: v.Ref.Tenant, TaskID: v.Ref.ID, Lease: v.Lease}) //nolint:contextcheck // until ctx has ended
	context.AfterFunc(ctx, release)
}

// knownToProxy reports whether a request to the proxy has a token in force. It counts no request.
func (a *App) knownToProxy(r *http.Request) bool {
	return a.inForce(r.Context(), proxy.Token(r.Header.Values("Proxy-Authorization")))
}

// whileToken returns a context that ends with a token, whether it is a task's or not.
func (a *App) whileToken(ctx context.Context, text string) (context.Context, func(), error) {
	switch {
	case !task.Is(text) && a.cfg.Open():
		return ctx, func() {}, nil
	case !task.Is(text):
		return a.tokens.While(ctx, token.Bearer("Bearer "+text))
	}
	t, _ := task.Parse(text) // one that cannot be read is refused below
	lost, forget := a.activeTasks.Lost(t)
	ctx, cancel := context.WithCancel(ctx)
	release := func() { cancel(); forget() }
	v, err := a.taskService.Look(ctx, text)
	if err != nil { // after the cache: it may have ended before
		release()
		return ctx, nil, err
	}
	if until := v.Identity().ExpiresAt; !until.IsZero() {
		stop := time.AfterFunc(time.Until(until), cancel)
		context.AfterFunc(ctx, func() { stop.Stop() })
	}
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, release, nil
}
