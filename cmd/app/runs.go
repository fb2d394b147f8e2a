package app

import (
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/outbound"
	"weir/internal/secrets"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/executor"
	"weir/processors/plans"
	"weir/processors/runs"
	"weir/processors/settle"
)

// runs performs kind run: Weir's own task types by what performs the other
// kinds, and the rest by the agents in force.
func (a *App) runs(adapter *agent.Adapter, caller *call.Caller, recorder *settle.Recorder, calls *executor.Executor, planned *plans.Plans) *runs.Runs {
	return runs.New(a.ledger, runs.Config{
		HTTP: calls, Plans: planned, Draining: a.draining,
		Remote: runs.NewRemote(a.ledger, caller, recorder, call.Answers{Blobs: a.ledger}, runs.RemoteConfig{
			Agents: a.agent, Adapter: adapter, Metrics: a.metrics, Draining: a.draining,
			TenantShare: a.cfg.TenantShare(),
		}),
	})
}

// agentAdapter speaks the run contract through client, with the secrets of store.
func agentAdapter(c config.Config, client *outbound.Client, store *secrets.Store) *agent.Adapter {
	return agent.New(client, store, agent.Config{Event: int64(c.Limits.Response), Stream: int64(c.Limits.Stream)})
}

// agentTypes are the task types that a configuration has an agent for, in order.
func agentTypes(c config.Config) []string { return slices.Sorted(maps.Keys(c.RunAgents())) }
