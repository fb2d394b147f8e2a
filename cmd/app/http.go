package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"weir/ingress"
)

// httpServer is the HTTP server and its listener.
type httpServer struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// The server's timeouts and limits. A body has a deadline of its own, and a
// stream one for each write.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 60 * time.Second
)

func (a *App) openHTTP(context.Context) error {
	engine := ingress.NewEngine(ingress.EngineConfig{Logger: a.log, Metrics: a.metrics, Local: true})
	a.newIngress().Mount(engine)
	a.egress.room.Mount(engine)
	a.http.server = &http.Server{
		Handler:           engine,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    int(a.cfg.Limits.Headers),
		// What net/http says about a connection may hold what a client sent.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return nil
}

// startHTTP begins to serve. The teardown takes no more requests, lets the
// worker finish the calls that are under way, which answers those who wait for
// them, and sends away who waits for more.
func (a *App) startHTTP() {
	h := a.http
	h.done = make(chan struct{})
	go func() {
		defer close(h.done)
		if err := h.server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("server ended")
		}
	}()
	a.teardown.push(func(ctx context.Context) error {
		a.egress.feed.EndStreams()
		shut := make(chan error, 1)
		go func() { shut <- h.server.Shutdown(ctx) }()
		err := a.work.worker.Stop()
		a.egress.feed.EndWaits()
		if late := <-shut; late != nil {
			err = errors.Join(err, late, h.server.Close())
		}
		<-h.done
		return err
	})
}

func (h *httpServer) addr() string { return h.listener.Addr().String() }
