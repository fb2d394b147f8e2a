// Package call owns the attempts of a call: it records each attempt before making it, makes it
// once, records the result, and decides by the call's class whether to try again.
package call

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/internal/policy"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/processors/guard"
	"weir/schemas"
)

// Ledger is where attempts are written.
type Ledger interface {
	Events
	// Hold leaves the result of an attempt to the event that st appends next.
	Hold(ctx context.Context, st *ledger.State, ev schemas.Event) error
	PutBlob(ctx context.Context, tenant string, doc json.RawMessage) (inline json.RawMessage, name string, err error)
}

// Adapter speaks one outward dialect.
type Adapter interface {
	// Open makes everything ready that can be made ready before the request:
	// it resolves, dials and finishes TLS, and sends nothing. Its errors are
	// *fault.Call that was not sent. Of a mocked pass it dials nothing, and the
	// exchange reads the rule's answer as it would read the target's.
	Open(ctx context.Context, p guard.Pass) (Exchange, error)
}

// Exchange is one connection for one request.
type Exchange interface {
	// Do sends the request, once, and reads the answer. It goes by p: the pass of Open, or a fresh one
	// for the same call, which another policy gave since. Its errors are *fault.Call.
	// An exchange that writes to the log, which refuses, ends with INTERRUPTED.
	// It calls begun, unless that is nil, when the request's first bytes were handed to
	// the network, not when they are about to be; on any goroutine, or never.
	Do(ctx context.Context, p guard.Pass, begun func()) (*Reply, error)
	// Close may be called more than once.
	Close()
}

// Reply is a complete answer.
type Reply struct {
	Answer schemas.Answer
	// Location is the target of a redirect, as the upstream gave it.
	Location string
}

// Metrics counts what calls do.
type Metrics interface {
	AttemptDone(host, method string, code schemas.Code, took time.Duration)
	Retry(host, method string, attempt int, kind, status string)
	// RuleApplied counts an attempt that traffic rules of a type had an effect on.
	RuleApplied(ruleType string)
	// SchemaViolated counts an answer that does not fit the response schema of its entry.
	SchemaViolated(entry, mode string)
}

// Config is what a Caller needs besides its collaborators.
type Config struct {
	// Worker names this process in attempts.
	Worker string
	// Barrier waits until all that was appended is as durable as promised.
	Barrier func(context.Context) error
	// Timeout bounds one attempt, dialling included, of calls that name none, and is the maximum
	// for those that do. Default 30 s.
	Timeout time.Duration
	// Margin is added to an attempt's timeout for its expires_at. Default 5 s.
	Margin time.Duration
	// Hold is the longest wait for traffic rules and destinations in a worker's slot; see inline. It is
	// shorter, because a tenant's rules hold back any number of its calls at once, and all tenants
	// share the slots. Default 500 ms.
	Hold     time.Duration
	Schedule retry.Schedule
	// Draining is closed when no new attempt may begin; nil never is.
	Draining <-chan struct{}
	Metrics  Metrics
	// Span names the span of a call by its place in the action, for a target whose entry requests it;
	// nil: the span of the action's caller.
	Span func(a schemas.Action, place ...int) string
	// Destinations decides which permitted calls may be made now; nil: all.
	Destinations *destination.Limiter
	// Now and Rand are for tests. Defaults: time.Now, rand.Float64.
	Now  func() time.Time
	Rand func() float64
}

func (c Config) withDefaults() Config {
	c.Timeout, c.Margin = cmp.Or(c.Timeout, 30*time.Second), cmp.Or(c.Margin, 5*time.Second)
	c.Hold = cmp.Or(c.Hold, 500*time.Millisecond)
	if c.Schedule.Attempts == 0 {
		c.Schedule = retry.Default()
	}
	if c.Span == nil {
		c.Span = func(a schemas.Action, _ ...int) string { return a.TraceParent }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// Caller makes calls. It is safe for concurrent use.
type Caller struct {
	ledger  Ledger
	guard   *guard.Guard
	adapter Adapter
	cfg     Config
}

// New returns a Caller that sends the calls that guard permits through adapter.
func New(l Ledger, g *guard.Guard, a Adapter, cfg Config) *Caller {
	return &Caller{ledger: l, guard: g, adapter: a, cfg: cfg.withDefaults()}
}

// ErrNoPass means that a call has no decision.
var ErrNoPass = errors.New("a call needs a pass")

// limit is when an attempt that starts now is given up.
func (c *Caller) limit(t *Task, p guard.Pass, start time.Time) time.Time {
	timeout := cmp.Or(t.Timeout, c.cfg.Timeout)
	return earlier(start.Add(min(timeout, cmp.Or(p.Call().Timeout, timeout))), t.State.Action.Deadline)
}

// describe is the record of an attempt at a call or, after from, at its redirect.
func (c *Caller) describe(t *Task, p guard.Pass, number int, from *ledger.Attempt, limit time.Time) schemas.Attempt {
	a := schemas.Attempt{
		Step: t.Step, Number: number, Class: p.Class(), Worker: c.cfg.Worker, Message: t.State.Message,
		Decision: p.Decision(), Digest: digest(p), DerivedKey: p.DerivedKey(), Method: t.Call.Method, URL: t.Call.URL,
		ExpiresAt: limit.Add(c.cfg.Margin).UTC(),
	}
	if from != nil {
		a.Hop = from.Hop + 1
	}
	if t.probe != nil {
		a.Probe = t.probe.attempt
	}
	if t.Agent {
		a.URL = route(a.URL) // where the agent is, is not its owner's to know
	}
	if a.Class == schemas.ClassKeyed && !p.Mocked() { // the target has not seen the key
		a.KeyExpiresAt = t.keyExpiry(p, c.cfg.Now())
	}
	return a
}

// route is the loggable part of an agent's or model's URL.
func route(url string) string {
	for _, d := range schemas.AllDialects() {
		if strings.HasSuffix(url, d.Route()) {
			return d.Route()
		}
	}
	if path, _, _ := strings.Cut(url, "?"); strings.HasSuffix(path, schemas.RouteModels) {
		return schemas.RouteModels
	}
	return schemas.RunRoute(url)
}

// started is an attempt without its result.
type started struct {
	attempt schemas.Attempt
	pass    guard.Pass
	start   time.Time
	// undeclared: no event was written before it started.
	undeclared bool
	// decision is the decision of a policy that came into force after that.
	decision *schemas.Decision
}

// finish records the result of an attempt, with the time of the next one, if any. For a task whose
// result ends its action, it is written with the end. If a call failed before anything was
// recorded, one event holds both start and result. So it does for a call that a traffic rule
// answered: it was not sent, whatever the adapter makes of the answer.
func (c *Caller) finish(ctx context.Context, t *Task, e *started, reply *Reply, callErr error) (*ledger.Attempt, error) {
	failpoint.At(failpoint.Answered, t.State.ID)
	a, now := &e.attempt, c.cfg.Now()
	res := schemas.Attempted{Step: a.Step, Number: a.Number, Hop: a.Hop, Probe: a.Probe, Decision: e.decision, Sent: true, Duration: now.Sub(e.start)}
	var failed *fault.Call
	if callErr != nil && !errors.As(callErr, &failed) {
		// An adapter that breaks its contract is taken at its worst.
		failed = &fault.Call{Code: schemas.UpstreamProtocol, Sent: !e.undeclared, Cause: callErr}
	}
	if failed == nil {
		if res.Status = reply.Answer.Status; t.probe != nil {
			t.show(&res, e, reply.Answer)
		}
		if schema, mode := e.pass.Permit().ResponseSchema(); schema != nil && !t.Keyless && res.Status >= 200 && res.Status <= 299 {
			c.inspect(t, e.pass, schema, mode, &res, &reply.Answer)
		}
		if res.Answer = &reply.Answer; len(reply.Answer.Body) > schemas.InlineLimit {
			if err := c.storeAnswer(ctx, t.State.Tenant, &res); err != nil {
				return nil, err
			}
		}
	} else {
		res.Code, res.Sent, res.Status, res.NoMemory = failed.Code, failed.Sent, failed.Status, failed.NoMemory
		if unread, ok := errors.AsType[*secrets.NameError](callErr); ok {
			res.Secret = unread.Name
		}
	}
	if e.pass.Mocked() {
		res.Sent = false // and yet failed says what it would have been of the target's, for next
	}
	if failed == nil && policy.IsRedirect(res.Status) && a.Class == schemas.ClassSafe && !t.Internal && a.Hop < e.pass.Redirects() {
		res.RetryAt = now.UTC() // the next hop
	} else {
		c.next(t, a, &res, failed, e.start, e.pass.Contract())
	}
	if redirects(&res) {
		res.Location = e.pass.Leads(reply.Location)
	}
	ev := schemas.Event{Type: schemas.EventAttempted, Attempted: &res}
	if e.undeclared {
		ev.Attempt = a
	}
	write := c.ledger.Append
	if t.Ends && !e.undeclared && res.RetryAt.IsZero() && res.AnswerBlob == "" {
		write = c.ledger.Hold // the action ends next, and at once
	}
	if err := write(ctx, t.State, ev); err != nil {
		return nil, err
	}
	done := &ledger.Attempt{Attempt: *a, Result: &res}
	c.measure(e.pass, done)
	return done, t.Record(ctx, *done)
}

// storeAnswer stores a result's large answer as a blob, and leaves all but the body in the result.
// The blob is durable before a result refers to it, because a call with a result is never made
// again.
func (c *Caller) storeAnswer(ctx context.Context, tenant string, res *schemas.Attempted) error {
	doc, err := ledger.Encode(res.Answer)
	if err != nil {
		return err
	}
	_, name, err := c.ledger.PutBlob(ctx, tenant, doc)
	if err != nil || name == "" { // see Unlogged
		return err
	}
	res.Answer.Body, res.AnswerBlob = nil, name
	return c.cfg.Barrier(ctx)
}

// measure counts an attempt.
func (c *Caller) measure(p guard.Pass, try *ledger.Attempt) {
	res, m := try.Result, c.cfg.Metrics
	if m == nil {
		return
	}
	for _, ruleType := range p.RuleTypes() {
		m.RuleApplied(ruleType)
	}
	if p.Mocked() {
		return // no target was tried
	}
	host, method := p.Permit().Host(), p.Call().Method
	m.AttemptDone(host, method, res.Code, res.Duration)
	if try.Probe == 0 && !res.RetryAt.IsZero() && !redirects(res) {
		kind, status := retry.Kind(res.Status, res.Code)
		m.Retry(host, method, try.Number, kind, status)
	}
}

// digest names a request without telling its content.
func digest(p guard.Pass) string {
	call := p.Call()
	var head []byte
	part := func(s string) { head = append(append(head, s...), 0) }
	part(call.Method)
	part(call.URL)
	part(call.IdempotencyKey)
	if name := p.KeyHeader(); call.IdempotencyKey != "" && name != "Idempotency-Key" {
		part(name) // a target that is to find the key there knows it from nowhere else
	}
	for _, f := range call.Headers {
		part(f.Name)
		if policy.OwnCredential(f.Name) {
			continue // a digest is shown: guesses of a weak password could be held against it
		}
		part(f.Value)
	}
	if call.ContentType != "" {
		part(call.ContentType)
	}
	h := sha256.New()
	h.Write(head)
	h.Write(call.Body)
	h.Write([]byte(call.BodyBlob))
	return hex.EncodeToString(h.Sum(nil))
}
