package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"weir/cmd/cli/envelope"
	ingressexecutor "weir/ingress/executor"
	"weir/ingress/grant"
	ingressrules "weir/ingress/rules"
	"weir/internal/broker"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/redact"
	"weir/internal/rules"
	"weir/internal/telemetry"
	"weir/internal/traffic"
	"weir/schemas"
)

// openRules copies the tenants' traffic rules and begins to follow them.
func (a *App) openRules(ctx context.Context) error {
	a.rules = rules.New(a.broker.Bucket(schemas.RuleBucket), rules.Config{Logger: a.log})
	return a.startPart(ctx, "rules", a.rules)
}

// callerPolicy is the rules and the policy in force for one caller, as ingress needs them.
type callerPolicy struct {
	app   *App
	scope evaluate.Scope
}

// askerPolicy evaluates a caller's calls on ingress. The id of the action is not known yet, so
// rules for a single request are left to the worker.
func (a *App) callerPolicy(who grant.Caller) ingressexecutor.Policy {
	return callerPolicy{a, evaluate.Scope{
		Tenant: who.Tenant, Only: who.Entries,
		Facts: traffic.Facts{Kind: who.Kind, TaskType: who.TaskType, Principal: who.Principal},
	}}
}

// Evaluate decides without resolving anything. The decision that counts is made
// again right before dispatch.
func (j callerPolicy) Evaluate(call schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	set, _, err := j.app.rules.InForce(j.scope.Tenant)
	if err != nil {
		_, d := j.app.guard.Check(call, j.scope) // the decision reports it
		return d, policy.Class(call.Method, call.IdempotencyKey != "", policy.Permit{})
	}
	_, d := evaluate.Call(j.app.policy(), set, call, j.scope, time.Now())
	permit, _ := d.Permit()
	return d.Decision, policy.Class(call.Method, call.IdempotencyKey != "" || permit.DerivesKey(), permit)
}

// MaxTimeout is the longest that one attempt may take.
func (j callerPolicy) MaxTimeout() time.Duration { return j.app.cfg.Policy.Timeout }

// Preview returns the effect of the traffic rules of the caller's tenant, and of the policy in
// force, on a call.
func (a *App) Preview(ctx context.Context, who grant.Caller, q ingressrules.Question) (schemas.Preview, error) {
	scope := a.previewed(who, &q)
	now, err := a.rules.Newest(ctx, who.Tenant)
	if err == nil && q.Rule != nil {
		now.Set, err = now.Set.With(*q.Rule)
	}
	if errors.Is(err, rules.ErrUnreadable) {
		return schemas.Preview{
			Result: schemas.PreviewDenied, Method: q.Call.Method, URL: q.Call.URL, Rules: []schemas.RuleVerdict{},
			Decision: schemas.Decision{
				Code: schemas.DenyRule, Version: a.policy().Version(),
				Reason: "the tenant's traffic rules cannot be read: run the version that wrote them, or newer, or have an admin give them up with `weir rules reset`",
			},
		}, nil
	}
	if err != nil {
		return schemas.Preview{}, err
	}
	return preview(a.policy(), redact.New(a.cfg.RedactHeaders), now, q.Call, scope, time.Now())
}

// previewed is the scope of a preview's call. A call to a remote agent uses the entry of that
// agent, as on the worker, whatever the request names.
func (a *App) previewed(who grant.Caller, q *ingressrules.Question) evaluate.Scope {
	s := evaluate.Scope{Tenant: who.Tenant, Facts: q.Facts, KeyRequired: q.Facts.Kind == schemas.KindPlan, Only: who.Entries}
	if q.Facts.Kind == schemas.KindRun && a.serves(q.Facts.TaskType) {
		s.KeyRequired, s.Agent = true, true
		q.Call.AllowlistKey = schemas.AgentEntry(q.Facts.TaskType)
	}
	return s
}

// preview returns the effect of a set and a policy on a call.
func preview(under *policy.Policy, redactor *redact.Redactor, s rules.Snapshot, call schemas.HTTPCall, scope evaluate.Scope, now time.Time) (schemas.Preview, error) {
	effect, d := evaluate.Call(under, s.Set, call, scope, now)
	p := schemas.Preview{
		GlobalActive: s.Doc.GlobalActive, RulesEtag: s.Etag, Result: schemas.PreviewSent,
		Method: call.Method, URL: cmp.Or(effect.URL, call.URL), Headers: schemas.HeadersByName(redactor.Headers(effect.Headers)), DelayMS: effect.Delay.Milliseconds(),
		ResponseHeaders: effect.Response, Decision: d.Decision,
		Rules: s.Set.Verdicts(traffic.Call{
			Method: call.Method, URL: call.URL, DropFragment: scope.KeyRequired, Headers: call.Headers, Facts: scope.Facts,
		}, now),
	}
	var err error
	switch {
	case !d.Allowed:
		p.Result = schemas.PreviewDenied
	case effect.Answer != nil:
		p.Result = schemas.PreviewMocked
		p.Mock, err = previewAnswer(*effect.Answer)
	}
	return p, err
}

// previewAnswer is a mock's answer, its body as JSON: a text as a string.
func previewAnswer(a traffic.Answer) (*schemas.PreviewAnswer, error) {
	shown := &schemas.PreviewAnswer{Status: a.Status, Headers: schemas.HeadersByName(a.Headers)}
	media, _, _ := mime.ParseMediaType(shown.Headers["content-type"])
	switch {
	case len(a.Body) == 0:
		return shown, nil
	case (media == "application/json" || strings.HasSuffix(media, "+json")) && json.Valid(a.Body):
		shown.Body = a.Body
		return shown, nil
	}
	var body any = string(a.Body)
	if !utf8.Valid(a.Body) {
		body, shown.BodyEncoding = a.Body, "base64"
	}
	doc, err := ledger.Encode(body)
	shown.Body = doc
	return shown, err
}

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
	return !a.cfg.Open() || a.cfg.Embedded() && (a.NATS() == "" || config.Loopback(a.NATS()))
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
	ctx, cancel := context.WithTimeout(ingressrules.ForTenant(ctx, tenant), r.timeout)
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
