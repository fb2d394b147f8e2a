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
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
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
	return ingress.EngineConfig{Logger: a.log, Metrics: a.metrics, Surfaces: s.in, Local: a.cfg.Auth.Mode == config.AuthOpen}
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
		Refused: func(why wire.Reason) { a.metrics.ConnectionRefused(string(why)) },
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
