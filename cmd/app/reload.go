package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/cli"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// reloading is what the reloads know of each other. Only one runs at a time.
type reloading struct {
	mu        sync.Mutex
	last      config.Config // whose policy is in force
	files     []string      // that the last reading named, the configuration's own aside
	lastError string        // why the last reload failed; empty: it did not
}

// settleTimeout is how long a reload waits for permitted calls that are about to begin under the
// former policy. That takes milliseconds.
const settleTimeout = 10 * time.Second

// maxProblems is the maximum number of problems in an answer.
const maxProblems = 50

// openPolicy compiles the policy that the node starts with.
func (a *App) openPolicy(context.Context) error {
	first, err := a.draw(a.cfg)
	if err != nil {
		return cli.Usage(err)
	}
	a.guard = guard.New(a.policy, a.rules)
	a.reload.last, a.reload.files = a.cfg, a.cfg.Files()
	a.enforce(first, time.Now())
	return nil
}

// compile makes a policy that knows what leads back to this node, which no
// entry can grant.
func (a *App) compile(c config.Config) (*policy.Policy, error) {
	at := []string{a.http.addr(), a.NATS()}
	if a.proxy != nil {
		at = append(at, a.proxy.addr())
	}
	return c.Compile(ownAddrs, at...)
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

// enforce puts all policies of a configuration in force at once, since a time.
func (a *App) enforce(d dated, since time.Time) {
	d.since = since.UTC()
	a.current.Store(&d)
	for _, c := range a.clients {
		c.Forget()
	}
	a.metrics.SetHosts(d.policy.Hosts())
	a.metrics.SetAgents(slices.Sorted(maps.Keys(d.agents)))
	a.metrics.SetModels(d.listed)
	a.metrics.SetBudgets(d.budgets)
	a.metrics.PolicyInForce(d.policy.Version(), since)
}

// policyView is the policy in force: all of it, or only the entries that the caller may use.
func (a *App) policyView(only []string, operator bool) schemas.PolicyView {
	d := a.current.Load()
	return d.policy.View(d.since, only, operator)
}

// Explain returns the decision of the policy in force about a call.
func (a *App) Explain(call schemas.HTTPCall, only []string) schemas.Explanation {
	return explain(a.policy(), call, only)
}

// Entries are the names of the policy in force: its entries, its allowed hosts, and the entries of agents
// and models.
func (a *App) Entries() []string { return a.policy().EntryNames() }

// Reload reads the configuration again and puts its policy, its agents and its models
// in force, or leaves everything as it is. When it returns without an error, no call begins on this
// node any more that the new policy denies. The error is a public one.
func (a *App) Reload(ctx context.Context) (schemas.Reload, error) {
	a.reload.mu.Lock()
	defer a.reload.mu.Unlock()
	return a.apply(ctx, a.next())
}

// refresh reloads if that would change the policy, or fail with a problem that was not reported
// yet. The result is reported like that of every reload.
func (a *App) refresh(ctx context.Context) {
	a.reload.mu.Lock()
	defer a.reload.mu.Unlock()
	if n := a.next(); a.differs(n) {
		_, _ = a.apply(ctx, n) // it has reported the mistakes
	}
}

// reading is the content of the configuration at one time.
type reading struct {
	config config.Config
	drawn  dated
	err    error // why it is of no use
}

// next reads the configuration as it is now. A file that was removed or emptied is a mistake: the
// defaults would permit more than it did.
func (a *App) next() reading {
	n := reading{config: a.cfg}
	if a.opts.Load != nil {
		n.config, n.err = a.opts.Load()
		a.reload.files = n.config.Files()
	}
	if n.err == nil {
		n.err = kept(a.reload.last, n.config)
	}
	if n.err == nil {
		n.drawn, n.err = a.draw(n.config)
	}
	return n
}

// differs reports whether a reading differs from the policy in force, or from the last reported
// problem.
func (a *App) differs(n reading) bool {
	if n.err != nil {
		return n.err.Error() != a.reload.lastError
	}
	now := a.current.Load()
	return a.reload.lastError != "" || now.otherThan(n.drawn) || len(a.reload.last.NeedsRestart(n.config)) > 0
}

// apply puts a reading in force.
func (a *App) apply(ctx context.Context, n reading) (schemas.Reload, error) {
	if n.err != nil {
		a.reload.lastError = n.err.Error()
		return schemas.Reload{}, a.unloadable(ctx, n.err)
	}
	a.reload.lastError, a.reload.last = "", n.config
	before := a.current.Load()
	done := schemas.Reload{Version: n.drawn.policy.Version(), Previous: before.policy.Version()}
	if !a.cfg.Embedded() {
		done.Node = a.worker
	}
	done.Changed = before.otherThan(n.drawn)
	since := before.since
	if done.Version != done.Previous {
		since = time.Now()
	}
	a.enforce(n.drawn, since)
	if a.work.runs != nil {
		a.work.runs.Refresh()
	}
	a.metrics.PolicyReloaded(true)
	a.log.LogAttrs(ctx, slog.LevelInfo, "policy_reloaded", slog.String("policy_version", done.Version))
	err := a.settled(ctx)
	if a.tunnels != nil {
		a.tunnels.Refresh()
	}
	if a.work.listing != nil {
		a.work.listing.Refresh()
	}
	a.unapplied(ctx, n.config)
	for _, w := range slices.Concat(n.config.Warnings(), a.warnings(n.config)) {
		a.notice(w)
	}
	return done, err
}

// settled returns when every call that an earlier policy permitted has started or was given up.
func (a *App) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := a.guard.Settle(ctx); err != nil {
		return &fault.Error{
			Code: schemas.Unavailable, Cause: err,
			Message: "the policy is in force, but a call that the one before had let pass may still begin; ask again to be sure",
		}
	}
	return nil
}

// kept refuses a configuration that leaves out a section that the last one had.
func kept(last, next config.Config) error {
	switch {
	case last.Blank() || !next.Blank():
		return nil
	case next.Source() == "":
		return &config.Problem{Where: last.Source(), What: "the file is gone; put it back, or restart to go on without it"}
	default:
		return &config.Problem{Where: next.Source(), What: "the file has become empty; write {} into it if the defaults are meant"}
	}
}

// unloadable reports why a configuration was not loaded.
func (a *App) unloadable(ctx context.Context, err error) error {
	problems := problemsOf(err)
	a.metrics.PolicyReloaded(false)
	a.log.LogAttrs(ctx, slog.LevelError, "policy_reload_failed", slog.Int("count", len(problems)))
	for _, p := range problems {
		a.notice("the policy was not reloaded: " + p)
	}
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return &fault.Error{Code: schemas.ValidationError, Message: "nothing was changed: " + strings.Join(problems, "; "), Cause: err}
}

// unapplied lists the changes that need a restart.
func (a *App) unapplied(ctx context.Context, next config.Config) {
	keys := a.cfg.NeedsRestart(next)
	if len(keys) == 0 {
		return
	}
	a.log.LogAttrs(ctx, slog.LevelWarn, "settings_need_restart", slog.Int("count", len(keys)))
	for _, key := range keys {
		a.notice(key + ": the change takes effect after a restart")
	}
}

// problemsOf lists all problems of a configuration, each with the file's base name: its directory
// is not shown to HTTP callers.
func problemsOf(err error) (all []string) {
	list, _ := errors.AsType[config.Problems](err)
	if p, ok := errors.AsType[*config.Problem](err); ok {
		list = config.Problems{p}
	}
	for _, p := range list {
		at := *p
		at.Where = at.Where[strings.LastIndexAny(at.Where, `/\`)+1:]
		all = append(all, at.Error())
	}
	if all == nil {
		all = []string{err.Error()}
	}
	return all
}

// dated is a policy with the remote agents that it permits, by task type, the models and their
// budgets, and the time at which this node put it in force.
type dated struct {
	policy  *policy.Policy
	agents  map[string]schemas.Agent
	listed  []schemas.Model // as the configuration has them
	models  *models.Set
	budgets []schemas.Budget
	since   time.Time
}

// policy is the policy in force; before there is one, nil, which denies everything.
func (a *App) policy() *policy.Policy { return a.current.Load().policy }

// draw makes of a configuration what a reload exchanges.
func (a *App) draw(c config.Config) (dated, error) {
	p, err := a.compile(c)
	if err != nil {
		return dated{}, err
	}
	d := dated{policy: p, agents: c.RunAgents(), listed: c.ChatModels(), budgets: c.ModelBudgets()}
	d.models = models.New(d.listed)
	return d, nil
}

// otherThan reports whether another policy decides differently, or calls agents and models
// differently or within other limits, which the policy's version does not include.
func (d *dated) otherThan(next dated) bool {
	return next.policy.Version() != d.policy.Version() || !maps.Equal(next.agents, d.agents) ||
		!reflect.DeepEqual(next.listed, d.listed) || !reflect.DeepEqual(next.budgets, d.budgets)
}

// agent is the remote agent that serves a task type now. Its name is stored with the policy that
// has its entry, so both change at once.
func (a *App) agent(taskType string) (schemas.Agent, bool) {
	agent, ok := a.current.Load().agents[taskType]
	return agent, ok
}

// serves reports whether a remote agent serves a task type now. Weir's own task types are not
// included.
func (a *App) serves(taskType string) bool {
	_, ok := a.agent(taskType)
	return ok
}

// models are those in force. They travel with the policy that has their entries, so
// both are exchanged at once; nil: there are none yet.
func (a *App) models() *models.Set { return a.current.Load().models }

// budgets are those in force. They are exchanged with the models that they bound.
func (a *App) budgets() []schemas.Budget { return a.current.Load().budgets }
