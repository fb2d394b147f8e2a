package app

import (
	"context"
	"fmt"

	"weir/egress"
	"weir/internal/limits/budget"
	"weir/internal/models/listed"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/call/direct"
	"weir/processors/call/model"
	"weir/processors/chat"
	"weir/processors/listing"
	"weir/processors/runs"
	"weir/schemas"
)

// openBudgets opens the accounts of budgets.
func (a *App) openBudgets(ctx context.Context) error {
	a.budgetLimiter = budget.NewLimiter(a.broker.Bucket(schemas.BudgetBucket), budget.Config{Budgets: a.budgets, Logger: a.log})
	if !a.role.works() {
		return nil // workers remove the old ones
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	tidy := make(chan struct{})
	go func() {
		defer close(tidy)
		a.budgetLimiter.Run(ctx)
	}()
	a.teardown.push(func(context.Context) error { stop(); <-tidy; return nil })
	return nil
}

// runs executes kind run: Weir's own task types by the executors of other kinds, the rest by the
// agents in force.
func (a *App) runs(w *workshop) processors.Kind {
	adapter := agent.New(w.client, a.secrets, agent.Config{Event: int64(a.cfg.Limits.Response), Stream: int64(a.cfg.Limits.Stream)})
	r := runs.New(a.ledger, runs.Config{
		HTTP: w.calls, Plans: w.plans, Draining: a.draining,
		Remote: runs.NewRemote(a.ledger, w.caller, a.recorder, call.Answers{Blobs: a.ledger}, runs.RemoteConfig{
			Agents: a.agent, Adapter: adapter, Metrics: a.metrics, Draining: a.draining,
			TenantShare: a.cfg.TenantShare(),
		}),
	})
	a.work.runs = r // a reload refreshes it
	return processors.Kind{Executor: r, WritesStarted: r.WritesStarted}
}

// chats is kind chat.
func (a *App) chats(w *workshop) processors.Kind {
	adapter := model.New(w.client, a.secrets, model.Config{Event: int64(a.cfg.Limits.Response), Stream: int64(a.cfg.Limits.Stream)})
	p := chat.New(a.ledger, w.caller, a.recorder, w.answers, chat.Config{
		Models: a.models, Adapter: adapter, Budgets: a.budgetLimiter, Mac: a.seal.Mac, Metrics: a.metrics, Draining: a.draining,
	})
	return processors.Kind{Executor: p, Ended: p.Ended}
}

// taskReader is the holder of a task's token as a reader of its own task only. It keeps the lease,
// and changes no task.
func (a *App) taskReader(ctx context.Context, token string) (egress.Reader, error) {
	v, err := a.taskService.Look(ctx, token)
	if err != nil {
		return egress.Reader{}, err
	}
	a.taskService.Touch(ctx, v.Ref, v.Lease)
	who := v.Identity()
	return egress.Reader{Tenant: who.Tenant, Entries: who.Entries, Models: who.Models, Task: who.Task(), Model: who.Holding.Model}, nil
}

// openModels begins to follow the lists of models that providers have.
func (a *App) openModels(ctx context.Context) error {
	if !a.role.works() && !a.role.shows() {
		return nil
	}
	a.lists = listed.New(a.broker.Bucket(schemas.ModelBucket), a.log)
	if err := a.lists.Start(ctx); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	a.teardown.push(func(context.Context) error { a.lists.Stop(); return nil })
	return nil
}

// providerModels is an upstream's own list of models.
func (a *App) providerModels(up schemas.ModelUpstream) []schemas.ListedModel {
	if a.lists == nil {
		return nil
	}
	return a.lists.Models(up)
}

// newListing makes what reads those lists. Its calls are made as all calls are, and belong to no action.
func (a *App) newListing(adapter *direct.Adapter, calls call.Config) *listing.Refresher {
	return listing.New(listing.Config{
		Upstreams: func() []schemas.ModelUpstream { return a.models().Listing() }, Lists: a.lists,
		Caller: call.New(call.Unlogged{}, a.guard, adapter, calls), Adapter: adapter,
		Record: a.recorder.Record, Logger: a.log,
	})
}
