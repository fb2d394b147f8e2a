package tasks_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/tasks"
	"weir/internal/activetasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a desk over a log in memory, with places to plant faults.
type world struct {
	*tasks.Service
	ledger  *ledger.Ledger
	log     *memlog.Log
	accept  *accept.Acceptor
	control *actions.Control
	deaf    atomic.Bool // the cache misses what is stored
	cache   *activetasks.Cache
	leases  *leasesDouble
	drain   chan struct{}
	entries []string // of the tasks that are filed
	models  []string // likewise

	mu                     sync.Mutex
	now                    time.Time
	before, after, barrier error
	reads                  error
	between                func(schemas.Append) // runs once, before the next append
}

func (w *world) set(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) pass(d time.Duration) { w.set(func() { w.now = w.now.Add(d) }) }

func setup(tb testing.TB, change ...func(*tasks.Config)) *world {
	tb.Helper()
	w := &world{now: time.Now().UTC(), drain: make(chan struct{}), leases: &leasesDouble{}, entries: []string{"e"}}
	get := func(p *error) error { w.mu.Lock(); defer w.mu.Unlock(); return *p }
	layout := schemas.Layout{Partitions: 2}
	w.log = memlog.New(layout, w.clock, memlog.Hooks{
		Before: func(m schemas.Append) error {
			w.mu.Lock()
			f, err := w.between, w.before
			w.between = nil
			w.mu.Unlock()
			if f != nil {
				f(m)
			}
			return err
		},
		After: func(schemas.Append, uint64) error { return get(&w.after) },
		Read:  func() error { return get(&w.reads) },
		Deaf:  w.deaf.Load,
	})
	w.ledger = ledger.New(w.log, layout, w.clock)
	w.accept = accept.New(w.ledger, accept.Config{Now: w.clock})
	w.control = actions.New(w.ledger, actions.Config{})
	w.cache = activetasks.New(w.log, activetasks.Config{Layout: layout, Check: time.Hour})
	require.NoError(tb, w.cache.Start(context.Background()))
	tb.Cleanup(w.cache.Stop)
	cfg := tasks.Config{
		Verify: verify, Now: w.clock, Lease: time.Minute, Draining: w.drain,
		Barrier: func(context.Context) error { return get(&w.barrier) },
	}
	for _, f := range change {
		f(&cfg)
	}
	w.Service = tasks.NewService(w.ledger, w.cache, w.leases, cfg)
	return w
}

// verify knows tokens that say of themselves what they may.
func verify(token string) (schemas.Token, error) {
	t, ok := map[string]schemas.Token{
		"pool-1":   {ID: "p1", Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}},
		"pool-2":   {ID: "p2", Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}},
		"pool-x":   {ID: "px", Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}, Pools: []string{"x"}},
		"pool-e":   {ID: "pe", Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}, Entries: []string{"e", "f"}},
		"pool-f":   {ID: "pf", Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}, Entries: []string{"f"}},
		"stranger": {ID: "ps", Tenant: "other", Scopes: []string{schemas.ScopeTasksWork}},
		"reader":   {ID: "r", Tenant: "t", Scopes: []string{schemas.ScopeActionsRead}, Entries: []string{"e"}},
		"writer":   {ID: "w", Tenant: "t", Scopes: []string{schemas.ScopeTasksWrite}},
		"evidence": {ID: "v", Tenant: "t", Scopes: []string{schemas.ScopeEvidenceRead}},
		"admin":    {ID: "a", Tenant: "t", Scopes: []string{schemas.ScopeAdmin}},
	}[token]
	if !ok {
		return schemas.Token{}, fault.New(schemas.Unauthorized, "who are you")
	}
	return t, nil
}

// file stores a task, and its worker makes the branch. What comes back is its own token.
func (w *world) file(tb testing.TB, id string, change ...func(*schemas.TaskOrder)) (schemas.Ref, string) {
	tb.Helper()
	ref, token := w.queue(tb, id, change...)
	w.write(tb, ref, status(schemas.TaskEvent{What: schemas.TaskOpened, Base: "b1"}))
	return ref, token
}

// queue is file before the worker has looked.
func (w *world) queue(tb testing.TB, id string, change ...func(*schemas.TaskOrder)) (schemas.Ref, string) {
	tb.Helper()
	order := schemas.TaskOrder{Description: "d", Repo: "r", Pool: schemas.PoolDefault}
	for _, f := range change {
		f(&order)
	}
	payload, err := json.Marshal(order)
	require.NoError(tb, err)
	secret := w.Secret()
	out, err := w.accept.Accept(context.Background(), accept.Request{
		Name: accept.Name{ID: id, Source: schemas.IDRequest}, Timeout: time.Hour, Action: schemas.Action{
			Tenant: "t", Kind: schemas.KindTask, Payload: payload, Principal: "me", Entries: w.entries, Models: w.models, TokenHash: secret.Hash(),
		},
	})
	require.NoError(tb, err)
	return out.Ref, secret.Text(out.Ref, 0)
}

func pool(name string) func(*schemas.TaskOrder) {
	return func(o *schemas.TaskOrder) { o.Pool = name }
}

// write is somebody else's word.
func (w *world) write(tb testing.TB, ref schemas.Ref, events ...schemas.Event) {
	tb.Helper()
	st, err := w.ledger.Load(context.Background(), ref)
	require.NoError(tb, err)
	for _, ev := range events {
		require.NoError(tb, w.ledger.Append(context.Background(), st, ev))
	}
}

func status(e schemas.TaskEvent) schemas.Event {
	return schemas.Event{Type: schemas.EventStatus, Task: &e}
}

func settled(o schemas.Outcome) schemas.Event {
	return schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}}
}

// fold is the task as its events have it.
func (w *world) fold(tb testing.TB, ref schemas.Ref) (*task.State, *ledger.State) {
	tb.Helper()
	st, err := w.ledger.Load(context.Background(), ref)
	require.NoError(tb, err)
	s, err := task.Fold(st.Action, st.Action.Payload, st.Events)
	require.NoError(tb, err)
	return s, st
}

// whats are the events of the door, in order.
func (w *world) whats(tb testing.TB, ref schemas.Ref) (list []schemas.TaskWhat) {
	tb.Helper()
	_, st := w.fold(tb, ref)
	for _, ev := range st.Events {
		if ev.Type == schemas.EventSignal {
			list = append(list, ev.Task.What)
		}
	}
	return list
}

func code(tb testing.TB, err error) schemas.Code {
	tb.Helper()
	require.Error(tb, err)
	return problem.Of(err).Code
}

// lying is a cache that shows what it is told to, and never learns.
type lying []activetasks.Entry

func (l lying) Leasable(string, func(activetasks.Entry) bool, int) []activetasks.Entry { return l }

func (l lying) Held(string, string) (activetasks.Entry, bool) { return l[0], l[0].Leased }

func (l lying) Leases(string, string) (int, activetasks.Entry) { return 0, l[0] }

func (lying) CatchUp(context.Context) error { return nil }

func (lying) Changed(string) <-chan struct{} { return nil }

// believes has a service over a cache that lies.
func (w *world) believes(cache lying) {
	w.Service = tasks.NewService(w.ledger, cache, w.leases, tasks.Config{Verify: verify, Now: w.clock})
}

// leasesDouble keeps what was written.
type leasesDouble struct {
	mu     sync.Mutex
	writes []string
	broken error
}

func (l *leasesDouble) Set(_ context.Context, key string, value []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	l.writes = append(l.writes, key+" "+string(value))
	return uint64(len(l.writes)), nil
}

func (l *leasesDouble) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

// errOf is the error of a call whose value is of no interest.
func errOf[T any](_ T, err error) error { return err }

// errOf2 is errOf for a call of two values.
func errOf2[T, U any](_ T, _ U, err error) error { return err }

// take has a pool's token or a task's own lease a task, which must be there.
func (w *world) take(tb testing.TB, token string) (tasks.Access, string) {
	tb.Helper()
	v, secret, err := w.AuthorizeOrLease(tb.Context(), token)
	require.NoError(tb, err)
	return v, secret
}

// await leases a task that is there now; without one the token is empty.
func (w *world) await(tb testing.TB, who schemas.Token) (tasks.Access, string) {
	tb.Helper()
	v, secret, err := w.Await(tb.Context(), who, 0)
	require.NoError(tb, err)
	return v, secret
}
