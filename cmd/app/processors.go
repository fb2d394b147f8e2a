package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"weir/cmd/cli"
	"weir/internal/broker"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/telemetry"
	"weir/internal/traceparent"
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

// Without a method of theirs, evidence of these would be of another kind.
var _ = []processors.Attester{(*plans.Plans)(nil), (*runs.Runs)(nil)}

func (a *App) newWorkshop(client *outbound.Client, adapter *direct.Adapter, caller *call.Caller) *workshop {
	w := &workshop{client: client, adapter: adapter, caller: caller, answers: call.Answers{Blobs: a.ledger, Reserve: a.reserve}}
	w.calls, w.plans = executor.New(caller, a.recorder, w.answers), plans.New(caller, a.recorder)
	r := &a.repositories
	w.repos = git.Config{
		Ledger: a.ledger, Recorder: a.recorder, Repos: r.table, Hosted: r.program, Spools: r.spools, Over: a.activeTasks.Over, Timeout: a.cfg.Git.Timeout,
		Forward: r.forward, Caller: caller, Answers: w.answers, Adapter: r.forward.Push,
		Limits: packLimits(int64(a.cfg.Git.MaxPack)), Alone: a.cfg.Embedded(), Now: time.Now,
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
	a.secrets, a.seal = secretStore(a.cfg, a.opts.Environ), settle.NewSeal(key)
	a.recorder = settle.NewRecorder(a.broker, a.metrics, a.seal)
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
		DeadLetters: processors.DeadLetters{Sender: a.broker, Metrics: a.metrics, Log: a.log},
		Barrier:     a.broker.Barrier, Metrics: a.metrics,
		Ended: func(ctx context.Context, st *ledger.State) {
			a.traces.Ended(ctx, st.Action, st.Settled, st.Events, a.ledger.Blob)
		},
	})
	subscriber := broker.NewSubscriber(a.broker, broker.SubscriberConfig{
		Slots: a.cfg.Workers.Slots, SlotsOf: map[schemas.Kind]int{schemas.KindChat: a.cfg.Workers.Chats}, DrainTimeout: a.cfg.DrainTimeout(),
		Alone: a.cfg.Embedded(), Shared: !a.cfg.Open(), Unhandled: a.surfaces.absent(),
	})
	worker, err := processors.NewWorker(pipeline, subscriber, processors.WorkerConfig{
		Partitions: a.cfg.Log.Partitions, Topics: broker.Topics, Record: broker.RecordOf, NakAfter: broker.NakAfter,
		DrainTimeout: a.cfg.DrainTimeout() + handBack, Log: a.log,
	})
	if err != nil {
		return err
	}
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
	err := a.listenFor(schemas.CancelRoot+".>", func(subject string) {
		if ref, ok := schemas.ParseCancel(subject); ok {
			a.work.pipeline.Stop(ref)
		}
	})
	if err != nil {
		return err
	}
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
func secretStore(c config.Config, environ []string) *secrets.Store {
	vars := config.Variables(environ)
	lookup := func(name string) (value string, ok bool) { value, ok = vars[name]; return value, ok }
	return secrets.New(secrets.Config{Dir: c.Secrets.Dir, LookupEnv: lookup, AgeFile: c.Secrets.AgeFile, AgeIdentity: c.Secrets.AgeIdentity})
}

// openTracing opens the connection to a collector of spans, if the configuration names one. It
// comes before anything that sends spans, so that it is the last to close.
func (a *App) openTracing(ctx context.Context) error {
	if a.cfg.Telemetry.OTLP.Endpoint == "" {
		return nil // nil traces send nothing
	}
	client := outbound.Operator()
	base := strings.TrimRight(a.cfg.Telemetry.OTLP.Endpoint, "/")
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(client), otlptracehttp.WithEndpointURL(base+"/v1/traces"))
	if err != nil {
		return err
	}
	traces, err := a.metrics.NewTraces(ctx, telemetry.TracesConfig{
		Exporter: exporter, Idle: client.CloseIdleConnections, Version: cli.Version, Logger: a.log,
	})
	if err != nil {
		return err
	}
	a.traces = traces
	a.teardown.push(traces.Close)
	a.teardown.push(func(context.Context) error { a.traced.Wait(); return nil }) // the requests themselves have ended by then
	return nil
}

// trace links the work of a request to the caller's trace. With a collector each request is a span
// that ends with its answer; for a stream, when its last reader leaves. Without one, the caller's
// own span is passed on.
func (a *App) trace(c *gin.Context) {
	caller := ""
	if named := c.Request.Header.Values(schemas.HeaderTraceParent); len(named) == 1 && schemas.ValidTraceParent(named[0]) {
		caller = named[0]
	}
	var span *telemetry.Request
	if route := c.FullPath(); route != "" && !probes(route) {
		span = a.traces.Request(c.Request.Method, route, caller)
	}
	if span != nil {
		caller = span.TraceParent()
	}
	if caller == "" {
		return
	}
	ctx := c.Request.Context()
	c.Request = c.Request.WithContext(traceparent.With(ctx, caller))
	if span == nil {
		return
	}
	panics := true
	defer func() {
		status, action := c.Writer.Status(), c.Writer.Header().Get("Weir-Action-Id")
		switch {
		case panics:
			status = http.StatusInternalServerError
		case action == "" && status == http.StatusOK && strings.HasPrefix(c.FullPath(), "/v1/actions/:id"):
			action = c.Param("id") // there is one of that name
		}
		a.traced.Add(1)
		context.AfterFunc(ctx, func() {
			span.End(status, action)
			a.traced.Done()
		})
	}()
	c.Next()
	panics = false
}

// probes reports whether a route is polled by monitoring and belongs to no action.
func probes(route string) bool {
	switch route {
	case "/healthz", "/readyz", "/health", "/health/ready", "/ready", schemas.RouteAPI + "/ready", "/metrics":
		return true
	default:
		return false
	}
}
