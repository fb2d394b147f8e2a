package budget

import (
	"time"

	"weir/schemas"
)

// Refusal says that a budget does not bear a completion. Nothing is held for it.
type Refusal struct { //nolint:errname // it is an answer, too
	// Spent: no time will change that. Otherwise it may be asked again in After.
	Spent  bool
	Source string // the budget
	What   string // schemas.BudgetRequests, BudgetTokens or BudgetUSD
	// Held: it would fit if less were held, so that it is for something under way to end.
	Held bool
	// Unpriced: it bounds money, and the model has no price.
	Unpriced bool
	// Unreadable: its account is, and nobody knows what is left. What is empty then.
	Unreadable bool
	After      time.Duration
	Limits     []schemas.ChatLimit
}

func (r *Refusal) Error() string {
	if r.Unreadable {
		return "budget " + r.Source + " does not bear it: " + ErrUnreadable.Error()
	}
	return "budget " + r.Source + " does not bear it: " + r.What
}

// Why is the refusal in one sentence for whoever asked.
func (r *Refusal) Why() string {
	switch {
	case r.Held:
		return "what is left of the budget " + r.Source + " is held for completions that are under way"
	case r.Unreadable:
		return "the account of the budget " + r.Source + " cannot be read, so that nobody knows what is left"
	case r.Unpriced:
		return "the budget " + r.Source + " bounds money, and the model has no price"
	case r.Spent:
		return "the budget " + r.Source + " has not enough left for the worst case of this request: ask for less (max_tokens), or have the budget raised"
	default:
		return "the window of the budget " + r.Source + " is full"
	}
}

func (r *Refusal) Unwrap() error {
	if r.Unreadable {
		return ErrUnreadable
	}
	return nil
}

// heldAgain is when what others hold is worth another look.
const heldAgain = time.Second

// refusal is what an order is told whose want an account cannot meet.
func (s seat) refusal(w *want, st standing, now time.Time) *Refusal {
	r := &Refusal{Source: s.name, What: w.what, Unpriced: w.unpriced, Limits: st.left(s.name, s.limit, now)}
	anew := time.Duration(max(st.ends-now.UnixMilli(), 1)) * time.Millisecond // where it has a window
	switch {
	case w.held && st.ends == 0:
		r.Held, r.After = true, heldAgain
	case w.held:
		r.Held, r.After = true, min(anew, heldAgain)
	case w.never, st.ends == 0:
		r.Spent = true
	default:
		r.After = anew
	}
	return r
}
