// Package rules performs actions of kind rule: each is one write of a tenant's rule
// set, in the place of the one that its caller had read, or not at all.
package rules

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Sets is where the rule sets are kept; see internal/rules for what each promises.
type Sets interface {
	Newest(ctx context.Context, tenant string) (rules.Snapshot, error)
	After(ctx context.Context, tenant string, revision uint64) (rules.Snapshot, error)
	Put(ctx context.Context, tenant string, doc schemas.RuleSet, revision uint64) (rules.Snapshot, error)
	Reset(ctx context.Context, tenant, by string) (rules.Snapshot, error)
}

// Config is what Rules needs besides its collaborators. All have defaults.
type Config struct {
	// Limit is how many rules a tenant may have, and how many groups; default
	// schemas.MaxRules. A set that has more already can be changed, but not grow.
	Limit int
	Now   func() time.Time // default time.Now
}

// Rules performs kind rule. It is safe for concurrent use.
type Rules struct {
	sets     Sets
	policy   func() *policy.Policy
	recorder *settle.Recorder
	cfg      Config
	locks    sync.Map // by tenant, channels that hold one element while a write is made
}

// New returns an executor of writes. Current gives the policy in force, which a
// redirect is held against.
func New(s Sets, current func() *policy.Policy, r *settle.Recorder, cfg Config) *Rules {
	cfg.Limit = cmp.Or(cfg.Limit, schemas.MaxRules)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Rules{sets: s, policy: current, recorder: r, cfg: cfg}
}

// Execute makes the write, unless an earlier worker had made it already.
func (p *Rules) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	order, err := payload(st)
	if err != nil {
		return settle.Outcome{}, err
	}
	w := &write{Rules: p, st: st, order: order, begun: begun(st)}
	e, err := w.make(ctx, stop)
	switch {
	case errors.Is(err, fault.ErrFenced): // it is not the action's own fence, so it is not told on
		return settle.Outcome{}, &fault.RetryAfter{Cause: errOvertaken}
	case err != nil:
		return settle.Outcome{}, &fault.RetryAfter{Cause: err}
	}
	record, err := w.evidence(e)
	if err != nil {
		return settle.Outcome{}, err
	}
	if err := p.recorder.Store(ctx, st, record); err != nil {
		return settle.Outcome{}, err
	}
	return w.outcome(e), nil
}

// make makes the write in its tenant's turn. Its errors are those of carry.
func (w *write) make(ctx context.Context, stop call.Stop) (end, error) {
	over, err := w.lockTenant(ctx, w.st.Tenant)
	if err != nil {
		return end{}, err
	}
	defer over()
	carry := w.carry
	if w.order.Operation == schemas.OpRulesReset {
		carry = w.reset
	}
	e, err := carry(ctx, stop)
	if errors.Is(err, fault.ErrFenced) { // another writer was first: decide again from its result
		e, err = carry(ctx, stop)
	}
	return e, err
}

// lockTenant waits until no other write of the tenant is made, or for the end of ctx, whose error it returns
// then. The cost of a write grows with its set: each loser of a race would pay for all of it.
func (p *Rules) lockTenant(ctx context.Context, tenant string) (over func(), err error) {
	own, _ := p.locks.LoadOrStore(tenant, make(chan struct{}, 1))
	locked, _ := own.(chan struct{})
	select {
	case locked <- struct{}{}:
		return func() { <-locked }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errOvertaken = errors.New("the set was replaced, and the newest is not the one that replaced it")

// payload reads the order of an action.
func payload(st *ledger.State) (schemas.RuleOrder, error) {
	o, err := call.Payload[schemas.RuleOrder](st, "an order of a rule")
	if err != nil {
		return o, err
	}
	if o.Operation != schemas.OpRulesReset && !slices.Contains(schemas.AgentWrites(), o.Operation) {
		return o, &fault.Terminal{Code: schemas.Poison, Reason: "the payload names no operation that writes"}
	}
	return o, nil
}

// begun reports whether another delivery of the action came so far that it may
// have made the write.
func begun(st *ledger.State) bool {
	return slices.ContainsFunc(st.Events, func(ev schemas.Event) bool {
		return ev.Type == schemas.EventStarted && ev.N <= st.Inherited
	})
}
