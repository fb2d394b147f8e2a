package processors_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/upstream"
	"weir/processors"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
)

var layout = harness.Layout()

// first is the action of a test that has one.
var first = schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "a"}

// assemble makes a pipeline of calls and plans.
func assemble(w harness.Worker, g *guard.Guard, a call.Adapter) *processors.Pipeline {
	w.Caller = call.New(w.Ledger, g, a, call.Config{
		Worker: w.Name, Barrier: w.Barrier, Schedule: retry.Schedule{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond},
	})
	w.Kinds = func(r *settle.Recorder) map[schemas.Kind]processors.Kind {
		return map[schemas.Kind]processors.Kind{
			schemas.KindHTTP: {Executor: executor.New(w.Caller, r, call.Answers{Blobs: w.Ledger})}, schemas.KindPlan: {Executor: plans.New(w.Caller, r)},
		}
	}
	return w.Pipeline()
}

// env is a log and a target that outlive the workers that use them.
type env struct {
	harness.Life
	log *memlog.Log

	mu     sync.Mutex
	sent   int       // requests that reached the target
	keys   []string  // the idempotency keys of those
	opened int       // connections to it that were asked for
	deaf   bool      // no event is acknowledged, though it is stored
	late   time.Time // until when a replica answers that shows nothing

	during func()                     // runs while the first request is out
	refuse func(schemas.Append) error // what the log says to an append; nil: it takes all
	stored func(schemas.Append) error // the same after it has stored the append

	entries []policy.Entry // of the policy; nil: the entry "up"

	book rulebook.Book // the traffic rules
}

func newEnv() *env {
	h := &env{}
	hooks := h.Hooks(func(m schemas.Append) error {
		if h.refuse == nil {
			return nil
		}
		return h.refuse(m)
	})
	hooks.After = func(m schemas.Append, _ uint64) error {
		if h.stored != nil {
			if err := h.stored(m); err != nil {
				return err
			}
		}
		if err := h.Step(true); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.deaf && strings.HasPrefix(m.Subject, schemas.LogRoot) {
			return fault.ErrUnavailable
		}
		return nil
	}
	hooks.Late = func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		if time.Now().Before(h.late) {
			return 1000
		}
		return 0
	}
	h.log = memlog.New(layout, time.Now, hooks)
	return h
}

func (h *env) Open(_ context.Context, p guard.Pass) (call.Exchange, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opened++
	return exchange{h, p.Mocked(), p.Call().IdempotencyKey}, nil
}

type exchange struct {
	h      *env
	mocked bool
	key    string
}

func (exchange) Close() {}

func (x exchange) Do(_ context.Context, _ guard.Pass, begun func()) (*call.Reply, error) {
	if begun != nil {
		begun()
	}
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	if during := x.h.during; during != nil {
		x.h.during = nil
		x.h.mu.Unlock()
		during()
		x.h.mu.Lock()
	}
	if x.h.Dead() {
		return nil, &fault.Call{Code: schemas.UpstreamReset}
	}
	if !x.mocked {
		x.h.sent++
		x.h.keys = append(x.h.keys, x.key)
	}
	return &call.Reply{Answer: schemas.Answer{Status: 200, JSON: true, Hash: "x", Body: json.RawMessage(`{"ok":true}`)}}, nil
}

type nowhere struct{}

func (nowhere) Wake(context.Context, schemas.Ref, time.Time) error { return nil }

// worker is a pipeline of its own, as a new process has it.
func (h *env) worker(t *testing.T, name string) *processors.Pipeline {
	t.Helper()
	return h.employ(t, harness.Worker{Name: name, Alone: true, Waker: nowhere{}})
}

func (h *env) employ(t *testing.T, w harness.Worker) *processors.Pipeline {
	t.Helper()
	var p harness.Policy
	entries := h.entries
	if entries == nil {
		entries = []policy.Entry{{
			Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "PUT", "POST"},
			UpstreamIdempotency: &policy.Idempotency{TTL: time.Hour},
		}}
	}
	p.Enforce(t, entries...)
	w.Log, w.Ledger, w.Barrier = h.log, ledger.New(h.log, layout, time.Now), h.Barrier
	return assemble(w, guard.New(p.InForce, &h.book), h)
}

// accept claims an action for a call and returns its accepted record.
func (h *env) accept(t *testing.T, c schemas.HTTPCall) schemas.Record {
	t.Helper()
	return h.claim(t, schemas.KindHTTP, c)
}

func (h *env) claim(t *testing.T, kind schemas.Kind, doc any) schemas.Record {
	t.Helper()
	return harness.Accepted(t, h.log, harness.Claim(t, h.ingressLedger(), schemas.Action{Kind: kind}, doc).Ref)
}

// store puts an accepted message of the first action on the log as it is.
func (h *env) store(t *testing.T, data []byte) schemas.Record {
	t.Helper()
	_, err := h.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(first, schemas.SectionAccepted), Data: data})
	require.NoError(t, err)
	return harness.Accepted(t, h.log, first)
}

// ingressLedger is the log as ingress has it.
func (h *env) ingressLedger() *ledger.Ledger { return ledger.New(h.log, layout, time.Now) }

// state is the first action as it is on the log.
func (h *env) state(t *testing.T) *ledger.State {
	t.Helper()
	return harness.Load(t, h.ingressLedger(), first)
}

// evidence are the records by id, with how often each is stored.
func (h *env) evidence(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, e := range harness.Evidence(t, h.log, "") {
		found[e.ID]++
	}
	return found
}

// alarm is a Waker that notes when it is to wake whom.
type alarm struct {
	mu      sync.Mutex
	at      map[string]time.Time
	setting func() // runs while one is set
}

func (a *alarm) Wake(_ context.Context, ref schemas.Ref, at time.Time) error {
	if a.setting != nil {
		a.setting()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[ref.ID] = at
	return nil
}

// dormitory is a pipeline whose log hands every nudge to it, as the broker does.
type dormitory struct {
	*env
	alarm    *alarm
	ledger   *ledger.Ledger
	pipeline *processors.Pipeline
	handled  chan error // what became of each nudge
}

func newDormitory(t *testing.T) *dormitory {
	t.Helper()
	d := &dormitory{env: newEnv(), alarm: &alarm{at: map[string]time.Time{}}, handled: make(chan error, 1000)}
	d.ledger = ledger.New(d.log, layout, time.Now)
	d.pipeline = d.node(t, "w1", true)
	stop, err := d.log.Live(schemas.LiveLog+".>", func(r schemas.Record) {
		if _, _, section := schemas.Split(r.Subject); section == schemas.SectionWake {
			d.handled <- d.pipeline.Handle(context.Background(), r, true)
		}
	}, nil)
	require.NoError(t, err)
	t.Cleanup(stop)
	return d
}

// node is one of the processes that share the log.
func (d *dormitory) node(t *testing.T, name string, alone bool) *processors.Pipeline {
	t.Helper()
	return d.employ(t, harness.Worker{Name: name, Alone: alone, Waker: d.alarm})
}

// put claims an action of tenant mine and handles it.
func (d *dormitory) put(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, d.pipeline.Handle(t.Context(), d.take(t, id, "POST"), true))
}

// take claims an action of tenant mine and gives its accepted record.
func (d *dormitory) take(t *testing.T, id, method string) schemas.Record {
	t.Helper()
	st := harness.Claim(t, d.ledger, schemas.Action{
		ID: id, Tenant: "mine", Kind: schemas.KindHTTP, Deadline: time.Now().Add(10 * time.Minute),
	}, schemas.HTTPCall{Method: method, URL: "http://up.example/" + id})
	return harness.Accepted(t, d.log, st.Ref)
}

// state is that of an action of tenant mine.
func (d *dormitory) state(t *testing.T, id string) *ledger.State {
	t.Helper()
	return harness.Load(t, d.ledger, schemas.Ref{Tenant: "mine", Kind: schemas.KindHTTP, ID: id})
}

// waits is how often tenant mine's action has said what it waits for.
func (d *dormitory) waits(t *testing.T) (n int) {
	t.Helper()
	for _, ev := range d.state(t, "one").Events {
		if ev.Waiting != nil {
			n++
		}
	}
	return n
}

// site is a pipeline over the real client, whose policy can be exchanged while
// a call is anywhere on its way.
type site struct {
	log    *memlog.Log
	guard  *guard.Guard
	policy atomic.Pointer[policy.Policy]
	book   rulebook.Book
	server *upstream.Server

	pipeline *processors.Pipeline
	ledger   *ledger.Ledger

	sensitive bool // of the next action

	// The points of a call's way at which a test may act; each runs once. offering
	// is a connection's first write, and known on pipes only.
	dialled, written, read, offering func()
	once                             [4]sync.Once
}

// at is one of those points.
func (s *site) at(i int, f *func()) {
	if *f != nil {
		s.once[i].Do(*f)
	}
}

// newSite is a site whose policy lets the tests' call pass.
func newSite(t *testing.T, behaviours ...upstream.Behaviour) *site {
	t.Helper()
	s := &site{server: upstream.New(t, behaviours...)}
	names := upstream.NewNetwork(s.server.Addr(), map[string][][]string{"*": upstream.Answers("93.184.216.34")})
	s.build(t, outbound.Config{Resolver: names, Dial: names.Dial})
	s.reload(t, up(nil))
	return s
}

// build makes everything over one network.
func (s *site) build(t *testing.T, network outbound.Config) {
	t.Helper()
	s.guard = guard.New(s.policy.Load, &s.book)
	s.log = memlog.New(layout, time.Now, memlog.Hooks{After: func(m schemas.Append, _ uint64) error {
		var ev schemas.Event
		if json.Unmarshal(m.Data, &ev) == nil && ev.Type == schemas.EventAttempt {
			s.at(1, &s.written)
		}
		return nil
	}})
	dial := network.Dial
	network.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		s.at(0, &s.dialled)
		return conn, err
	}
	client := outbound.New(network)
	t.Cleanup(client.Close)
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) {
		s.at(2, &s.read)
		return "value-of-" + strings.TrimPrefix(name, secrets.EnvPrefix), true
	}})
	s.ledger = ledger.New(s.log, layout, time.Now)
	w := harness.Worker{Name: "w", Alone: true, Log: s.log, Ledger: s.ledger, Waker: nowhere{}, Barrier: harness.NoBarrier}
	s.pipeline = assemble(w, s.guard, direct.New(client, store, redact.New(nil)))
}

// reload puts a policy of these entries in force, as a node does: when it
// returns, what the policy denies begins no more.
func (s *site) reload(t *testing.T, entries ...policy.Entry) {
	t.Helper()
	p, err := policy.Compile(policy.Config{Entries: entries})
	if assert.NoError(t, err) {
		s.policy.Store(p)
		assert.NoError(t, s.guard.Settle(context.Background()))
	}
}

// claim stores an action and returns its accepted record.
func (s *site) claim(t *testing.T, c schemas.HTTPCall) schemas.Record {
	t.Helper()
	return harness.Accepted(t, s.log, harness.Claim(t, s.ledger, schemas.Action{
		Kind: schemas.KindHTTP, Principal: "token1", Sensitive: s.sensitive,
	}, c).Ref)
}

func (s *site) handle(t *testing.T, rec schemas.Record) *ledger.State {
	t.Helper()
	require.NoError(t, s.pipeline.Handle(t.Context(), rec, true))
	st := harness.Load(t, s.ledger, first)
	require.NotNil(t, st.Settled)
	return st
}

func (s *site) records(t *testing.T) []schemas.Evidence {
	t.Helper()
	return harness.Evidence(t, s.log, "")
}

func up(change func(*policy.Entry)) policy.Entry {
	e := policy.Entry{
		Name: "up", URLPrefix: "http://up.example/", Methods: []string{"GET", "POST"}, Redirects: 2,
		Headers: map[string]string{"X-Key": "${secret:ONE}"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
	}
	if change != nil {
		change(&e)
	}
	return e
}

// elsewhere is the policy that lets nothing of the tests pass.
func elsewhere() policy.Entry {
	return policy.Entry{Name: "other", URLPrefix: "http://other.example/"}
}
