package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"weir/cmd/cli/envelope"
	"weir/ingress/rules"
	"weir/internal/broker"
	"weir/internal/config"
	"weir/internal/telemetry"
	"weir/schemas"
)

// agentAPIQueue is the name under which all nodes serve the agent API over NATS.
const agentAPIQueue = "weir-agent-api"

// agentWait is how long a request of the agent API may take that came another way
// than over HTTP. It is longer than a write has unless its action waits for a worker.
const agentWait = 45 * time.Second

// replier serves requests that come over NATS; see broker.Serve.
type replier interface {
	Serve(subject, queue string, fn func(ctx context.Context, subject string, data []byte) []byte) (stop func(), err error)
}

// openRPC serves the agent API over NATS, with the handler for HTTP, if servesRPC allows it. It is
// closed before the worker, so that running requests are answered.
func (a *App) openRPC(from replier) error {
	if !a.servesRPC() {
		return nil
	}
	r := rpc{handler: a.http.server.Handler, log: a.log, timeout: agentWait}
	stop, err := from.Serve(schemas.AgentAPIRoot+".*", agentAPIQueue, r.answer)
	if err != nil {
		return fmt.Errorf("agent API over NATS: %w", err)
	}
	a.teardown.push(func(context.Context) error { stop(); return nil })
	return nil
}

// servesRPC reports whether the agent API is served over NATS. Without tokens, every client of the
// NATS server could write rules, so the server must then be embedded and only reachable from this
// machine.
func (a *App) servesRPC() bool {
	return !a.open() || a.cfg.Embedded() && (a.NATS() == "" || config.Loopback(a.NATS()))
}

// rpc answers the agent API's requests with the answers of its HTTP handler.
type rpc struct {
	handler http.Handler
	log     *slog.Logger
	timeout time.Duration
}

// answer answers one request, always with an envelope. The token in the request identifies the
// caller; it must belong to the tenant in the subject. A node in open mode has one tenant.
func (r rpc) answer(ctx context.Context, subject string, data []byte) []byte {
	names := envelope.NamesOf(envelope.Find(data))
	if errors.Is(context.Cause(ctx), broker.ErrBusy) {
		return envelope.Refuse(names, schemas.RateLimited, "", "too many requests are being answered; wait and send it again")
	}
	tenant, ok := schemas.ParseAgentAPI(subject)
	if !ok {
		return envelope.Refuse(names, schemas.InvalidRequest, "", "the subject does not end in a tenant")
	}
	ctx, cancel := context.WithTimeout(rules.ForTenant(ctx, tenant), r.timeout)
	defer cancel()
	doc := r.serve(ctx, data)
	if envelope.Result(doc) == "" {
		return envelope.Unavailable(names, "the request was not answered in time; send it again under the same request_id")
	}
	return doc
}

// serve has the handler answer. What panics there must not end the node.
func (r rpc) serve(ctx context.Context, data []byte) (doc []byte) {
	defer func() {
		if recover() != nil {
			r.log.LogAttrs(ctx, slog.LevelError, "panic", slog.String("err_kind", "panic"), slog.String("at", telemetry.Panicking()))
			doc = nil
		}
	}()
	w := &inMemory{header: http.Header{}}
	r.handler.ServeHTTP(w, agentRequest(ctx, data))
	return w.body.Bytes()
}

// agentRequest is a request as an HTTP server would have read it, from this machine.
func agentRequest(ctx context.Context, body []byte) *http.Request {
	req := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: schemas.RouteAgentAPI}, RequestURI: schemas.RouteAgentAPI,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "localhost", RemoteAddr: "127.0.0.1:0",
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	return req.WithContext(ctx)
}

// inMemory is the answer to a request that has no connection.
type inMemory struct {
	header http.Header
	body   bytes.Buffer
}

func (w *inMemory) Header() http.Header         { return w.header }
func (w *inMemory) Write(p []byte) (int, error) { return w.body.Write(p) }
func (*inMemory) WriteHeader(int)               {} // the envelope has it

// Flush does nothing: parts of an answer are not sent.
func (*inMemory) Flush() {}
