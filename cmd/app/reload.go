package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/ingress"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// inForce is the policy that decides now. It is exchanged as a whole.
type inForce struct{ now atomic.Pointer[dated] }

// dated is a policy and when this node put it in force.
type dated struct {
	policy *policy.Policy
	since  time.Time
}

// Load is the policy in force; before there is one, nil, which denies everything.
func (f *inForce) Load() *policy.Policy {
	if d := f.now.Load(); d != nil {
		return d.policy
	}
	return nil
}

// reloading is what a reload needs, and its turn: one at a time.
type reloading struct {
	mu      sync.Mutex
	load    func() (config.Config, error)
	file    string
	notices io.Writer
}

// settleTimeout is how long a reload waits for the calls that the policy before
// had let pass and that have not begun yet. They are about to: milliseconds.
const settleTimeout = 10 * time.Second

// maxProblems is how many mistakes an answer tells of.
const maxProblems = 50

// openPolicy compiles the policy that the node starts with.
func (a *App) openPolicy(context.Context) error {
	p, err := a.compile(a.cfg)
	if err != nil {
		return usageError{err}
	}
	a.guard = guard.New(a.policy.Load)
	a.enforce(p, a.cfg.Policy.Targets(), time.Now())
	return nil
}

// compile makes a policy that knows what leads back to this node, which no
// entry can grant.
func (a *App) compile(c config.Config) (*policy.Policy, error) {
	ports, outside := []uint16{portOf(a.http.addr())}, !onLoopback(a.http.addr())
	if addr := a.NATS(); addr != "" {
		ports, outside = append(ports, portOf(addr)), outside || !onLoopback(addr)
	}
	if !outside {
		return c.Compile(ports...)
	}
	own, err := ownAddrs()
	if err != nil {
		return nil, fmt.Errorf("the addresses of this machine: %w", err)
	}
	return c.CompileAt(own, ports...)
}

func onLoopback(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// ownAddrs are the addresses that other machines reach this one by.
func ownAddrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	own := make([]netip.Addr, 0, len(nets))
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, nil
}

// enforce puts a policy in force, and says since when.
func (a *App) enforce(p *policy.Policy, targets []string, since time.Time) {
	a.policy.now.Store(&dated{p, since.UTC()})
	a.metrics.SetHosts(targets)
	a.metrics.PolicyInForce(p.Version(), since)
}

// policyView is the policy in force, for whoever may look at it.
func (a *App) policyView() schemas.PolicyView {
	d := a.policy.now.Load()
	return d.policy.View(d.since)
}

// policies is the App, as ingress asks it.
func (a *App) policies() ingress.Policies { return a }

// Explain says what the policy in force would say of a call.
func (a *App) Explain(req schemas.ExplainRequest, only []string) schemas.Explanation {
	return explain(a.policy.Load(), req, only)
}

// Reload reads the configuration again and puts its policy in force, or leaves
// everything as it is. When it returns without an error, no call begins on this
// node any more that the new policy denies. The error is a public one.
func (a *App) Reload(ctx context.Context) (schemas.Reload, error) {
	a.reload.mu.Lock()
	defer a.reload.mu.Unlock()
	next := a.cfg
	if a.reload.load != nil {
		var err error
		if next, err = a.reload.load(); err != nil {
			return schemas.Reload{}, a.unloadable(ctx, err)
		}
	}
	p, err := a.compile(next)
	if err != nil {
		return schemas.Reload{}, a.unloadable(ctx, err)
	}
	before := a.policy.now.Load()
	done := schemas.Reload{Version: p.Version(), Previous: before.policy.Version()}
	done.Changed = done.Version != done.Previous
	since := before.since
	if done.Changed {
		since = time.Now()
	}
	a.enforce(p, next.Policy.Targets(), since)
	a.metrics.PolicyReloaded(true)
	a.log.LogAttrs(ctx, slog.LevelInfo, "policy reloaded", slog.String("version", done.Version))
	a.unapplied(ctx, next)
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := a.guard.Settle(ctx); err != nil {
		return done, &fault.Error{
			Code: schemas.Unavailable, Cause: err,
			Message: "the policy is in force, but a call that the one before had let pass may still begin; ask again to be sure",
		}
	}
	return done, nil
}

// stale reports whether a reload would change something, or fail.
func (a *App) stale() bool {
	if a.reload.load == nil {
		return false
	}
	next, err := a.reload.load()
	if err != nil {
		return true
	}
	p, err := a.compile(next)
	return err != nil || p.Version() != a.policy.Load().Version()
}

// unloadable tells why a configuration was not taken.
func (a *App) unloadable(ctx context.Context, err error) error {
	problems := problemsOf(err)
	a.metrics.PolicyReloaded(false)
	a.log.LogAttrs(ctx, slog.LevelError, "policy not reloaded", slog.Int("count", len(problems)))
	for _, p := range problems {
		a.notice("the policy was not reloaded: " + p)
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return &fault.Error{Code: schemas.ValidationError, Message: "nothing was changed: " + strings.Join(problems, "; "), Cause: err}
}

// unapplied tells which changes wait for a restart.
func (a *App) unapplied(ctx context.Context, next config.Config) {
	keys := a.cfg.NeedsRestart(next)
	if len(keys) == 0 {
		return
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "changed settings wait for a restart", slog.Int("count", len(keys)))
	for _, key := range keys {
		a.notice(key + ": the change takes effect after a restart")
	}
}

func (a *App) notice(text string) {
	if w := a.reload.notices; w != nil {
		fmt.Fprintln(w, "weir: warning:", text)
	}
}

// problemsOf are everything that is wrong with a configuration, each with the
// file's name alone: where it lies is no business of whoever asks over HTTP.
func problemsOf(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []string
		for _, e := range joined.Unwrap() {
			all = append(all, problemsOf(e)...)
		}
		return all
	}
	if p, ok := errors.AsType[*config.Problem](err); ok {
		at := *p
		at.Where = at.Where[strings.LastIndexAny(at.Where, `/\`)+1:]
		return []string{at.Error()}
	}
	return []string{err.Error()}
}
