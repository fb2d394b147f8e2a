package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"weir/internal/broker"
	"weir/internal/config"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/git"
	"weir/processors/janitor"
	"weir/processors/listing"
	"weir/processors/plans"
	"weir/processors/runs"
	"weir/processors/settle"
	"weir/schemas"
)

// workers is the processors, wired.
type workers struct {
	pipeline *processors.Pipeline
	worker   *processors.Worker
	runs     *runs.Runs
	listing  *listing.Refresher
}

// workshop is what the executors of the kinds share.
type workshop struct {
	client  *outbound.Client
	adapter *direct.Adapter
	caller  *call.Caller
	answers call.Answers
	calls   *executor.Executor
	plans   *plans.Plans
	repos   git.Config
}

func (a *App) newWorkshop(client *outbound.Client, adapter *direct.Adapter, caller *call.Caller) *workshop {
	w := &workshop{client: client, adapter: adapter, caller: caller, answers: call.Answers{Blobs: a.ledger, Reserve: a.reserve}}
	w.calls, w.plans = executor.New(caller, a.recorder, w.answers), plans.New(caller, a.recorder)
	r := &a.repositories
	w.repos = git.Config{
		Ledger: a.ledger, Recorder: a.recorder, Repos: r.table, Hosted: r.program, Spools: r.spools, Over: a.activeTasks.Over, Timeout: a.cfg.Git.Timeout,
		Upstream: git.Upstream{Forward: r.forward, Caller: caller, Answers: w.answers, Adapter: r.forward.Push},
		Limits:   packLimits(int64(a.cfg.Git.MaxPack)), Alone: a.cfg.Embedded(),
	}
	r.branch = git.NewBranches(w.repos)
	return w
}

// openEvidence opens what leaves evidence, and the secrets that no evidence may hold.
func (a *App) openEvidence(ctx context.Context) error {
	key, err := a.broker.SealKey(ctx)
	if err != nil {
		return err
	}
	a.secrets, a.seal = a.secretStore(), settle.NewSeal(key)
	a.recorder = settle.NewRecorder(broker.NewPublisher(a.broker), a.broker, a.metrics, a.seal)
	return nil
}

func (a *App) openProcessors(context.Context) error {
	client := outbound.New(a.opts.Network.over(outbound.Config{
		// The attempt's own timeout bounds the answer; nothing shorter is hidden here.
		HeaderTimeout: a.cfg.Policy.Timeout, BodyTimeout: a.cfg.Policy.Timeout,
		MaxBodyBytes: int64(a.cfg.Limits.Response), MaxHeaderBytes: int64(a.cfg.Limits.ResponseHeaders),
		Quota: a.answerQuota(),
	}))
	a.teardown.push(func(context.Context) error { client.Close(); return nil })
	a.clients = append(a.clients, client)
	a.openTunnels(client)
	adapter := direct.New(client, a.secrets, redact.New(a.cfg.RedactHeaders))
	calls := call.Config{
		Worker: a.worker, Barrier: a.broker.Barrier, Timeout: a.cfg.Policy.Timeout, Metrics: a.metrics, Draining: a.draining, Span: a.traces.CallParent,
		Destinations: a.destinations,
	}
	caller := call.New(a.ledger, a.guard, adapter, calls)
	a.work.listing = a.newListing(adapter, calls)
	pipeline := processors.New(processors.Config{
		Ledger: a.ledger, Waker: a.broker, Worker: a.worker, Alone: a.cfg.Embedded(), AckWait: a.broker.AckWait(),
		Kinds: a.surfaces.kinds(a.newWorkshop(client, adapter, caller)), Caller: caller, Evidence: a.recorder,
		DeadLetters: processors.DeadLetters{Publisher: broker.NewPublisher(a.broker), Metrics: a.metrics, Log: a.log},
		Barrier:     a.broker.Barrier, Metrics: a.metrics, Ended: a.traceEnd,
	})
	subscriber := broker.NewSubscriber(a.broker, broker.SubscriberConfig{
		Slots: a.cfg.Workers.Slots, SlotsOf: map[schemas.Kind]int{schemas.KindChat: a.cfg.Workers.Chats}, DrainTimeout: a.cfg.DrainTimeout(),
		Alone: a.cfg.Embedded(), Shared: !a.open(), Unhandled: a.surfaces.absent(),
	})
	worker, err := processors.NewWorker(pipeline, subscriber, delivery{}, processors.WorkerConfig{
		Partitions: a.cfg.Log.Partitions, DrainTimeout: a.cfg.DrainTimeout() + handBack, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.waking.Store(pipeline)
	a.work.pipeline, a.work.worker = pipeline, worker
	return nil
}

// answerQuota bounds the answers of a tenant: by the rest of its share of the log, and all large
// ones by the shared memory.
func (a *App) answerQuota() func(tenant string) outbound.Quota {
	return func(tenant string) outbound.Quota {
		bytes := max(a.broker.TenantQuota(tenant).Remaining(), broker.LeastAnswer)
		return outbound.Quota{Bytes: bytes, Reserve: func(ctx context.Context, n int64) (int64, func(), error) {
			release, err := a.memory.Acquire(ctx, tenant, n)
			if err != nil {
				return 0, nil, err
			}
			granted, stored := a.broker.ReserveAnswer(tenant, n) // now: others of its answers may have been stored meanwhile
			return granted, func() { stored(); release() }, nil
		}}
	}
}

// reserve waits until a tenant may use memory to load the objects with these names. An empty name
// counts nothing.
func (a *App) reserve(ctx context.Context, tenant string, blobs ...string) (release func(), err error) {
	size := int64(0)
	for _, name := range blobs {
		if name == "" {
			continue
		}
		n, err := a.broker.BlobSize(ctx, name)
		if err != nil {
			return nil, err
		}
		size += n
	}
	if size == 0 {
		return func() {}, nil
	}
	return a.memory.Acquire(ctx, tenant, size)
}

// handBack is how long the work that a drain has cut off may take to return to the log, so that the
// next worker has it at once.
const handBack = 2 * time.Second

// startWork begins to take work, and to receive cancels.
func (a *App) startWork(ctx context.Context) error {
	forget, err := a.broker.Listen(schemas.CancelRoot+".>", func(subject string, _ []byte) {
		if ref, ok := schemas.ParseCancel(subject); ok {
			a.work.pipeline.Stop(ref)
		}
	})
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { forget(); return nil })
	if err := a.work.worker.Start(ctx); err != nil {
		return errors.Join(err, a.work.worker.Stop())
	}
	a.startJanitor(ctx)
	a.work.listing.Start(ctx)
	a.teardown.push(func(context.Context) error { a.work.listing.Stop(); return nil })
	return nil
}

// startJanitor starts the search for overdue actions that no worker handles.
func (a *App) startJanitor(ctx context.Context) {
	cfg := a.opts.Janitor
	cfg.Layout, cfg.Worker, cfg.Alone, cfg.Metrics, cfg.Log = a.layout(), a.worker, a.cfg.Embedded(), a.metrics, a.log
	j := janitor.New(a.broker, a.broker.Bucket(schemas.JanitorBucket), a.ledger, cfg)
	j.Start(ctx)
	a.teardown.push(func(context.Context) error { j.Stop(); return nil })
}

// secretStore is the source of ${secret:NAME}.
func (a *App) secretStore() *secrets.Store { return secretStore(a.cfg, a.opts.Environ) }

func secretStore(c config.Config, environ []string) *secrets.Store {
	lookup := func(name string) (string, bool) {
		for _, kv := range environ {
			if k, v, ok := strings.Cut(kv, "="); ok && k == name {
				return v, true
			}
		}
		return "", false
	}
	return secrets.New(secrets.Config{Dir: c.Secrets.Dir, LookupEnv: lookup, AgeFile: c.Secrets.AgeFile, AgeIdentity: c.Secrets.AgeIdentity})
}

// delivery is the broker's knowledge of a message, for the worker.
type delivery struct{}

func (delivery) Record(m *message.Message) (schemas.Record, uint64) { return broker.RecordOf(m) }

func (delivery) NakAfter(m *message.Message, d time.Duration) { broker.NakAfter(m, d) }

func (delivery) Topics(partition int) []string { return broker.Topics(partition) }
