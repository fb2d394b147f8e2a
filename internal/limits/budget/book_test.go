package budget

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

// TestWhoseAccounts: each order touches those of the budgets that are about it.
func TestWhoseAccounts(t *testing.T) {
	t.Parallel()
	budgets := []schemas.Budget{
		{Name: "tenant", Per: []string{schemas.PerTenant}, Requests: 1},
		{Name: "token", Per: []string{schemas.PerToken}, Requests: 1},
		{Name: "task", Per: []string{schemas.PerTask}, Requests: 1}, // refused by the configuration, and apart from the tasks' own all the same
		{Name: "pair", Per: []string{schemas.PerToken, schemas.PerModel}, Requests: 1},
		{Name: "models", Models: []string{"openai/*", "x"}, Requests: 1},
		{Name: "tenants", Tenants: []string{"u", "v"}, Requests: 1},
	}
	b := open(budgets...)
	type testCase struct {
		order Order
		want  []string // tenant.budget.token.task.model
	}
	for name, tc := range map[string]testCase{
		"a token":  {Order{Tenant: "t", Token: "k", Models: []string{"openai/m"}}, []string{"t.tenant...", "t.token.k..", "t.pair.k..openai/m", "t.models..."}},
		"nobody's": {Order{Tenant: "u", Models: []string{"y"}}, []string{"u.tenant...", "u.token...", "u.pair...y", "u.tenants..."}},
		"a task": {
			Order{Tenant: "t", Token: "k", Task: "j", Models: []string{"y"}, TaskBudget: &schemas.TaskBudget{USD: 0.0000000015}},
			[]string{"t.task..j.", "t.tenant...", "t.token.k..", "t.task..j.", "t.pair.k..y"},
		},
		"a subtoken": {
			Order{Tenant: "t", Token: "k", Task: "j", Models: []string{"y"}, Subtokens: []schemas.SubtokenBudget{
				{N: 3, TaskBudget: schemas.TaskBudget{Requests: 1}}, {N: 2}, {N: 1, TaskBudget: schemas.TaskBudget{Tokens: 1}},
			}},
			[]string{"t.task..j/3.", "t.task..j/1.", "t.tenant...", "t.token.k..", "t.task..j.", "t.pair.k..y"},
		},
	} {
		var got []string
		for _, s := range b.targets(tc.order) {
			p, ok := readKey(s.key())
			require.True(t, ok)
			require.Equal(t, p.budget, s.budget)
			got = append(got, strings.Join([]string{p.tenant, p.budget, p.token, p.task, p.model}, "."))
		}
		require.Equal(t, tc.want, got, name)
	}
	for want, given := range map[sum]*schemas.TaskBudget{
		{}:                                 {},
		{Requests: 1, Tokens: 2}:           {Requests: 1, Tokens: 2},
		{Nanos: 100_000_000}:               {USD: 0.1},
		{Nanos: 4_611_686_018_427_387_904}: {USD: 1e300},
	} {
		require.Equal(t, want, taskLimit(given))
		apart := open().targets(Order{Tenant: "t", TaskBudget: given, Models: []string{"y"}})
		require.Empty(t, apart, "without a task there is no such account")
	}
	require.Equal(t, sum{}, taskLimit(nil))
	none := open()
	require.Equal(t, Grant{}, none.reserve(t, order("a")))
	none.end(t, order("a"), used(1, 1, 1))
	require.Empty(t, none.shelf.Records)
	require.Zero(t, none.shelf.Barriers)
	require.Empty(t, NewLimiter(none.shelf, Config{}).targets(order("a")))
}

// several are three budgets of which the second bears least.
func several() []schemas.Budget {
	return []schemas.Budget{
		{Name: "wide", Tokens: 1_000, Nanos: 10_000},
		{Name: "tight", Per: []string{schemas.PerToken}, Tokens: 70},
		{Name: "count", Requests: 10, Window: time.Hour},
	}
}

// TestAllOrNone of the accounts hold it.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	b := open(several()...)
	r := b.refused(t, order("a"))
	require.Equal(t, "tight", r.Source)
	require.Empty(t, b.account(t, "t.wide.").Holds)

	o := order("a")
	o.Elastic = true
	g := b.reserve(t, o)
	require.Equal(t, Grant{Output: 30, Cap: "tight", Limits: g.Limits}, g)
	require.Len(t, g.Limits, 4)
	for _, begin := range []string{"t.wide.", "t.tight."} {
		require.EqualValues(t, 30, b.account(t, begin).Holds["a"].Output, "no more is held than is given")
	}
	require.EqualValues(t, 40+60+5, b.account(t, "t.wide.").Holds["a"].Nanos)
	for range 2 {
		puts := b.shelf.Puts
		again := b.reserve(t, o)
		require.Equal(t, g.Output, again.Output)
		require.Equal(t, puts, b.shelf.Puts, "a repeat finds what it holds")
	}
	b.end(t, o, used(40, 10, 65))
	for _, begin := range []string{"t.wide.", "t.tight.", "t.count."} {
		require.Equal(t, sum{1, 50, 65}, b.account(t, begin).Used, begin)
	}
	require.Equal(t, 1, b.shelf.Barriers)

	fits := order("b")
	fits.Prompt, fits.Output = 10, 10
	g = b.reserve(t, fits)
	require.Equal(t, Grant{Output: 10, Cap: "wide", Limits: g.Limits}, g)
	counted := open(schemas.Budget{Name: "n", Requests: 1})
	g = counted.reserve(t, fits)
	require.Equal(t, Grant{Limits: []schemas.ChatLimit{{Source: "n", What: schemas.BudgetRequests, Limit: 1}}}, g)
}

var errCrash = errors.New("the worker has died")

// TestCrashes: wherever a worker dies while it holds or settles, whoever goes on comes to
// what one that lives would have come to.
func TestCrashes(t *testing.T) {
	t.Parallel()
	o := order("a")
	o.Elastic = true
	ledger := func(b *bench) map[string]account {
		all := map[string]account{}
		for _, r := range b.shelf.Records {
			a := b.account(t, r.Subject)
			a.Done = nil
			all[r.Subject] = *a
		}
		return all
	}
	whole := open(several()...)
	granted := whole.reserve(t, o)
	atHold := ledger(whole)
	reserves := whole.shelf.Puts
	whole.end(t, o, used(40, 10, 65))
	atEnd := ledger(whole)
	total := whole.shelf.Puts
	require.Equal(t, 4, reserves, "three accounts, and one of them again for what the tight one left")
	require.Equal(t, 7, total)
	for put := range total {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprint(put, stored), func(t *testing.T) {
				t.Parallel()
				b := open(several()...)
				n := 0
				b.shelf.Before = func(string) (bool, error) {
					if n++; n == put+1 {
						return stored, errCrash
					}
					return true, nil
				}
				worker := b.Limiter
				g, err := worker.Reserve(t.Context(), o)
				if put < reserves {
					require.ErrorIs(t, err, errCrash)
					worker = b.another()
					g, err = worker.Reserve(t.Context(), o)
				}
				require.NoError(t, err)
				require.Equal(t, granted.Output, g.Output)
				require.Equal(t, atHold, ledger(b))
				err = worker.Settle(t.Context(), o, used(40, 10, 65))
				if put >= reserves {
					require.ErrorIs(t, err, errCrash)
					worker = b.another()
					err = worker.Settle(t.Context(), o, used(40, 10, 65))
				}
				require.NoError(t, err)
				require.Equal(t, atEnd, ledger(b))
				require.NoError(t, b.another().Settle(t.Context(), o, nil), "what was charged is not given back")
				require.Equal(t, atEnd, ledger(b))
			})
		}
	}
}

func TestNobodyKnowsWhetherItWasStored(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		b := open(tokens(1_000))
		n := 0
		b.shelf.Before = func(string) (bool, error) {
			if n++; n%2 == 1 {
				return stored, fault.ErrUnavailable
			}
			return true, nil
		}
		for i := range 5 {
			o := order(strconv.Itoa(i))
			b.reserve(t, o)
			b.end(t, o, used(1, 1, 1))
		}
		require.Equal(t, sum{5, 10, 5}, b.account(t, "t.b.").Used)
	}
	b := open(tokens(1_000))
	for tries, err := range map[int]error{8: fault.ErrUnavailable, 1: fault.ErrFull} {
		b.shelf.Before, b.shelf.Puts = func(string) (bool, error) { return false, err }, 0
		_, got := b.Reserve(t.Context(), order("a"))
		require.ErrorIs(t, got, err)
		require.Equal(t, tries, b.shelf.Puts)
	}
	b.shelf.Before, b.shelf.Broken = nil, errors.New("no disk")
	require.ErrorIs(t, b.Settle(t.Context(), order("a"), nil), b.shelf.Broken, "a repeat promises as much as the first")
	b.shelf.Down = errors.New("gone")
	_, err := b.List(t.Context(), "t")
	for _, err := range []error{err, b.Tidy(t.Context()), b.Settle(t.Context(), order("a"), nil)} {
		require.ErrorIs(t, err, b.shelf.Down)
	}
}

// TestUnreadableAccounts stay, and bear nothing; all others are settled.
func TestUnreadableAccounts(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"x", `{"v":2}`, `{"v":1,"used":{"t":"1"}}`} {
		b := open(schemas.Budget{Name: "first", Tokens: 1_000}, tokens(1_000), schemas.Budget{Name: "last", Tokens: 1_000})
		key := b.targets(order("a"))[1].key()
		b.set(key, []byte(value))
		r := b.refused(t, order("a"))
		require.Equal(t, &Refusal{Source: "b", Spent: true, Unreadable: true}, r)
		require.Contains(t, r.Error(), "budget b ")
		require.Empty(t, b.account(t, "t.first.").Holds)

		good := b.shelf.Newest(key).Data
		b.set(key, nil)
		b.reserve(t, order("a"))
		b.set(key, good) // a newer version was there
		another := b.another()
		barriers := b.shelf.Barriers
		var out bytes.Buffer
		another.cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
		require.NoError(t, another.Settle(t.Context(), order("a"), used(10, 10, 0)))
		require.Equal(t, 1, strings.Count(out.String(), "budget_account_unreadable"))
		require.EqualValues(t, 20, b.account(t, "t.first.").Used.Tokens)
		require.EqualValues(t, 20, b.account(t, "t.last.").Used.Tokens)
		require.Equal(t, barriers+1, b.shelf.Barriers)
		b.shelf.Broken = errors.New("no disk")
		require.ErrorIs(t, another.Settle(t.Context(), order("a"), used(10, 10, 0)), b.shelf.Broken, "which is to be repeated")
		b.shelf.Broken = nil

		b = open(tokens(1_000))
		key = b.targets(order("a"))[0].key()
		b.set(key, []byte(value))
		list, err := b.List(t.Context(), "t")
		require.NoError(t, err)
		require.Empty(t, list)
		limits, err := b.Look(t.Context(), order("a"))
		require.NoError(t, err)
		require.Empty(t, limits)
		require.NoError(t, b.Tidy(t.Context()))
		require.Equal(t, value, string(b.shelf.Newest(key).Data))
		b.set(key, nil) // deleted with other tools
		b.reserve(t, order("a"))
	}
}

// TestAnyOrderOfEvents: two nodes hold and settle as it comes, clocks a little apart, and
// no account ever has more than its limit where nobody uses more than was held.
func TestAnyOrderOfEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		budgets := []schemas.Budget{
			{Name: "w", Requests: 7, Tokens: 900, Window: time.Minute},
			{Name: "m", Nanos: 4_000, Per: []string{schemas.PerModel}},
		}
		b := open(budgets...)
		nodes := []*Limiter{b.Limiter, NewLimiter(b.shelf, Config{
			Budgets: b.cfg.Budgets, Now: func() time.Time { return b.Now().Add(-300 * time.Millisecond) },
		})}
		open, done := map[string]Order{}, []Order{}
		for i := range 150 {
			node := nodes[r.IntN(2)]
			switch keys := slices.Sorted(maps.Keys(open)); {
			case r.IntN(3) > 0:
				o := order(strconv.Itoa(i))
				o.Elastic, o.Output, o.Models = r.IntN(2) == 0, r.Int64N(200), []string{strconv.Itoa(r.IntN(2))}
				o.Until = b.Now().Add(time.Hour)
				g, err := node.Reserve(t.Context(), o)
				if _, refused := errors.AsType[*Refusal](err); refused {
					break
				}
				require.NoError(t, err)
				if o.Output = g.Output; r.IntN(4) > 0 {
					open[o.Action] = o
				}
			case len(keys) > 0:
				o := open[keys[r.IntN(len(keys))]]
				delete(open, o.Action)
				out := r.Int64N(o.Output + 1)
				c := o.claim()
				require.NoError(t, node.Settle(t.Context(), o, used(40, out, c.nanos(out))))
				done = append(done, o)
			case len(done) > 0:
				require.NoError(t, node.Settle(t.Context(), done[r.IntN(len(done))], used(40, 50, 1_000)))
			}
			b.pass(time.Duration(r.IntN(2_000)) * time.Millisecond)
			for _, r := range b.shelf.Records {
				key := r.Subject
				a, p := b.account(t, key), mustPlace(t, key)
				limit := limitOf(budgets[slices.IndexFunc(budgets, func(b schemas.Budget) bool { return b.Name == p.budget })])
				s := a.at(b.Now().Add(-time.Hour), a.Window)
				all := s.used.plus(s.held)
				require.True(t, limit.Requests == 0 || all.Requests <= limit.Requests, "%s %v", key, s)
				require.True(t, limit.Tokens == 0 || all.Tokens <= limit.Tokens, "%s %v", key, s)
				require.True(t, limit.Nanos == 0 || all.Nanos <= limit.Nanos, "%s %v", key, s)
			}
		}
	}
}

func mustPlace(t *testing.T, key string) owner {
	t.Helper()
	p, ok := readKey(key)
	require.True(t, ok)
	return p
}

// TestNodesShareTheAccounts: whichever node is faster, no more is granted than there is, and all of
// that; and each end is charged once, on whichever node it is heard.
func TestNodesShareTheAccounts(t *testing.T) {
	t.Parallel()
	const fit = 37
	b := open(schemas.Budget{Name: "team", Per: []string{schemas.PerToken, schemas.PerModel}, Tokens: fit*100 + 99}, schemas.Budget{Name: "wide", Requests: 1_000})
	nodes := []*Limiter{b.Limiter, b.another()}
	var all sync.WaitGroup
	var granted sync.Map
	for i := range 100 {
		all.Go(func() {
			o := order(strconv.Itoa(i % 80)) // some are redelivered to another
			_, err := nodes[(i+i/80)%2].Reserve(t.Context(), o)
			if _, refused := errors.AsType[*Refusal](err); err == nil {
				granted.Store(o.Action, true)
			} else if !refused {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, b.account(t, "t.team.").Holds, fit)
	require.Len(t, b.account(t, "t.wide.").Holds, fit, "what the first refused, the second holds no more")
	n := 0
	granted.Range(func(action, _ any) bool {
		n++
		for _, node := range nodes {
			all.Go(func() {
				if err := node.Settle(t.Context(), order(fmt.Sprint(action)), used(1, 2, 3)); err != nil {
					t.Error(err)
				}
			})
		}
		return true
	})
	all.Wait()
	require.Equal(t, fit, n)
	require.Equal(t, sum{fit, fit * 3, fit * 3}, b.account(t, "t.team.").Used)
}

// TestSeatsOfAllThatMayAnswer: who names a model that a budget does not know before the one
// that answers comes past none: it is held for both, and charged to the one that used it.
func TestSeatsOfAllThatMayAnswer(t *testing.T) {
	t.Parallel()
	b := open(
		schemas.Budget{Name: "dear", Per: []string{schemas.PerTenant}, Models: []string{"dear"}, Requests: 1},
		schemas.Budget{Name: "each", Per: []string{schemas.PerModel}, Tokens: 10_000},
		schemas.Budget{Name: "all", Per: []string{schemas.PerTenant}, Tokens: 10_000},
	)
	o := order("a")
	o.Models = []string{"cheap", "dear"}
	b.reserve(t, o)
	second := order("b")
	second.Models = o.Models
	refused := b.refused(t, second)
	require.Equal(t, "dear", refused.Source)

	used := schemas.ChatUsage{Prompt: 5, Completion: 6, Total: 11}
	o.Shares = map[string]schemas.ChatUsage{"dear": used}
	require.NoError(t, b.Settle(t.Context(), o, &used))
	views, err := b.List(t.Context(), "t")
	require.NoError(t, err)
	got := map[string]float64{}
	for _, v := range views {
		if v.Tokens != nil {
			got[v.Budget+"/"+v.Model] = v.Tokens.Used
		}
		require.Zero(t, v.Open)
	}
	require.Equal(t, map[string]float64{"all/": 11, "each/cheap": 0, "each/dear": 11}, got)
	_, err = b.Reserve(t.Context(), second)
	require.ErrorAs(t, err, &refused, "its one request is used")
}
