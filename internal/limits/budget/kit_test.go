package budget

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/bucket"
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

// account is what is stored under the only key that begins like this, whoever has made its holds.
func (b *bench) account(t *testing.T, begin string) (found *account) {
	t.Helper()
	b.shelf.Set(func(s *bucket.Bucket) {
		for _, r := range s.Records {
			if strings.HasPrefix(r.Subject, begin) {
				require.Nil(t, found, "two accounts begin with "+begin)
				found = &account{}
				require.NoError(t, json.Unmarshal(r.Data, found))
			}
		}
	})
	require.NotNil(t, found, begin)
	for action, h := range found.Holds {
		h.By = ""
		found.Holds[action] = h
	}
	return found
}

// set stores a value, whatever the key has.
func (b *bench) set(key string, value []byte) {
	b.shelf.Set(func(s *bucket.Bucket) { s.Store(key, value) })
}

// bench is a book over a shelf, with a clock.
type bench struct {
	*Limiter
	*clock
	shelf *bucket.Bucket
}

func open(budgets ...schemas.Budget) *bench {
	c := &clock{now: begun}
	s := bucket.New()
	s.Now = c.Now
	return &bench{NewLimiter(s, Config{Budgets: func() []schemas.Budget { return budgets }, Now: c.Now}), c, s}
}

// another is a book of another node over the same shelf.
func (b *bench) another() *Limiter { return NewLimiter(b.shelf, b.cfg) }

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

func (b *Limiter) reserve(t *testing.T, o Order) Grant {
	t.Helper()
	g, err := b.Reserve(t.Context(), o)
	require.NoError(t, err)
	return g
}

func (b *Limiter) refused(t *testing.T, o Order) *Refusal {
	t.Helper()
	_, err := b.Reserve(t.Context(), o)
	r, ok := errors.AsType[*Refusal](err)
	require.True(t, ok, "%v", err)
	return r
}

func (b *Limiter) end(t *testing.T, o Order, u *schemas.ChatUsage) {
	t.Helper()
	require.NoError(t, b.Settle(t.Context(), o, u))
}

func newAccount() *account {
	a := cloneAccount(account{V: version})
	return &a
}
