package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"weir/egress"
	"weir/ingress"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/telemetry"
	"weir/internal/wire"
	"weir/schemas"
)

// httpServer is the HTTP server and its listener.
type httpServer struct {
	listener net.Listener
	server   *http.Server
	surfaces http.Handler // the surfaces, served once the log is ready
	front    front
	done     chan struct{} // closed when it stops serving; nil: it was not started
}

// front is the handler in use. It is exchanged while requests are served.
type front struct{ now atomic.Pointer[http.Handler] }

func (f *front) set(h http.Handler) { f.now.Store(&h) }

// ServeHTTP marks the connection of a request as answering; idle marks the end of the answer.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wire.Begin(r.Context())
	if h := f.now.Load(); h != nil {
		(*h).ServeHTTP(w, r)
	}
	if wire.Dropped(r.Context()) {
		panic(http.ErrAbortHandler) // the client seems to be gone; see wire.Drop
	}
}

// The server's timeouts. A body has a deadline of its own, and every piece of an
// answer another, see wire.Config.Stall: one deadline for the whole of either
// would end the wait for an action.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 60 * time.Second
)

// newServer is the server on a listener, which serves nothing yet.
func (a *App) newServer(l net.Listener) *httpServer {
	h := &httpServer{listener: l}
	h.server = &http.Server{
		Handler:           &h.front,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    int(a.cfg.Limits.Headers),
		ConnContext:       wire.Context,
		ConnState:         idle,
		Protocols:         http1(),
		// OPTIONS * is handled like every other request.
		DisableGeneralOptionsHandler: true,
		// The messages of net/http about a connection may contain what a client sent.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return h
}

func (a *App) engineConfig(s *surfaces) ingress.EngineConfig {
	return ingress.EngineConfig{Logger: a.log, Metrics: a.metrics, Surfaces: s.in, Local: a.cfg.Open()}
}

// openHTTP mounts the routes of the role, and answers 421 at the others with where they are served.
func (a *App) openHTTP(context.Context) error {
	cfg := a.engineConfig(a.surfaces)
	cfg.Known = a.known
	engine := ingress.NewEngine(cfg)
	engine.Use(a.trace)
	if a.role.accepts() {
		a.ingress.Mount(engine, a.surfaces.in) //nolint:contextcheck // requests bring their own
	}
	if a.role.shows() {
		egress.Mount(engine, a.surfaces.out) //nolint:contextcheck // requests bring their own
	}
	egress.Mount(engine, []egress.Surface{a.service()}) //nolint:contextcheck // requests bring their own
	if a.role != RoleAll {
		a.surfaces.misdirected(engine) //nolint:contextcheck // requests bring their own
	}
	a.http.surfaces = engine
	a.openProxy()
	return nil
}

// descriptions are surfaces without working servers, used for their routes, error formats and
// executors.
func (a *App) descriptions() *surfaces { return a.allSurfaces(new(ingress.Server), new(egress.Server)) }

// misdirected answers 421 at the routes that this role does not serve.
func (s *surfaces) misdirected(engine *gin.Engine) {
	const orServe = "`, or `weir serve`, on the same log"
	for role, of := range map[Role][]ingress.Surface{RoleIngress: s.in, RoleEgress: s.reads()} {
		for _, one := range of {
			where := "a node that runs `weir " + string(role) + orServe
			if one.Name == "git" { // a push is worked on by the process that takes it
				where = "a node that runs `weir serve` on the same log"
			}
			ingress.Misdirected(engine, one, where)
		}
	}
}

func idle(c net.Conn, s http.ConnState) {
	if s == http.StateIdle {
		wire.End(c)
	}
}

// http1 leaves HTTP/2 off, with prior knowledge too.
func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// guarded is the listener as the server gets it. Limits of connections that the
// system's own on open files would not carry are lowered: the log and the
// outbound calls need files as well.
func (a *App) guarded(l net.Listener) net.Listener {
	total := a.cfg.Limits.Connections
	if files, ok := openFiles(); ok {
		total = int(min(uint64(total), files/4*3)) //nolint:gosec // not above total
	}
	return wire.Wrap(l, wire.Config{
		Connections: total,
		PerPeer:     min(a.cfg.Limits.ConnectionsPerPeer, max(1, total/4*3)),
		Answer: func(code schemas.Code) []byte {
			a.metrics.Refused(code)
			return unread(code)
		},
		Refused: a.metrics.ConnectionRefused,
	})
}

// unread is the answer to a request that no handler saw, because it cannot be
// read as one.
func unread(code schemas.Code) []byte {
	text := "the request is not well-formed HTTP/1.1"
	switch code {
	case schemas.HeadersTooLarge:
		text = "the request line and the headers are larger than the limit"
	case schemas.URITooLong:
		text = ingress.TargetTooLong
	case schemas.RequestTimeout:
		text = "the headers did not end in time; send the request again"
	default:
	}
	p := problem.Of(fault.New(code, text))
	body, err := ledger.Encode(p.Problem)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	_ = (&http.Response{
		StatusCode: p.Status, ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{
			"Content-Type": {problem.MediaType}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
			"Date": {time.Now().UTC().Format(http.TimeFormat)},
		},
	}).Write(&b) // to a buffer: cannot fail
	return b.Bytes()
}

// serve starts a server. It may be called again.
func (a *App) serve(h *httpServer) {
	if h.done != nil {
		return
	}
	h.done = make(chan struct{})
	go func() {
		defer close(h.done)
		if err := h.server.Serve(a.guarded(h.listener)); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("server_ended")
		}
	}()
	a.teardown.push(func(context.Context) error {
		err := h.server.Close()
		<-h.done
		return err
	})
}

// startHTTP serves the surfaces. The teardown accepts no more requests, lets the worker finish
// running calls, which answers their clients, and disconnects the other waiting clients.
func (a *App) startHTTP() {
	h := a.http
	h.front.set(h.surfaces)
	a.serve(h)
	a.teardown.push(func(ctx context.Context) error {
		if f := a.feed; f != nil {
			f.EndStreams()
		}
		shut := make(chan error, 1)
		go func() { shut <- a.shutdown(ctx) }()
		var err error
		if a.work.worker != nil {
			err = a.work.worker.Stop()
		}
		if f := a.feed; f != nil {
			f.EndWaits()
		}
		if late := <-shut; late != nil {
			err = errors.Join(err, late, h.server.Close())
		}
		<-h.done
		return err
	})
}

func (h *httpServer) addr() string { return h.listener.Addr().String() }

// baseURL is where others reach this node.
func (a *App) baseURL() string { return a.cfg.BaseURL(a.http.addr()) }

// awaitPause is how long a node waits before it looks for its log again.
const awaitPause = 500 * time.Millisecond

// waitRetry is the Retry-After of a node that has no log yet.
const waitRetry = 2 * time.Second

// await opens the parts of the role on an external log, and tries again for as long as waiting may
// help: the log and its nodes may start in any order. Meanwhile the node reports that it is alive,
// and why it is not ready.
func (a *App) await(ctx context.Context) error {
	var why atomic.Pointer[string]
	say := func(text string) { why.Store(&text) }
	say("the log is being opened")
	a.http.front.set(a.waiting(func() string { return *why.Load() })) //nolint:contextcheck // requests bring their own
	a.serve(a.http)
	told := ""
	for {
		depth := a.teardown.depth()
		err := a.bringUp(ctx)
		if err == nil {
			return nil
		}
		if undone := a.teardown.unwindTo(context.WithoutCancel(ctx), depth); ctx.Err() != nil || !passes(err) {
			return errors.Join(err, undone)
		}
		say(reason(err))
		if text := err.Error(); text != told {
			told = text
			a.log.LogAttrs(ctx, slog.LevelWarn, "log_not_ready", slog.String("err_kind", telemetry.ErrKind(err)))
			a.notice("waiting for the log: " + text)
		}
		pause := time.NewTimer(awaitPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// bringUp opens the servers and starts the workers. If it fails, the stack of teardowns closes the
// opened parts.
func (a *App) bringUp(ctx context.Context) error {
	a.feed, a.index, a.ingress, a.egress, a.surfaces, a.work = nil, egress.Index{}, nil, nil, nil, workers{}
	if err := a.openServices(ctx); err != nil || !a.role.works() {
		return err
	}
	return a.startWork(ctx)
}

// passes reports whether an error may be over when the log is looked for again.
func passes(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrNotFound) || errors.Is(err, context.DeadlineExceeded)
}

// reason is why there is no log, in words that name no address.
func reason(err error) string {
	if errors.Is(err, fault.ErrNotFound) {
		return "the log is not there yet"
	}
	return "the log cannot be reached, or has no leader"
}

// waiting is what a node serves that has no log.
func (a *App) waiting(why func() string) http.Handler {
	cfg := a.engineConfig(a.descriptions())
	cfg.Otherwise = &fault.Error{
		Code: schemas.Unavailable, RetryAfter: waitRetry, Message: "this node waits for its log; try again, or ask another",
	}
	engine := ingress.NewEngine(cfg)
	egress.Mount(engine, []egress.Surface{egress.Waiting(func() schemas.Readiness {
		return schemas.Readiness{
			Role: string(a.role), Durability: a.cfg.Log.Durability, Replicas: a.copies(), Partitions: a.cfg.Log.Partitions,
			Checks: map[string]string{"log": "failed"}, Reasons: []string{why()},
		}
	})})
	return engine
}
