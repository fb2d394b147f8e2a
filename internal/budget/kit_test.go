package budget

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begun is when tests begin: in the middle of an hour.
var begun = time.Date(2026, 3, 4, 5, 30, 0, 0, time.UTC)

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// shelf is a bucket in memory.
type shelf struct {
	now func() time.Time

	mu       sync.Mutex
	last     uint64
	records  map[string]schemas.Record
	gets     int
	puts     int
	barriers int
	// before is called, unlocked, before each put; its error is the put's, and stored says
	// that the value is put all the same.
	before  func(key string) (stored bool, err error)
	down    error
	barrier error
}

func newShelf(now func() time.Time) *shelf {
	return &shelf{now: now, records: map[string]schemas.Record{}}
}

func (s *shelf) Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	stored, lost := true, error(nil)
	if s.before != nil {
		stored, lost = s.before(key)
	}
	if ctx.Err() != nil {
		return 0, fault.ErrUnavailable
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	if s.records[key].Seq != last {
		return 0, fault.ErrFenced
	}
	if stored {
		s.store(key, value)
	}
	return s.last, lost
}

func (s *shelf) set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(key, value)
}

// store needs the lock.
func (s *shelf) store(key string, value []byte) {
	s.last++
	s.records[key] = schemas.Record{Subject: key, Seq: s.last, Data: slices.Clone(value), Time: s.now()}
}

func (s *shelf) Get(_ context.Context, key string) (schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	r, ok := s.records[key]
	switch {
	case s.down != nil:
		return r, s.down
	case !ok:
		return r, fault.ErrNotFound
	}
	return r, nil
}

func (s *shelf) Forget(_ context.Context, key string, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[key].Seq <= revision {
		delete(s.records, key)
	}
	return s.down
}

func (s *shelf) Read(_ context.Context, after uint64, limit int) ([]schemas.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []schemas.Record
	for _, r := range s.records {
		if r.Seq > after {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b schemas.Record) int { return int(a.Seq) - int(b.Seq) })
	return all[:min(limit, len(all))], s.down
}

func (s *shelf) Barrier(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barriers++
	return s.barrier
}

// account is what is stored under the only key that begins like this.
func (s *shelf) account(t *testing.T, begin string) *account {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *account
	for key, r := range s.records {
		if !strings.HasPrefix(key, begin) {
			continue
		}
		require.Nil(t, found, "two accounts begin with "+begin)
		found = &account{}
		require.NoError(t, json.Unmarshal(r.Data, found))
	}
	require.NotNil(t, found, begin)
	return found
}

// bench is a book over a shelf, with a clock.
type bench struct {
	*Book
	*clock
	shelf *shelf
}

func open(budgets ...schemas.Budget) *bench {
	c := &clock{now: begun}
	s := newShelf(c.Now)
	return &bench{NewBook(s, Config{Budgets: func() []schemas.Budget { return budgets }, Now: c.Now}), c, s}
}

// another is a book of another node over the same shelf.
func (b *bench) another() *Book { return NewBook(b.shelf, b.cfg) }

// order is a completion of at most 100 tokens, 40 of them the prompt.
func order(action string) Order {
	return Order{
		Tenant: "t", Action: action, Token: "k1", Models: []string{"openai/m"}, Prompt: 40, Output: 60,
		Prices: []*schemas.ModelPrice{{Input: 1_000, Output: 2_000, Request: 5}}, Until: begun.Add(15 * time.Minute),
	}
}

// cost of an order of 40 and 60 tokens.
const cost = 40 + 120 + 5

func used(prompt, completion, nanos int64) *schemas.ChatUsage {
	return &schemas.ChatUsage{Prompt: prompt, Completion: completion, Total: prompt + completion, Nanos: nanos, Priced: true}
}

func (b *bench) reserve(t *testing.T, o Order) Grant {
	t.Helper()
	g, err := b.Reserve(t.Context(), o)
	require.NoError(t, err)
	return g
}

func (b *bench) refused(t *testing.T, o Order) *Refusal {
	t.Helper()
	_, err := b.Reserve(t.Context(), o)
	var r *Refusal
	require.ErrorAs(t, err, &r)
	return r
}

func (b *bench) end(t *testing.T, o Order, u *schemas.ChatUsage) {
	t.Helper()
	require.NoError(t, b.Settle(t.Context(), o, u))
}
