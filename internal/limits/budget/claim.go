package budget

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

// claim is what one completion asks of an account.
type claim struct {
	Order

	spent sum    // of its earlier calls
	by    string // this call of Reserve
}

func (o Order) claim() claim {
	o.Prompt, o.Output = max(o.Prompt, 0), max(o.Output, 1)
	return claim{Order: o, spent: charged(o.Spent)}
}

// tokens are those of all its calls, with a next answer of that length.
func (c claim) tokens(output int64) int64 {
	return models.Plus(c.spent.Tokens, models.Plus(c.Prompt, output))
}

// nanos are what all its calls cost then, the next one at the price that is the highest for such an
// answer: for a shorter one that may be another model's.
func (c claim) nanos(output int64) int64 {
	var most int64
	for _, price := range c.Prices {
		if price == nil { // it is not known, and bounds nothing
			return c.spent.Nanos
		}
		p := *price
		p.Input = max(p.Input, p.Cached, p.CacheWrite) // how much of it will be cached is not known before
		most = max(most, models.Cost(&p, schemas.ChatUsage{Prompt: c.Prompt, Completion: output}, 1))
	}
	return models.Plus(c.spent.Nanos, most)
}

func (c claim) hold(output int64) hold {
	return hold{Tokens: c.tokens(output), Nanos: c.nanos(output), Output: output, Spent: c.spent, Until: c.Until.UnixMilli(), By: c.by}
}

// part is one thing that a budget bounds.
type part struct {
	what              string // schemas.BudgetRequests, BudgetTokens or BudgetUSD
	limit, used, held int64
}

// left is how much of the limit is neither used nor held; it may be negative.
func (p part) left() int64 { return p.limit - models.Plus(p.used, p.held) }

// parts are the things that a limit bounds.
func (s standing) parts(limit sum) []part {
	return slices.DeleteFunc([]part{
		{schemas.BudgetRequests, limit.Requests, s.used.Requests, s.held.Requests},
		{schemas.BudgetTokens, limit.Tokens, s.used.Tokens, s.held.Tokens},
		{schemas.BudgetUSD, limit.Nanos, s.used.Nanos, s.held.Nanos},
	}, func(p part) bool { return p.limit <= 0 })
}

// fit is how much of the answer an account in this state can pay for. If several resources are
// short, why is one that the end of running completions does not restore.
func (c claim) fit(s standing, limit sum) (output int64, why *Refusal) {
	if limit.Nanos > 0 && (len(c.Prices) == 0 || slices.Contains(c.Prices, nil)) {
		return 0, &Refusal{What: schemas.BudgetUSD, Unpriced: true, Spent: true}
	}
	if s.open >= maxOpen { // as many as can be written down
		return 0, &Refusal{What: schemas.BudgetRequests, Held: true}
	}
	output, least := c.Output, c.Output
	if c.Elastic {
		least = 1
	}
	need := map[string]int64{schemas.BudgetRequests: 1, schemas.BudgetTokens: c.tokens(least), schemas.BudgetUSD: c.nanos(least)}
	for _, p := range s.parts(limit) {
		// What costs nothing fits into an account that is overdrawn, too.
		if n := need[p.what]; n > 0 && n > p.left() && (why == nil || why.Held) {
			w := &Refusal{What: p.what, Spent: n > p.limit, Held: n <= p.limit-p.used}
			if why == nil || !w.Held {
				why = w
			}
		}
		switch p.what {
		case schemas.BudgetTokens:
			output = min(output, p.left()-c.tokens(0))
		case schemas.BudgetUSD:
			output = c.afford(output, p.left())
		}
	}
	if why != nil {
		return 0, why
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

// left are the limits of a budget as the x-ratelimit headers have them.
func (s standing) left(t target) (list []schemas.ChatLimit) {
	for _, p := range s.parts(t.limit) {
		l := schemas.ChatLimit{Source: t.budget, What: p.what, Limit: p.limit, Remaining: max(p.left(), 0)}
		if s.ends > 0 {
			l.ResetMS = s.resets().Milliseconds()
		}
		list = append(list, l)
	}
	return list
}

// resets is how long the window lasts, at least a millisecond.
func (s standing) resets() time.Duration {
	return time.Duration(max(s.ends-s.now.UnixMilli(), 1)) * time.Millisecond
}

// Refusal says that a budget does not bear a completion. Nothing is held for it.
type Refusal struct { //nolint:errname // it is an answer, too
	// Spent: no time will change that. Otherwise it may be asked again in After.
	Spent  bool
	Source string // the budget
	What   string // schemas.BudgetRequests, BudgetTokens or BudgetUSD; empty if Unreadable
	// Held: it would fit if less were reserved, so a running completion must end first.
	Held bool
	// Unpriced: the budget bounds money, and the model has no price.
	Unpriced bool
	// Unreadable: the account is, and what is left is not known.
	Unreadable bool
	After      time.Duration
	Limits     []schemas.ChatLimit
}

// heldAgain is how long to wait before asking again for what others hold.
const heldAgain = time.Second

// complete adds whose refusal it is, and when to ask again.
func (r *Refusal) complete(t target, s standing) {
	r.Source, r.Limits = t.budget, s.left(t)
	switch {
	case r.Held:
		if r.After = heldAgain; s.ends > 0 {
			r.After = min(heldAgain, s.resets())
		}
	case r.Spent || s.ends == 0:
		r.Spent = true
	default:
		r.After = s.resets()
	}
}

func (r *Refusal) Error() string {
	return "budget " + r.Source + " does not bear it: " + cmp.Or(r.What, errUnreadable.Error())
}

// Why is the refusal in one sentence for the client.
func (r *Refusal) Why() string {
	switch {
	case r.Held:
		return "the rest of the budget " + r.Source + " is reserved for running completions"
	case r.Unreadable:
		return "the account of the budget " + r.Source + " cannot be read, so the remaining budget is unknown"
	case r.Unpriced:
		return "the budget " + r.Source + " bounds money, and the model has no price"
	case r.Spent:
		return "the budget " + r.Source + " has not enough left for the worst case of this request: ask for less (max_tokens), or have the budget raised"
	default:
		return "the window of the budget " + r.Source + " is full"
	}
}
