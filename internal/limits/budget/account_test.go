package budget

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/models"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func tokens(n int64) schemas.Budget { return schemas.Budget{Name: "b", Tokens: n} }

// TestWhatFits: one account, so much used and held of it, and one order.
func TestWhatFits(t *testing.T) {
	t.Parallel()
	of := func(change func(*Order)) claim {
		o := order("a")
		if change != nil {
			change(&o)
		}
		return o.claim()
	}
	elastic := func(o *Order) { o.Elastic = true }
	type testCase struct {
		claim      claim
		limit      sum
		used, held sum
		output     int64
		why        *Refusal
	}
	table.Run(t, map[string]testCase{
		"nothing is bounded":                {of(nil), sum{}, sum{9, 9, 9}, sum{}, 60, nil},
		"to the last token":                 {of(nil), sum{Tokens: 100}, sum{}, sum{}, 60, nil},
		"one too many":                      {of(nil), sum{Tokens: 100}, sum{Tokens: 1}, sum{}, 0, &Refusal{What: schemas.BudgetTokens}},
		"one is held":                       {of(nil), sum{Tokens: 100}, sum{}, sum{Tokens: 1}, 0, &Refusal{What: schemas.BudgetTokens, Held: true}},
		"more than there is at all":         {of(nil), sum{Tokens: 99}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetTokens, Spent: true}},
		"a stream takes what is left":       {of(elastic), sum{Tokens: 99}, sum{Tokens: 40}, sum{Tokens: 10}, 9, nil},
		"a stream takes one token":          {of(elastic), sum{Tokens: 41}, sum{}, sum{}, 1, nil},
		"a stream takes no less":            {of(elastic), sum{Tokens: 42}, sum{Tokens: 2}, sum{}, 0, &Refusal{What: schemas.BudgetTokens}},
		"a stream of a prompt that is long": {of(elastic), sum{Tokens: 40}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetTokens, Spent: true}},
		"the last request":                  {of(nil), sum{Requests: 3}, sum{Requests: 1}, sum{Requests: 1}, 60, nil},
		"no request is left":                {of(nil), sum{Requests: 3}, sum{Requests: 3}, sum{}, 0, &Refusal{What: schemas.BudgetRequests}},
		"held of one, used of another":      {of(nil), sum{Requests: 2, Tokens: 100}, sum{Requests: 1, Tokens: 1}, sum{Requests: 1}, 0, &Refusal{What: schemas.BudgetTokens}},
		"no request is free":                {of(nil), sum{Requests: 3}, sum{Requests: 1}, sum{Requests: 2}, 0, &Refusal{What: schemas.BudgetRequests, Held: true}},
		"to the last of the money":          {of(nil), sum{Nanos: cost}, sum{}, sum{}, 60, nil},
		"a billionth short":                 {of(nil), sum{Nanos: cost}, sum{Nanos: 1}, sum{}, 0, &Refusal{What: schemas.BudgetUSD}},
		"overdrawn":                         {of(nil), sum{Nanos: cost}, sum{Nanos: 2 * cost}, sum{}, 0, &Refusal{What: schemas.BudgetUSD}},
		"more than all money":               {of(nil), sum{Nanos: cost - 1}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Spent: true}},
		"the dearest of a prompt": {of(func(o *Order) {
			o.Prices = []*schemas.ModelPrice{{Input: 1_000, Output: 2_000, Request: 5, CacheWrite: 1_025}}
		}), sum{Nanos: cost}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Spent: true}},
		"a stream takes what money is left":   {of(elastic), sum{Nanos: 100}, sum{Nanos: 20}, sum{Nanos: 10}, 12, nil},
		"a stream takes the money of a token": {of(elastic), sum{Nanos: 47}, sum{}, sum{}, 1, nil},
		"a stream without money":              {of(elastic), sum{Nanos: 46}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Spent: true}},
		"the least of two":                    {of(elastic), sum{Tokens: 60, Nanos: 100}, sum{}, sum{}, 20, nil},
		"nobody knows the price": {
			of(func(o *Order) { o.Prices = nil }),
			sum{Nanos: math.MaxInt64},
			sum{},
			sum{},
			0,
			&Refusal{What: schemas.BudgetUSD, Unpriced: true, Spent: true},
		},
		"the dearest of a shorter answer": {of(func(o *Order) {
			o.Prompt, o.Output, o.Elastic = 1_000, 2_000, true
			o.Prices = []*schemas.ModelPrice{{Output: 100_000}, {Input: 50_000, Output: 60_000}}
		}), sum{Nanos: 60_000}, sum{}, sum{}, 166, nil},
		"nobody knows one price":       {of(func(o *Order) { o.Prices = append(o.Prices, nil) }), sum{Nanos: 1 << 40}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Unpriced: true, Spent: true}},
		"nobody has to know the price": {of(func(o *Order) { o.Prices = nil }), sum{Tokens: 100}, sum{}, sum{}, 60, nil},
		"what costs nothing": {
			of(func(o *Order) { o.Prices = []*schemas.ModelPrice{{}} }), sum{Nanos: 1}, sum{Nanos: 7}, sum{}, 60, nil,
		},
		"cached tokens that cost more": {
			of(func(o *Order) { o.Prices[0].Cached = 10_000 }), sum{Nanos: 524}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Spent: true},
		},
		"stored tokens that cost more": {
			of(func(o *Order) { o.Prices[0].CacheWrite = 10_000 }), sum{Nanos: 524}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetUSD, Spent: true},
		},
		"a million answers": {
			of(func(o *Order) { o.Output = math.MaxInt64 }), sum{Tokens: 1_000}, sum{}, sum{}, 0, &Refusal{What: schemas.BudgetTokens, Spent: true},
		},
		"a million answers of a stream": {
			of(func(o *Order) { o.Output, o.Elastic = math.MaxInt64, true }), sum{Tokens: 1_000, Nanos: math.MaxInt64}, sum{}, sum{}, 960, nil,
		},
		"all at once is too much": {
			of(nil), sum{Tokens: math.MaxInt64}, sum{Tokens: math.MaxInt64}, sum{Tokens: math.MaxInt64}, 0, &Refusal{What: schemas.BudgetTokens},
		},
		"an answer that is not said": {of(func(o *Order) { o.Output = 0 }), sum{Tokens: 41}, sum{}, sum{}, 1, nil},
		"counts below zero":          {of(func(o *Order) { o.Output, o.Prompt = -5, -5 }), sum{Tokens: 1}, sum{}, sum{}, 1, nil},
	}, func(t *testing.T, tc testCase) {
		output, why := tc.claim.fit(standing{used: tc.used, held: tc.held}, tc.limit)
		require.Equal(t, tc.why, why)
		require.Equal(t, tc.output, output)
		if why != nil || tc.limit.Nanos == 0 || tc.used.Nanos > tc.limit.Nanos {
			return
		}
		left := tc.limit.Nanos - tc.used.Nanos - tc.held.Nanos
		require.LessOrEqual(t, tc.claim.nanos(output), left)
	})
}

// TestWhatANodeIsTold: when it is worth asking again, and when it is not.
func TestWhatANodeIsTold(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	windowed := schemas.Budget{Name: "b", Tokens: 100, Window: hour}
	left := func(remaining, resets int64) []schemas.ChatLimit {
		return []schemas.ChatLimit{{Source: "b", What: schemas.BudgetTokens, Limit: 100, Remaining: remaining, ResetMS: resets}}
	}
	for name, tc := range map[string]struct {
		budget  schemas.Budget
		spent   bool          // another completion has used 11 tokens; else it holds 100
		pass    time.Duration // before the question
		want    Refusal
		remains []schemas.ChatLimit
	}{
		"spent for good":         {tokens(100), true, 0, Refusal{Spent: true}, left(89, 0)},
		"held, without a window": {tokens(100), false, 0, Refusal{Held: true, After: heldAgain}, left(0, 0)},
		"used up in a window":    {windowed, true, 0, Refusal{After: 30 * time.Minute}, left(89, 1_800_000)},
		"held in a window":       {windowed, false, 0, Refusal{Held: true, After: heldAgain}, left(0, 1_800_000)},
		"held in a window that is all but over": {
			windowed, false, 30*time.Minute - 7*time.Millisecond, Refusal{Held: true, After: 7 * time.Millisecond}, left(0, 7),
		},
	} {
		b := open(tc.budget)
		o := order("z")
		o.Until = begun.Add(hour)
		b.reserve(t, o)
		if tc.spent {
			b.end(t, o, used(10, 1, 5))
		}
		b.pass(tc.pass)
		tc.want.Source, tc.want.What, tc.want.Limits = "b", schemas.BudgetTokens, tc.remains
		require.Equal(t, &tc.want, b.refused(t, order("a")), name)
	}
	b := open(schemas.Budget{Name: "b", Nanos: 1 << 40, Window: hour})
	o := order("a")
	o.Prices = nil
	r := b.refused(t, o)
	require.Equal(t, []any{true, true, schemas.BudgetUSD}, []any{r.Spent, r.Unpriced, r.What})
	require.EqualError(t, r, "budget b does not bear it: usd")
	require.Empty(t, b.shelf.Records)
}

// TestWindows: a completion counts in the one it was begun in, and in no other.
func TestWindows(t *testing.T) {
	t.Parallel()
	b := open(schemas.Budget{Name: "b", Requests: 2, Window: time.Hour})
	long := order("long")
	long.Until = begun.Add(5 * time.Hour)
	b.reserve(t, long)
	b.reserve(t, order("short"))
	b.end(t, order("short"), used(1, 1, 1))
	require.Equal(t, heldAgain, b.refused(t, order("a")).After, "it may end, and have been no request")
	b.pass(30*time.Minute - time.Millisecond)
	require.Error(t, b.refused(t, order("a")))
	b.pass(time.Millisecond)
	again := order("a")
	again.Until = begun.Add(2 * time.Hour)
	require.Equal(t, []schemas.ChatLimit{{Source: "b", What: schemas.BudgetRequests, Limit: 2, Remaining: 1, ResetMS: 3_600_000}}, b.reserve(t, again).Limits)
	b.end(t, long, used(10, 10, 10))
	a := b.account(t, "t.b.")
	require.Equal(t, sum{}, a.Used, "what began in another window is not charged to this one")
	require.Len(t, a.Holds, 1)
	require.Equal(t, begun.Add(90*time.Minute).UnixMilli(), a.Ends)
}

// TestAnotherWindow: changing its length forgets nothing, and a clock that is behind goes
// on in the window that is there.
func TestAnotherWindow(t *testing.T) {
	t.Parallel()
	a := newAccount()
	a.roll(begun, time.Hour)
	a.Used, a.Holds["x"] = sum{Tokens: 7}, hold{Until: begun.Add(48 * time.Hour).UnixMilli()}
	for _, tc := range []struct {
		window time.Duration
		ends   time.Time
	}{
		{24 * time.Hour, time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)},
		{0, time.UnixMilli(0)},
		{time.Minute, begun.Add(time.Minute)},
		{time.Hour, begun.Add(30 * time.Minute)},
	} {
		require.Equal(t, tc.ends.UnixMilli(), a.at(begun, tc.window).ends)
		require.Equal(t, sum{Tokens: 7}, a.at(begun, tc.window).used)
		a.roll(begun, tc.window)
		require.Equal(t, tc.ends.UnixMilli(), a.Ends)
		require.Equal(t, sum{Tokens: 7}, a.Used)
		require.Equal(t, 1, a.at(begun, tc.window).open)
	}
	ahead := begun.Add(time.Hour)
	require.Equal(t, standing{now: ahead, ends: begun.Add(90 * time.Minute).UnixMilli()}, a.at(ahead, time.Hour))
	a.roll(ahead, time.Hour)
	require.Empty(t, a.Holds)
	a.Used.Tokens = 3
	behind := *a
	a.roll(begun, time.Hour)
	require.Equal(t, &behind, a)
}

func TestHoldsEnd(t *testing.T) {
	t.Parallel()
	b := open(tokens(190))
	b.reserve(t, order("a"))
	require.Error(t, b.refused(t, order("b")))
	b.pass(15 * time.Minute)
	second := order("b")
	second.Until = begun.Add(time.Hour)
	b.reserve(t, second)
	require.Len(t, b.account(t, "t.b.").Holds, 2)
	b.end(t, order("a"), used(40, 20, 9))
	require.Equal(t, sum{1, 60, 9}, b.account(t, "t.b.").Used)

	// One that nobody ever settles is forgotten, and then an end is none.
	b.pass(45*time.Minute + late)
	third := order("c")
	third.Prompt, third.Output, third.Until = 1, 1, b.Now().Add(time.Minute)
	b.reserve(t, third)
	b.end(t, second, used(40, 20, 9))
	a := b.account(t, "t.b.")
	require.Equal(t, sum{1, 60, 9}, a.Used)
	require.Len(t, a.Holds, 1)
}

// TestWhatIsCharged: the provider's word, whatever was held, and never less than nothing.
func TestWhatIsCharged(t *testing.T) {
	t.Parallel()
	type testCase struct {
		used *schemas.ChatUsage
		want sum
	}
	table.Run(t, map[string]testCase{
		"less":                 {used(40, 1, 42), sum{1, 41, 42}},
		"more than was held":   {used(400, 100, 999), sum{1, 500, 999}},
		"nothing":              {nil, sum{}},
		"zero":                 {used(0, 0, 0), sum{1, 0, 0}},
		"without a price":      {&schemas.ChatUsage{Prompt: 1, Completion: 2}, sum{1, 3, cost}},
		"a total that differs": {&schemas.ChatUsage{Prompt: 1, Completion: 2, Total: 9, Priced: true}, sum{1, 9, 0}},
		"below zero":           {&schemas.ChatUsage{Prompt: -1, Completion: -2, Total: -9, Nanos: -4, Priced: true}, sum{1, 0, 0}},
		"too much":             {&schemas.ChatUsage{Prompt: math.MaxInt64, Completion: math.MaxInt64, Priced: true}, sum{1, math.MaxInt64, 0}},
	}, func(t *testing.T, tc testCase) {
		b := open(tokens(100))
		b.reserve(t, order("a"))
		for range 3 {
			b.end(t, order("a"), tc.used)
			a := b.account(t, "t.b.")
			require.Equal(t, tc.want, a.Used)
			require.Empty(t, a.Holds)
		}
	})
}

// TestAnAccountHasAnEnd: neither what is under way nor what is over fills a message.
func TestAnAccountHasAnEnd(t *testing.T) {
	t.Parallel()
	a := newAccount()
	c := order("a").claim()
	for i := range maxOpen {
		a.Holds[strconv.Itoa(i)] = c.hold(60)
	}
	c.Action = "more"
	_, changed, why := a.reserve(c, sum{}, begun)
	require.False(t, changed)
	why.complete(target{owner: owner{budget: "b"}}, a.at(begun, 0))
	require.Equal(t, &Refusal{Source: "b", What: schemas.BudgetRequests, Held: true, After: heldAgain}, why)
	for i := range maxOpen {
		require.True(t, a.settle(strconv.Itoa(i), used(1, 1, 1)))
	}
	require.Len(t, a.Done, maxDone)
	require.Equal(t, strconv.Itoa(maxOpen-1), a.Done[maxDone-1])
	require.Equal(t, sum{maxOpen, 2 * maxOpen, maxOpen}, a.Used)
	for i := range maxOpen {
		require.False(t, a.settle(strconv.Itoa(i), used(1, 1, 1)), "a repeat, remembered or not")
	}
	c.Action = strconv.Itoa(maxOpen - 1)
	output, changed, why := a.reserve(c, sum{}, begun)
	require.Equal(t, int64(60), output)
	require.False(t, changed, "who holds for what was charged does not know of its end")
	require.Nil(t, why)
}

// TestWorstCase: the largest answer of any that may answer, and the prices of all.
func TestWorstCase(t *testing.T) {
	t.Parallel()
	cheap, dear := &schemas.ModelPrice{Input: 1}, &schemas.ModelPrice{Output: 2}
	small := models.Candidate{Model: &schemas.Model{Price: cheap, MaxOutput: 100}}
	large := models.Candidate{Model: &schemas.Model{Price: dear, MaxOutput: 200}}
	unknown := models.Candidate{Model: &schemas.Model{}}
	both := []*schemas.ModelPrice{cheap, dear}
	own := &schemas.TaskBudget{Tokens: 7}
	for name, tc := range map[string]struct {
		order schemas.ChatOrder
		list  []models.Candidate
		want  Order
	}{
		"what is said": {
			schemas.ChatOrder{Prompt: 5, Output: 7, Choices: 3, Stream: true},
			[]models.Candidate{small, large},
			Order{Prompt: 5, Output: 7, Prices: both},
		},
		"the largest": {
			schemas.ChatOrder{Prompt: 5, Choices: 3, TaskID: "t", Budget: own},
			[]models.Candidate{small, large, small},
			Order{Prompt: 5, Output: 600, Prices: both, Task: "t", TaskBudget: own},
		},
		"nobody knows": {
			schemas.ChatOrder{Stream: true, Choices: 1},
			[]models.Candidate{unknown, large},
			Order{Output: unsaid, Elastic: true, Prices: []*schemas.ModelPrice{nil, dear}},
		},
		"too many": {
			schemas.ChatOrder{Choices: math.MaxInt64},
			[]models.Candidate{large},
			Order{Output: math.MaxInt64, Prices: both[1:]},
		},
		"embeddings": {
			schemas.ChatOrder{Dialect: schemas.DialectEmbeddings, Prompt: 5},
			[]models.Candidate{small, unknown},
			Order{Prompt: 5, Prices: []*schemas.ModelPrice{cheap, nil}},
		},
		"images, where they count most": {
			schemas.ChatOrder{Prompt: 5, Images: 2, Media: 7, Output: 1},
			[]models.Candidate{large, {Model: &schemas.Model{Price: cheap, ImageTokens: 60_000}}},
			Order{Prompt: 120_012, Output: 1, Prices: []*schemas.ModelPrice{dear, cheap}},
		},
		"images of which nobody knows": {
			schemas.ChatOrder{Prompt: 5, Images: 2, Output: 1},
			[]models.Candidate{large},
			Order{Prompt: 5 + 2*49_152, Output: 1, Prices: both[1:]},
		},
		"images beyond all counts": {
			schemas.ChatOrder{Prompt: 5, Images: math.MaxInt64, Output: 1},
			[]models.Candidate{large},
			Order{Prompt: math.MaxInt64, Output: 1, Prices: both[1:]},
		},
		"nobody": {schemas.ChatOrder{Prompt: 5}, nil, Order{Prompt: 5}},
	} {
		require.Equal(t, tc.want, WorstCase(&tc.order, tc.list), name)
	}
}
