package app

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"weir/egress"
	"weir/egress/index"
	"weir/egress/stream"
	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/tasks"
	"weir/internal/activetasks"
	"weir/internal/broker"
	"weir/internal/broker/access"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/limits/budget"
	"weir/internal/limits/destination"
	"weir/internal/models/listed"
	"weir/internal/redact"
	"weir/internal/telemetry"
	"weir/internal/token"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/agent"
	"weir/processors/call/direct"
	"weir/processors/call/model"
	"weir/processors/chat"
	"weir/processors/listing"
	"weir/processors/runs"
	"weir/schemas"
	published "weir/schemas/json"
)

func (a *App) layout() schemas.Layout {
	return schemas.Layout{Partitions: a.cfg.Log.Partitions}
}

// externalLog is the log of a configuration, as far as it does not depend on who opens it.
func externalLog(c config.Config) broker.Config {
	return broker.Config{
		URL: c.NATS.URL, Creds: c.NATS.Creds, TLS: broker.TLS(c.NATS.TLS),
		Layout:  schemas.Layout{Partitions: c.Log.Partitions},
		History: c.Log.History, TenantShare: c.TenantShare(), Durability: c.Log.Durability, Replicas: c.Log.Replicas,
	}
}

// addProcessor adds one processor to the Go scheduler's default, once for the process. A thread in
// a sync keeps its processor until the scheduler takes it back: on two cores, half of the program
// waited for the disk. An operator's GOMAXPROCS stays as it is. See ADR 0005.
var addProcessor = sync.OnceFunc(func() { //nolint:gochecknoglobals // GOMAXPROCS is one
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})

func (a *App) openBroker(ctx context.Context) error {
	cfg := externalLog(a.cfg)
	cfg.Role, cfg.Logger, cfg.Metrics = access.Role(a.role.String()), a.log, a.metrics
	if a.cfg.Embedded() {
		addProcessor()
		server, err := embedded.Start(embedded.Config{
			Dir: a.cfg.Data, Layout: a.layout(), Durability: a.cfg.Log.Durability,
			Listen: a.cfg.NATS.Listen, AcceptLoss: a.opts.AcceptLoss, Logger: a.log,
		})
		if err != nil {
			return err
		}
		a.server, cfg.Server = server, server
		a.teardown.push(func(context.Context) error { return server.Stop() })
		// The soft limit is below the server's own limit, whatever the file says.
		if limit := int64(a.cfg.Log.MaxBytes); limit > 0 && limit < server.MaxBytes()/16*15 {
			cfg.MaxBytes = limit
		}
	}
	b, err := broker.Open(ctx, cfg)
	if err != nil {
		return err
	}
	a.broker = b
	a.reportLoss()
	a.teardown.push(func(ctx context.Context) error { b.Close(ctx); return nil })
	a.ledger = ledger.New(b, a.layout(), nil)
	return nil
}

// copies is on how many servers of a cluster the log lies; 0: it is this node's.
func (a *App) copies() int {
	if a.cfg.Embedded() {
		return 0
	}
	return a.cfg.Log.Replicas
}

// openTasks begins to follow the tasks that have not ended, and creates the task service, through
// which agents and people change them.
func (a *App) openTasks(ctx context.Context) error {
	a.activeTasks = activetasks.New(a.broker, activetasks.Config{Layout: a.layout(), Logger: a.log})
	if err := a.startPart(ctx, "tasks", a.activeTasks); err != nil {
		return err
	}
	a.taskService = tasks.NewService(a.ledger, a.activeTasks, a.broker.Bucket(schemas.LeaseBucket), tasks.Config{
		Verify:  func(text string) (schemas.Token, error) { return a.verify(token.Bearer("Bearer " + text)) },
		Barrier: a.broker.Barrier, Lease: a.cfg.Tasks.Lease, Rate: a.cfg.Auth.Rate, Draining: a.draining,
	})
	return nil
}

// openEgress makes the servers of ingress and egress, and opens the feed that
// both answer by.
func (a *App) openEgress(context.Context) error {
	out := egress.NewServer(a.broker, a.ledger, egress.Config{
		Layout: a.layout(), Live: a.broker, Reader: a.reader, Holder: a.taskReader, Redactor: redact.New(a.cfg.RedactHeaders), Reserve: a.reserve,
	})
	cfg := stream.Config{
		Layout: a.layout(), Result: out.Result, Part: out.Part, Logger: a.log,
		HTTP: stream.HTTP{Watching: a.metrics.SSE, Watch: a.watch},
	}
	if a.broker.Durability() != schemas.DurabilityProcess { // otherwise a stored record may be shown at once
		cfg.Barrier, cfg.Reserved = a.broker.Barrier, a.broker.Reserved
	}
	feed, err := stream.Open(a.broker, a.broker, cfg)
	if err != nil {
		return err
	}
	a.feed = feed
	a.teardown.push(func(context.Context) error { a.feed.Close(); return nil })
	if a.role.shows() {
		a.index = a.openIndex(a.feed)
	}
	a.ingress, a.egress = a.newIngress(out), out
	return nil
}

// openSurfaces completes both servers with the surfaces.
func (a *App) openSurfaces(context.Context) error {
	if !a.role.answers() {
		a.surfaces = a.descriptions() //nolint:contextcheck // requests bring their own
		return nil
	}
	a.surfaces = a.allSurfaces(a.ingress, a.egress) //nolint:contextcheck // requests bring their own
	a.egress.Follow(a.feed, a.surfaces.out)
	return nil
}

// openIndex begins to follow the log for lists and figures. The file is opened when it
// is first needed: nothing waits for it.
func (a *App) openIndex(feed *stream.Feed) egress.Index {
	x := index.New(a.broker, feed, index.Config{Layout: a.layout(), Path: a.cfg.IndexPath(), Log: a.log})
	x.Start()
	a.teardown.push(func(context.Context) error { x.Close(); return nil })
	return egress.Index{Actions: x.List, Stats: x.Stats, Usage: x.Usage, Refs: x.Refs}
}

// service is what a node of every role reports about itself.
func (a *App) service() egress.Surface {
	cfg := egress.ServiceConfig{
		Ready:         schemas.Readiness{Role: string(a.role), Durability: a.broker.Durability(), Replicas: a.copies(), Partitions: a.cfg.Log.Partitions},
		Reader:        a.reader,
		PolicyVersion: func() string { return a.policy().Version() },
		AllowedHosts:  func() []string { return a.policy().AllowedHosts() },
		Checks: []egress.Check{
			{Name: "log", Run: a.broker.Ready},
			{Name: "accepting", Run: a.accepting},
		},
		Metrics: a.metrics.Handler(), OpenAPI: published.OpenAPI(), Allow: a.allow, Backup: a.backup,
	}
	if a.feed != nil {
		cfg.Checks = append(cfg.Checks, egress.Check{Name: "feed", Run: a.feed.Ready})
	}
	return egress.Service(cfg)
}

// errDraining is why a node that is stopping is not ready.
var errDraining = errors.New("the node is stopping")

func (a *App) accepting(context.Context) error {
	if a.stopping.Load() {
		return errDraining
	}
	return nil
}

// newIngress is the server of ingress, which replies by that of egress.
func (a *App) newIngress(out *egress.Server) *ingress.Server {
	return ingress.NewServer(a.ledger, ingress.Config{
		Accept: accept.Config{
			Barrier: a.broker.Barrier, Durability: a.broker.Durability(),
			Deadlines: a.deadlines(), Longest: a.cfg.LongestAction(),
			Caller: func(id string) string { return a.tokens.Name(id) },
			Pressure: accept.NewPressure(a.broker, accept.PressureConfig{
				Queued: uint64(max(a.cfg.Limits.Queued, 0)), QueuedPerTenant: uint64(max(a.cfg.Limits.QueuedPerTenant, 0)),
				Stored: a.broker.TenantQuota,
			}),
		},
		Authenticate: a.authenticate, Sender: a.sender, Reply: out.Reply, Expect: out.Expect,
		MaxBody: int64(a.cfg.Limits.Body), Metrics: a.metrics, Logger: a.log,
		Memory: limits.NewShares(limits.Percent(int64(a.cfg.Limits.Answers), a.cfg.TenantShare())).Acquire,
	})
}

// deadlines are how long the actions of each kind may take.
func (a *App) deadlines() map[schemas.Kind]time.Duration {
	d := a.cfg.Deadline
	return map[schemas.Kind]time.Duration{
		schemas.KindHTTP: d.HTTP, schemas.KindPlan: d.Plan, schemas.KindRun: d.Run,
		schemas.KindTask: d.Task, schemas.KindPush: d.Push, schemas.KindRepo: d.Repo,
		schemas.KindChat: d.Chat, schemas.KindPassthrough: d.Passthrough, schemas.KindRule: 30 * time.Second,
	}
}

// stopWork notifies the worker of a running action that it must stop. If the message is lost, the
// worker that receives the cancel from the log stops it later.
func (a *App) stopWork(ref schemas.Ref) {
	if err := a.broker.Notify(schemas.CancelSubject(ref), nil); err != nil {
		a.log.Warn("cancel_announcement_failed", "err_kind", telemetry.ErrKind(err))
	}
}

// openDestinations mirrors the operators' holds, and the workers' notices about destinations. A
// worker that is alone on its log sends no notices.
func (a *App) openDestinations(ctx context.Context) error {
	var shared destination.Store
	if !a.cfg.Embedded() && (a.role.works() || a.role.shows()) {
		shared = a.broker.Bucket(schemas.DestinationBucket)
	}
	a.destinations = destination.New(a.broker.Bucket(schemas.OperationBucket), shared, destination.Config{
		Worker: a.worker, Notify: a.ledger.Notify, Barrier: a.broker.Barrier, Logger: a.log, Metrics: a.metrics,
	})
	return a.startPart(ctx, "destinations", a.destinations)
}

// operationsView lists the paused and pinned calls, with the reasons.
func (a *App) operationsView() schemas.OperationsView {
	v := schemas.OperationsView{Items: a.destinations.Operations(), Destinations: a.destinations.Destinations()}
	if v.Items == nil {
		v.Items = []schemas.Operation{}
	}
	return v
}

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
	if a.role.accepts() { // the others may write no lease
		a.taskService.Touch(ctx, v.Ref, v.Lease)
		a.keepLease(ctx, v)
	}
	who := v.Identity()
	own := schemas.Token{Tenant: who.Tenant, Entries: who.Entries, Models: who.Models}
	return egress.Reader{Token: own, Task: who.Task(), Model: who.Holding.Model}, nil
}

// openModels begins to follow the lists of models that providers have.
func (a *App) openModels(ctx context.Context) error {
	if !a.role.works() && !a.role.shows() {
		return nil
	}
	a.lists = listed.New(a.broker.Bucket(schemas.ModelBucket), a.log)
	return a.startPart(ctx, "models", a.lists)
}

// newListing makes what reads those lists. Its calls are made as all calls are, and belong to no action.
func (a *App) newListing(adapter *direct.Adapter, calls call.Config) *listing.Refresher {
	return listing.New(listing.Config{
		Upstreams: func() []schemas.ModelUpstream { return a.models().Listing() }, Lists: a.lists,
		Caller: call.New(call.Unlogged{}, a.guard, adapter, calls), Adapter: adapter,
		Record: a.recorder.Record, Logger: a.log,
	})
}
