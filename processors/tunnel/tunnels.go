// Package tunnel opens and carries the tunnels of the forward proxy. It asks policy about a CONNECT,
// dials the checked address, stores evidence and copies bytes both ways until one side, policy, the
// token or the node ends the tunnel. A tunnel is no action: it cannot be replayed.
package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"weir/internal/fault"
	"weir/internal/limits/destination"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/problem"
	"weir/internal/traffic"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// Metrics counts tunnels.
type Metrics interface {
	TunnelOpened()
	TunnelEnded(end schemas.TunnelEnd, up, down int64)
}

// Config bounds tunnels. All but Barrier have defaults.
type Config struct {
	Idle    time.Duration // ends a tunnel through which nothing passes; default 5 min
	Longest time.Duration // ends any tunnel; default 24 h
	// Most is how many tunnels may be open, and MostOfOne how many of one principal; default 1000 and 250.
	Most, MostOfOne int
	// Barrier returns once everything stored before the call would survive. Required.
	Barrier func(context.Context) error
	// Destinations hold tunnels back as they do calls; nil: nothing does.
	Destinations *destination.Limiter
	Metrics      Metrics
	Logger       *slog.Logger // default: none
}

// Caller is who asks for a tunnel, the task that it holds, if any, and the only entries that it may use;
// none: all.
type Caller struct {
	Tenant, Principal, Task string
	Entries                 []string
}

// Tunnels are the open tunnels of a node. It is safe for concurrent use.
type Tunnels struct {
	guard    *guard.Guard
	client   *outbound.Client
	recorder *settle.Recorder
	cfg      Config

	mu      sync.Mutex
	open    map[*Tunnel]bool
	of      map[string]int // of each principal
	stopped bool
	ended   sync.WaitGroup
}

// New returns a node's tunnels, none of which is open.
func New(g *guard.Guard, c *outbound.Client, r *settle.Recorder, cfg Config) *Tunnels {
	cfg.Idle = cmp.Or(cfg.Idle, 5*time.Minute)
	cfg.Longest = cmp.Or(cfg.Longest, 24*time.Hour)
	cfg.Most, cfg.MostOfOne = cmp.Or(cfg.Most, 1000), cmp.Or(cfg.MostOfOne, 250)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Tunnels{guard: g, client: c, recorder: r, cfg: cfg, open: map[*Tunnel]bool{}, of: map[string]int{}}
}

// Tunnel is one permitted tunnel. Carry or Close must follow.
type Tunnel struct {
	all    *Tunnels
	id     string
	caller Caller
	opened time.Time
	ctx    context.Context //nolint:containedctx // lives as long as the tunnel
	cancel context.CancelCauseFunc
	target net.Conn // nil: each request in the tunnel is an action, which dials by itself
	addrs  []netip.Addr
	slot   *destination.Permit

	mu   sync.Mutex
	pass guard.Pass

	close sync.Once
	flow
}

// endError is why a tunnel is cut.
type endError struct {
	end  schemas.TunnelEnd
	code schemas.Code
}

func (e *endError) Error() string { return string(e.end) }

// Open asks policy about host:port and dials it. The tunnel ends with ctx at the latest. Errors have a
// code: DENY_*, UPSTREAM_*, RATE_LIMITED, or UNAVAILABLE. Each refusal of policy and each failure of
// the target leaves evidence.
func (t *Tunnels) Open(ctx context.Context, who Caller, authority string) (*Tunnel, error) {
	facts := traffic.Facts{Principal: who.Principal, TaskID: who.Task}
	pass, d := t.guard.Connect(authority, evaluate.Scope{Tenant: who.Tenant, Facts: facts, Only: who.Entries})
	x := &Tunnel{all: t, id: "tunnel-" + uuid.Must(uuid.NewV7()).String(), caller: who, pass: pass, opened: time.Now()}
	if !pass.Valid() {
		return nil, x.refuse(ctx, authority, d, &fault.Call{Code: d.Code})
	}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	if err := t.count(x); err != nil {
		x.cancel(nil)
		return nil, err
	}
	if err := x.connect(x.ctx); err != nil { //nolint:contextcheck // it ends with ctx
		if x.endCause().end == schemas.TunnelPaused {
			err = heldBack(x.current().Permit().Entry(), schemas.WaitPaused, time.Time{})
		} else if failed, ok := errors.AsType[*fault.Call](err); ok {
			err = x.refuse(ctx, authority, x.current().Decision(), failed)
		}
		x.drop() //nolint:contextcheck // whatever ctx says
		return nil, err
	}
	if err := x.record(x.ctx, schemas.TunnelOpened, "", schemas.TunnelAudit{}); err != nil { //nolint:contextcheck // it ends with ctx
		t.cfg.Metrics.TunnelOpened()
		x.Close(schemas.TunnelFailed) //nolint:contextcheck // the record may be stored, and then has an end
		return nil, &fault.Error{Code: schemas.Unavailable, Message: "the record of the tunnel could not be stored; try again", Cause: err}
	}
	t.cfg.Metrics.TunnelOpened()
	return x, nil
}

// count lets one more tunnel in.
func (t *Tunnels) count(x *Tunnel) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := x.caller.key()
	switch {
	case t.stopped:
		return fault.New(schemas.Unavailable, "this node is stopping; use another, or try again")
	case t.of[key] >= t.cfg.MostOfOne:
		return fault.New(schemas.RateLimited, fmt.Sprintf("this token has %d tunnels open, as many as it may (proxy.tunnels_per_token); close one first", t.of[key]))
	case len(t.open) >= t.cfg.Most:
		return fault.New(schemas.Unavailable, fmt.Sprintf("this node has %d tunnels open, as many as it may (proxy.tunnels); try again later", t.cfg.Most))
	}
	t.open[x] = true
	t.of[key]++
	t.ended.Add(1)
	return nil
}

func (c Caller) key() string { return c.Tenant + "/" + c.Principal }

// connect dials the target, and asks policy a last time: it may have changed meanwhile. A reload waits
// until the tunnel is dialled or given up; from then on Refresh finds it.
func (x *Tunnel) connect(ctx context.Context) error {
	pass := x.current()
	permit := pass.Permit()
	if !x.Inspected() { // the requests of the others are limited one by one
		if err := x.acquire(ctx, permit); err != nil {
			return err
		}
		conn, addrs, err := x.all.client.Connect(ctx, permit)
		x.learn(ctx, err)
		if err != nil {
			return err
		}
		x.mu.Lock()
		x.target, x.addrs = conn, addrs
		x.mu.Unlock()
	}
	fresh, d, leave := x.all.guard.Begin(pass)
	defer leave()
	switch {
	case !fresh.Valid():
		return &fault.Call{Code: d.Code}
	case fresh.Permit().Connect() != permit.Connect():
		return fault.New(schemas.Unavailable, "the policy has changed meanwhile; try again")
	case fresh.Permit().CheckAddrs(x.addrs) != nil && !x.Inspected():
		return &fault.Call{Code: schemas.DenyAddress}
	case x.all.guard.Bypassed(fresh) != "":
		return &fault.Call{Code: schemas.DenyRule}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pass = fresh
	return nil
}

// acquire takes a slot of the entry's limits, or says that operators or the limits hold the tunnel back.
func (x *Tunnel) acquire(ctx context.Context, permit *policy.Permit) error {
	t := x.all
	if t.cfg.Destinations == nil {
		return nil
	}
	asked := destination.Call{
		Ref: schemas.Ref{Tenant: x.caller.Tenant, ID: x.id}, Entry: permit.Entry(),
		Destination: schemas.Destination("https", permit.Host(), permit.Port()),
		Gives:       x.opened.Add(t.cfg.Longest),
	}
	l := permit.Limits()
	asked.Limits.Concurrency = l.Concurrency
	if count, per, ok := schemas.ParseRate(l.Rate); ok {
		asked.Limits.Count, asked.Limits.Per = count, per
	}
	slot, held, err := t.cfg.Destinations.Acquire(ctx, asked)
	if err != nil {
		return &fault.Error{Code: schemas.Unavailable, Message: "the limits of the entry could not be read; try again", Cause: err}
	}
	if held != nil {
		return heldBack(permit.Entry(), held.For, held.Until)
	}
	x.slot = slot
	go x.watch(asked)
	return nil
}

// heldBack is the refusal of a tunnel that operators or limits hold back.
func heldBack(entry, by string, until time.Time) error {
	text := map[string]string{
		schemas.WaitPaused:      "an operator paused the target of this tunnel; try again later",
		schemas.WaitDestination: "the target fails or asked for a pause; try again later",
	}[by]
	return &problem.Error{
		Problem:    schemas.Problem{Code: schemas.RateLimited, Rule: entry, Detail: cmp.Or(text, "the limits of the entry are reached; try again later")},
		RetryAfter: max(time.Second, time.Until(until)),
	}
}

// watch cuts the tunnel once operators hold back what it is for.
func (x *Tunnel) watch(asked destination.Call) {
	for {
		paused, changed := x.all.cfg.Destinations.Paused(asked)
		if paused {
			x.cancel(&endError{end: schemas.TunnelPaused})
			return
		}
		select {
		case <-changed:
		case <-x.ctx.Done():
			return
		}
	}
}

// learn tells what a dial says of the destination.
func (x *Tunnel) learn(ctx context.Context, err error) {
	failed, _ := errors.AsType[*fault.Call](err)
	switch {
	case x.slot == nil:
	case err == nil:
		x.slot.Succeeded(ctx)
	case failed != nil && (failed.Code == schemas.UpstreamConnect || failed.Code == schemas.UpstreamDNS):
		x.slot.Failed(ctx)
	}
}

// Inspected reports whether each request in the tunnel is an action, by a permit of its own. The tunnel
// then has no target.
func (x *Tunnel) Inspected() bool { return x.current().Permit().Connect() == policy.ConnectInspect }

// current is the permission that the tunnel goes by now.
func (x *Tunnel) current() guard.Pass {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pass
}

// Host is the name that policy permitted.
func (x *Tunnel) Host() string { return x.current().Permit().Host() }

// Authority is host:port.
func (x *Tunnel) Authority() string { return x.current().Permit().Authority() }

// Context ends when the tunnel must.
func (x *Tunnel) Context() context.Context { return x.ctx }

// Close ends a tunnel that was not carried, with how it ended.
func (x *Tunnel) Close(end schemas.TunnelEnd) {
	x.cancel(&endError{end: end})
	x.finish()
}

// endCause returns why the tunnel was cut. If its own context did not say, the token has ended.
func (x *Tunnel) endCause() *endError {
	if why, ok := errors.AsType[*endError](context.Cause(x.ctx)); ok {
		return why
	}
	return &endError{end: schemas.TunnelRevoked}
}

// finish lets go of the tunnel and stores the record of its end.
func (x *Tunnel) finish() {
	x.close.Do(func() {
		why := x.endCause()
		x.all.cfg.Metrics.TunnelEnded(why.end, x.up.Load(), x.down.Load())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), storing)
		defer cancel()
		audit := schemas.TunnelAudit{
			End: why.end, BytesUp: x.up.Load(), BytesDown: x.down.Load(), DurationMS: time.Since(x.opened).Milliseconds(),
		}
		if err := x.record(ctx, schemas.TunnelEnded, why.code, audit); err != nil {
			x.all.cfg.Logger.ErrorContext(ctx, "evidence_lost", slog.String("component", "tunnel"), slog.Any("err_kind", err))
		}
		x.drop()
	})
}

// storing bounds the storage of a record of an end.
const storing = 5 * time.Second

// drop gives back what the tunnel holds.
func (x *Tunnel) drop() {
	x.cancel(nil)
	if x.target != nil {
		_ = x.target.Close()
	}
	if x.slot != nil {
		x.slot.Release()
	}
	t := x.all
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, x)
	if key := x.caller.key(); t.of[key] == 1 {
		delete(t.of, key)
	} else {
		t.of[key]--
	}
	t.ended.Done()
}

// Refresh cuts the tunnels that the policy in force does not grant as the one before did: their entry is
// gone, says something else or grants their addresses no more. Call it after guard.Settle.
func (t *Tunnels) Refresh() {
	for _, x := range t.list() {
		x.mu.Lock()
		fresh, d := t.guard.Renew(x.pass)
		switch {
		case !fresh.Valid():
			x.cancel(&endError{schemas.TunnelDenied, d.Code})
		case !fresh.Permit().SameGrant(*x.pass.Permit()):
			x.cancel(&endError{schemas.TunnelDenied, ""})
		case x.target != nil && fresh.Permit().CheckAddrs(x.addrs) != nil:
			x.cancel(&endError{schemas.TunnelDenied, schemas.DenyAddress})
		default:
			x.pass = fresh
		}
		x.mu.Unlock()
	}
}

func (t *Tunnels) list() []*Tunnel {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.open))
}

// Stop refuses new tunnels, cuts the open ones and returns when the records of their ends are stored, or
// ctx has ended.
func (t *Tunnels) Stop(ctx context.Context) error {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	for _, x := range t.list() {
		x.cancel(&endError{end: schemas.TunnelStopped})
	}
	done := make(chan struct{})
	go func() { t.ended.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
