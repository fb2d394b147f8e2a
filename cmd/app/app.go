package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/cli"
	"weir/egress"
	"weir/egress/stream"
	"weir/ingress"
	"weir/ingress/proxy"
	"weir/ingress/tasks"
	"weir/internal/activetasks"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/config"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/limits/budget"
	"weir/internal/limits/destination"
	"weir/internal/models/listed"
	"weir/internal/outbound"
	"weir/internal/rules"
	"weir/internal/secrets"
	"weir/internal/telemetry"
	"weir/internal/token"
	"weir/processors/guard"
	"weir/processors/janitor"
	"weir/processors/settle"
	"weir/processors/tunnel"
)

// Options is what an App needs to be made.
type Options struct {
	Config config.Config
	// Role is which parts of Weir the process runs. Any but RoleAll needs an external log.
	Role Role
	// Environ is where secrets are looked up.
	Environ []string
	// NewAdmin makes another first admin token, for when every other is lost.
	NewAdmin bool
	// AcceptLoss starts on a damaged log, without the records that are gone.
	AcceptLoss bool
	// Log takes the structured log.
	Log io.Writer
	// Load reads the configuration again, for a reload of the policy. Absent:
	// it never changes.
	Load func() (config.Config, error)
	// File is watched for changes of the configuration; empty: none is.
	File string
	// Notices takes warnings that quote the configuration, which Log must not hold, one a line in the
	// format of the log; nil: they are dropped.
	Notices io.Writer
	// Network replaces DNS and the network in tests. Absent: the real ones.
	Network Network
	// Janitor is the pace at which overdue actions are looked for, in tests. Absent: its
	// defaults.
	Janitor janitor.Config
}

// Network replaces DNS and the network, so that tests can be every upstream without leaving the
// machine. Absent parts are the real ones. A custom dialler skips the final address check, which is
// made when the socket is created; the check of the resolved addresses stays.
type Network struct {
	Resolver outbound.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	RootCAs  *x509.CertPool
}

// over puts the stand-ins into a configuration.
func (n Network) over(c outbound.Config) outbound.Config {
	c.Resolver, c.Dial, c.RootCAs = n.Resolver, n.Dial, n.RootCAs
	return c
}

// App is a Weir in one process: the embedded broker or a connection to an external one,
// the parts of its role and the HTTP server. Start returns when it is ready to serve;
// Stop drains it.
type App struct {
	opts    Options
	cfg     config.Config // that of opts
	role    Role          // as above
	log     *slog.Logger
	metrics *telemetry.Metrics
	traces  *telemetry.Traces     // nil: no collector
	traced  sync.WaitGroup        // requests with unsent spans
	current atomic.Pointer[dated] // the policy that decides now, exchanged as a whole
	clients []*outbound.Client    // whose idle connections end with a policy
	guard   *guard.Guard
	reload  reloading
	worker  string
	started time.Time

	tokens     *token.Keeper // in open mode for agents and git alone
	firstAdmin bool          // one was made at this start

	recorder *settle.Recorder
	seal     *settle.Seal
	secrets  *secrets.Store

	destinations  *destination.Limiter
	activeTasks   *activetasks.Cache
	taskService   *tasks.Service
	budgetLimiter *budget.Limiter
	lists         *listed.Keeper // nil: the role neither reads nor shows providers' models
	repositories  repositories

	rules *rules.Keeper

	memory    *limits.Shares // of large answers; see reserve
	backingUp sync.Mutex     // held during a backup

	server   *embedded.Server
	broker   *broker.Broker
	ledger   *ledger.Ledger
	feed     *stream.Feed // nil: the role answers no requests
	index    egress.Index // none: the role shows no lists
	ingress  *ingress.Server
	egress   *egress.Server
	surfaces *surfaces
	work     workers
	http     *httpServer
	proxy    *httpServer // the forward proxy; nil: there is none
	tunnels  *tunnel.Tunnels
	// inspected serves the requests in tunnels, whose TLS inspector ends; nil: there is no CA
	inspected *httpServer
	inspector *proxy.Inspector
	teardown  stack
	stopping  atomic.Bool
	draining  chan struct{} // closed when nothing new may begin
}

// New makes an App. With the embedded broker it starts its parts in the order of the
// data's way, but takes no work and no requests yet; an external log may not be there yet,
// and is left to Start. What an error leaves behind is torn down.
func New(ctx context.Context, opts Options) (_ *App, err error) {
	a := &App{
		opts: opts, cfg: opts.Config, role: opts.Role,
		metrics: telemetry.NewMetrics(), worker: workerName(), started: time.Now().UTC().Truncate(time.Second), draining: make(chan struct{}),
	}
	a.current.Store(&dated{}) // no policy denies everything
	built := cli.Built()
	a.metrics.SetBuild(built.Version, built.Revision)
	a.memory = limits.NewShares(limits.Percent(int64(a.cfg.Limits.Answers), a.cfg.TenantShare()))
	a.log = a.metrics.NewLogger(opts.Log, opts.Config.Telemetry.LogLevel, opts.Config.Telemetry.LogFormat)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.teardown.unwind(context.WithoutCancel(ctx)))
		}
	}()
	if a.role != RoleAll && a.cfg.Embedded() {
		return nil, cli.Usage(fmt.Errorf("the role %s works on a log that others share: set nats.url", a.role))
	}
	if err := errors.Join(a.listen(ctx), a.listenProxy(ctx)); err != nil {
		return nil, err
	}
	if !a.cfg.Embedded() {
		_, err := a.draw(a.cfg) // report an invalid policy or file at once
		if err := errors.Join(err, externalLog(a.cfg).CheckFiles()); err != nil {
			return nil, cli.Usage(err)
		}
		return a, nil
	}
	return a, a.openServices(ctx)
}

// openServices opens the log and what the role does with it, in the order of the data's way.
func (a *App) openServices(ctx context.Context) error {
	steps := []func(context.Context) error{a.openTracing, a.openBroker, a.openTokens, a.openRules, a.openPolicy}
	if a.role.works() {
		steps = append(steps, a.openEvidence)
	}
	steps = append(steps, a.openDestinations, a.openBudgets, a.openModels)
	if a.role.answers() {
		steps = append(steps, a.openTasks)
	}
	steps = append(steps, a.openGit)
	if a.role.answers() {
		steps = append(steps, a.openEgress)
	}
	steps = append(steps, a.openSurfaces)
	if a.role.works() {
		steps = append(steps, a.openProcessors)
	}
	for _, step := range append(steps, a.openHTTP) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Start begins to work and to serve. With an external log it serves the node's reports about itself
// at once. It returns when the log can be used and all routes are served, or with an error that
// waiting cannot cure. Until then, and whenever the log cannot be reached later, /readyz reports it
// and requests are answered 503.
func (a *App) Start(ctx context.Context) error {
	began := time.Now()
	start := a.startWork
	if !a.cfg.Embedded() {
		start = a.await
	}
	if err := start(ctx); err != nil {
		return err
	}
	if a.role.works() { // once: the parts may have been opened more than once
		a.metrics.QueueLag(a.broker.Lag) //nolint:contextcheck // a scrape has its own time
	}
	if a.role != RoleEgress {
		a.metrics.TenantBytes(a.broker.StoredByTenant)
	}
	a.startProxy()
	a.startHTTP()
	if a.role.accepts() {
		if err := a.openRPC(a.broker); err != nil {
			return err
		}
	}
	if err := a.hearNodes(ctx); err != nil {
		return err
	}
	a.watchFile(ctx)
	a.metrics.StartupDone(time.Since(began))
	a.log.LogAttrs(ctx, slog.LevelInfo, "serving", slog.String("addr", a.http.addr()), slog.String("durability", string(a.broker.Durability())),
		slog.String("policy_version", a.policy().Version()), slog.String("component", a.role.String()))
	return nil
}

// Stop accepts no more requests and no more work, waits for running work for as long as
// workers.drain says, and closes everything. The default is longer than any HTTP call may take, so
// that a stop leaves no call's outcome unknown. The run of a remote agent may take hours: a run
// that is not over by then loses its agent, and the next worker ends it as outcome_unknown. Stop
// may be called twice.
func (a *App) Stop(ctx context.Context) error {
	if !a.stopping.CompareAndSwap(false, true) {
		return nil
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "draining")
	close(a.draining)
	ctx, cancel := context.WithTimeout(ctx, a.cfg.DrainTimeout()+5*time.Second)
	defer cancel()
	err := a.teardown.unwind(ctx)
	a.log.LogAttrs(ctx, slog.LevelInfo, "stopped")
	return err
}

// URL is where the HTTP surfaces are.
func (a *App) URL() string { return "http://" + a.http.addr() }

// NATS is where the embedded server listens, or nothing.
func (a *App) NATS() string {
	if a.server == nil {
		return ""
	}
	return a.server.Addr()
}

// Failed is closed when the node must not go on: its disk refused a sync or a write.
func (a *App) Failed() <-chan struct{} {
	if a.server == nil {
		return nil
	}
	return a.server.Failed()
}

func (a *App) listen(ctx context.Context) (err error) {
	if a.http, err = a.listenAt(ctx, a.cfg.Listen); err != nil {
		return fmt.Errorf("listen: %w; is another Weir running? choose another address with --listen", err)
	}
	return nil
}

// listenAt opens an address, and makes a server that serves nothing yet.
func (a *App) listenAt(ctx context.Context, address string) (*httpServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, family(address), address)
	if err != nil {
		return nil, err
	}
	a.teardown.push(func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return a.newServer(l), nil
}

// startPart starts a part, which the teardown stops.
func (a *App) startPart(ctx context.Context, name string, part interface {
	Start(ctx context.Context) error
	Stop()
},
) error {
	if err := part.Start(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.teardown.push(func(context.Context) error { part.Stop(); return nil })
	return nil
}

// listenFor handles the notices on a subject until the teardown.
func (a *App) listenFor(subject string, handle func(subject string)) error {
	forget, err := a.broker.Listen(subject, func(subject string, _ []byte) { handle(subject) })
	if err == nil {
		a.teardown.push(func(context.Context) error { forget(); return nil })
	}
	return err
}

// family keeps an address of IPv4 to it: net takes 0.0.0.0 for every address
// there is, those of IPv6 too.
func family(listen string) string {
	if at, err := netip.ParseAddrPort(listen); err == nil && at.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// workerName names this process in attempts: never the same twice.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "weir"
	}
	return fmt.Sprintf("%s-%d-%x", filepath.Base(host), os.Getpid(), time.Now().UnixNano())
}

// stack holds what must be undone, in the order in which it was done. A failed
// New and an ordinary Stop unwind the same stack.
type stack struct {
	undo []func(context.Context) error
}

// push registers the teardown of something that was just made.
func (s *stack) push(f func(context.Context) error) { s.undo = append(s.undo, f) }

// unwind undoes everything, the last first, and leaves the stack empty.
func (s *stack) unwind(ctx context.Context) error { return s.unwindTo(ctx, 0) }

// depth is how much there is to undo.
func (s *stack) depth() int { return len(s.undo) }

// unwindTo undoes what was done since the stack had a depth.
func (s *stack) unwindTo(ctx context.Context, depth int) error {
	var errs []error
	for _, undo := range slices.Backward(s.undo[depth:]) {
		errs = append(errs, undo(ctx))
	}
	s.undo = s.undo[:depth]
	return errors.Join(errs...)
}
