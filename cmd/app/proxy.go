package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"weir/cmd/cli"
	"weir/ingress"
	"weir/ingress/proxy"
	"weir/internal/outbound"
	"weir/internal/task"
	"weir/internal/token"
	"weir/processors/tunnel"
	"weir/schemas"
)

// listenProxy opens the address of the forward proxy, if there is one.
func (a *App) listenProxy(ctx context.Context) error {
	at := a.cfg.Proxy.Listen
	if at == "" {
		return nil
	}
	if a.role != RoleAll {
		return cli.Usage(fmt.Errorf("proxy.listen: the proxy needs ingress and worker in one process; run it with `weir serve`, and remove it for `weir %s`", a.role))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, family(at), at)
	if err != nil {
		return fmt.Errorf("proxy.listen: %w; choose another address with --proxy-listen", err)
	}
	a.proxy = a.newServer(l)
	a.teardown.push(func(context.Context) error { return ignoreClosed(l.Close()) })
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
	if a.open() {
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
		Logger: a.log, Metrics: a.metrics, Local: a.open(), Known: a.knownToProxy, Proxy: s,
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
		return v.Identity(), err
	}
	if a.open() {
		return everyone(), nil
	}
	t, err := a.verify(token.Bearer("Bearer " + text))
	return ingress.Identity{Token: t}, err
}

// knownToProxy reports whether a request to the proxy has a token in force. It counts no request.
func (a *App) knownToProxy(r *http.Request) bool {
	return a.inForce(r.Context(), proxy.Token(r.Header.Values("Proxy-Authorization")))
}

// whileToken returns a context that ends with a token, whether it is a task's or not.
func (a *App) whileToken(ctx context.Context, text string) (context.Context, func(), error) {
	switch {
	case !task.Is(text) && a.open():
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
