package budget

import (
	"math"
	"slices"
	"sort"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

// claim is what one completion asks of an account.
type claim struct {
	action         string
	prompt, output int64
	elastic        bool
	spent          sum // of its earlier calls
	prices         []schemas.ModelPrice
	priced         bool // every price is known
	until          time.Time
}

func (o Order) claim() claim {
	c := claim{
		action: o.Action, prompt: max(o.Prompt, 0), output: max(o.Output, 1), elastic: o.Elastic, until: o.Until,
		spent: charged(o.Spent), priced: len(o.Prices) > 0 && !slices.Contains(o.Prices, nil),
	}
	if !c.priced {
		return c
	}
	for _, price := range o.Prices {
		p := *price
		p.Input = max(p.Input, p.Cached) // nobody knows before how much of it will be cached
		c.prices = append(c.prices, p)
	}
	return c
}

// tokens are those of all its calls, where the next answer has so many.
func (c claim) tokens(output int64) int64 {
	return models.Plus(c.spent.Tokens, models.Plus(c.prompt, output))
}

// nanos are what all its calls cost then, the next one at the price that is the highest
// for such an answer: for a shorter one that may be another's.
func (c claim) nanos(output int64) int64 {
	var most int64
	for i := range c.prices {
		most = max(most, models.Cost(&c.prices[i], schemas.ChatUsage{Prompt: c.prompt, Completion: output}, 1))
	}
	return models.Plus(c.spent.Nanos, most)
}

func (c claim) hold(output int64) hold {
	return hold{Tokens: c.tokens(output), Nanos: c.nanos(output), Output: output, Spent: c.spent, Until: c.until.UnixMilli()}
}

// least is the answer that has to fit at least.
func (c claim) least() int64 {
	if c.elastic {
		return 1
	}
	return c.output
}

// want is what an account has not enough of.
type want struct {
	what     string
	unpriced bool
	// never: it is more than the account has when nothing of it is used.
	never bool
	// held: it would fit if nothing were held, or if fewer did.
	held bool
}

// fit is how much of the answer an account bears that stands like this. Of several things
// that it has not enough of, why is one that no end of what is under way mends.
func (c claim) fit(s standing, limit sum) (output int64, why *want) {
	if limit.Nanos > 0 && !c.priced {
		return 0, &want{what: schemas.BudgetUSD, unpriced: true, never: true}
	}
	if s.open >= maxOpen { // as many as can be written down
		return 0, &want{what: schemas.BudgetRequests, held: true}
	}
	least := c.least()
	for _, n := range []struct {
		what                    string
		need, limit, used, held int64
	}{
		{schemas.BudgetRequests, 1, limit.Requests, s.used.Requests, s.held.Requests},
		{schemas.BudgetTokens, c.tokens(least), limit.Tokens, s.used.Tokens, s.held.Tokens},
		{schemas.BudgetUSD, c.nanos(least), limit.Nanos, s.used.Nanos, s.held.Nanos},
	} {
		// What costs nothing fits into an account that is overdrawn, too.
		if n.limit <= 0 || n.need <= 0 || n.need <= n.limit-models.Plus(n.used, n.held) {
			continue
		}
		if w := (&want{what: n.what, never: n.need > n.limit, held: n.need <= n.limit-n.used}); why == nil || !w.held {
			why = w
		}
		if !why.held {
			break
		}
	}
	if why != nil {
		return 0, why
	}
	output = c.output
	if limit.Tokens > 0 {
		output = min(output, limit.Tokens-models.Plus(s.used.Tokens, s.held.Tokens)-c.tokens(0))
	}
	if limit.Nanos > 0 {
		output = c.afford(output, limit.Nanos-models.Plus(s.used.Nanos, s.held.Nanos))
	}
	return max(output, least), nil
}

// afford is the longest answer up to most whose worst case costs no more than nanos.
func (c claim) afford(most, nanos int64) int64 {
	if most <= 0 || c.nanos(most) <= nanos {
		return most
	}
	// Search counts in int, which is 32 bits wide on some machines.
	over := sort.Search(int(min(most, math.MaxInt32)), func(i int) bool { return c.nanos(int64(i)+1) > nanos })
	return int64(over)
}

// limitOf is what a budget bounds.
func limitOf(b schemas.Budget) sum { return sum{b.Requests, b.Tokens, b.Nanos} }

// left are the limits of a budget as the x-ratelimit headers tell them.
func (s standing) left(source string, limit sum, now time.Time) []schemas.ChatLimit {
	var list []schemas.ChatLimit
	for _, n := range []struct {
		what               string
		limit, used, holds int64
	}{
		{schemas.BudgetRequests, limit.Requests, s.used.Requests, s.held.Requests},
		{schemas.BudgetTokens, limit.Tokens, s.used.Tokens, s.held.Tokens},
		{schemas.BudgetUSD, limit.Nanos, s.used.Nanos, s.held.Nanos},
	} {
		if n.limit <= 0 {
			continue
		}
		l := schemas.ChatLimit{Source: source, What: n.what, Limit: n.limit, Remaining: max(n.limit-models.Plus(n.used, n.holds), 0)}
		if s.ends > 0 {
			l.ResetMS = max(s.ends-now.UnixMilli(), 1)
		}
		list = append(list, l)
	}
	return list
}
