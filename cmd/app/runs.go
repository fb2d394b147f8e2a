package app

import (
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/runs"
)

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
