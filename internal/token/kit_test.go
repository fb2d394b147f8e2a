package token

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store in memory that several nodes share.
type shelf struct {
	mu       sync.Mutex
	last     uint64
	newest   map[string]schemas.Record
	watchers map[int]watcher
	down     error // every call fails
	barrier  error
	deaf     bool // watchers hear nothing
	puts     []string
	barriers int
	before   func() // called, unlocked, before a put
}

type watcher struct {
	fn   func(schemas.Record)
	lost func()
}

func newShelf() *shelf {
	return &shelf{newest: map[string]schemas.Record{}, watchers: map[int]watcher{}}
}

func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shelf) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return 0, s.down
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case s.newest[key].Seq != last:
		return 0, fault.ErrFenced
	}
	s.puts = append(s.puts, key)
	return s.store(key, value), nil
}

// store needs the lock.
func (s *shelf) store(key string, value []byte) uint64 {
	s.last++
	r := schemas.Record{Subject: key, Seq: s.last, Data: slices.Clone(value)}
	s.newest[key] = r
	if !s.deaf {
		for _, w := range s.watchers {
			w.fn(r)
		}
	}
	return s.last
}

func (s *shelf) Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil || ctx.Err() != nil {
		return nil, s.down
	}
	var all []schemas.Record
	for _, r := range s.newest {
		if r.Seq > after {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b schemas.Record) int { return int(a.Seq) - int(b.Seq) })
	return all[:min(len(all), limit)], nil
}

func (s *shelf) Watch(fn func(schemas.Record), lost func()) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	n := len(s.watchers)
	s.watchers[n] = watcher{fn, lost}
	return func() { s.mu.Lock(); defer s.mu.Unlock(); delete(s.watchers, n) }, nil
}

func (s *shelf) Forget(ctx context.Context, key string, upTo uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil || ctx.Err() != nil {
		return s.down
	}
	if s.newest[key].Seq <= upTo {
		delete(s.newest, key)
	}
	return nil
}

func (s *shelf) Barrier(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barriers++
	return s.barrier
}

// root is an admin of the operator's tenant that lies in no store.
func root() schemas.Token {
	return schemas.Token{ID: "rootrootrootroot", Tenant: schemas.Operator, Scopes: []string{schemas.ScopeAdmin}}
}

// node starts a keeper. In a bubble it is stopped before the bubble's end.
func node(t *testing.T, s Store, cfg Config) *Keeper {
	t.Helper()
	k := New(s, cfg)
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	return k
}

func (k *Keeper) make(t *testing.T, req schemas.TokenRequest) schemas.NewToken {
	t.Helper()
	if req.Name == "" {
		req.Name = "n"
	}
	if req.Scopes == nil {
		req.Scopes = []string{schemas.ScopeActionsRead}
	}
	made, err := k.Create(t.Context(), root(), req)
	require.NoError(t, err)
	return made
}

// list is all that a tenant is shown on one page.
func (k *Keeper) list(t *testing.T, tenant string) []schemas.Token {
	t.Helper()
	page, err := k.List(tenant, "", 1000)
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Items
}

func bearing(text string) []string { return []string{"Bearer " + text} }

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	var public *fault.Error
	require.ErrorAs(t, err, &public)
	return public.Code
}

// pass lets a clock of a bubble run.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
