package budget

import (
	"errors"
	"maps"
	"slices"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

const (
	// version of the accounts that are written.
	version = 1
	// maxOpen is how many completions may hold a part of one account: all are written with every
	// change, and a message has a limit.
	maxOpen = 4096
	// maxDone is how many settled actions an account remembers. One that is forgotten cannot be
	// charged twice, but a worker that has not heard of its end could hold for it anew.
	maxDone = 256
	// late is how long an expired hold is remembered, so that a late end is still charged.
	late = time.Hour
)

// errUnreadable is an account that another version wrote, or other tools. It is not written over,
// and what would touch it is refused.
var errUnreadable = errors.New("an account of a budget cannot be read")

// sum is a count of each thing.
type sum struct {
	Requests int64 `json:"r,omitempty"`
	Tokens   int64 `json:"t,omitempty"`
	Nanos    int64 `json:"n,omitempty"`
}

func (s sum) plus(o sum) sum {
	return sum{models.Plus(s.Requests, o.Requests), models.Plus(s.Tokens, o.Tokens), models.Plus(s.Nanos, o.Nanos)}
}

// most is the larger count of each thing.
func (s sum) most(o sum) sum {
	return sum{max(s.Requests, o.Requests), max(s.Tokens, o.Tokens), max(s.Nanos, o.Nanos)}
}

// charged is what a usage counts, of what is no request by itself.
func charged(u *schemas.ChatUsage) sum {
	if u == nil {
		return sum{}
	}
	return sum{Tokens: max(u.Total, models.Plus(max(u.Prompt, 0), max(u.Completion, 0))), Nanos: max(u.Nanos, 0)}
}

// hold is the worst case of one running completion. It is one request.
type hold struct {
	Tokens int64 `json:"t,omitempty"`
	Nanos  int64 `json:"n,omitempty"`
	Output int64 `json:"o,omitempty"` // the part of Tokens that is the answer
	Spent  sum   `json:"s,omitzero"`  // the part that its calls had used when it was last raised
	Until  int64 `json:"u"`           // milliseconds of Unix time; then it is free
	// By is the call of Reserve that has made it.
	By string `json:"b,omitempty"`
}

func (h hold) sum() sum { return sum{1, h.Tokens, h.Nanos} }

// account is the value of one key: the use in its window, and the holds there. A
// completion counts in the window in which it began, and in no other.
type account struct {
	V int `json:"v"`
	// Window is its length, and Ends when it does, in milliseconds of Unix time; 0: never.
	Window time.Duration   `json:"window,omitempty"`
	Ends   int64           `json:"ends,omitempty"`
	Used   sum             `json:"used"`
	Holds  map[string]hold `json:"holds,omitempty"` // by action
	Done   []string        `json:"done,omitempty"`  // actions that were charged, the newest last
	// Limit is the limit of a task's own budget, which is in no configuration.
	Limit *sum `json:"limit,omitempty"`
}

func cloneAccount(a account) account {
	if a.Holds = maps.Clone(a.Holds); a.Holds == nil {
		a.Holds = map[string]hold{}
	}
	a.Done = slices.Clone(a.Done)
	return a
}

// in is the account in the window of now. Another length takes effect without forgetting what was
// used; a clock that is behind changes nothing.
func (a *account) in(now time.Time, window time.Duration) account {
	in := *a
	over := a.Ends != 0 && now.UnixMilli() >= a.Ends
	if over {
		in.Used, in.Holds = sum{}, map[string]hold{}
	}
	if over || a.Window != window {
		in.Window, in.Ends = window, endOf(now, window)
	}
	return in
}

// roll brings the account to the window of now, and forgets what is long over.
func (a *account) roll(now time.Time, window time.Duration) {
	*a = a.in(now, window)
	maps.DeleteFunc(a.Holds, func(_ string, h hold) bool { return now.UnixMilli() >= h.Until+late.Milliseconds() })
}

// endOf is when the window of a time ends: windows begin at whole multiples of their length since
// the epoch.
func endOf(now time.Time, window time.Duration) int64 {
	length := window.Milliseconds()
	if length <= 0 {
		return 0
	}
	return (now.UnixMilli()/length + 1) * length
}

// standing is the state of an account at one time.
type standing struct {
	now        time.Time
	used, held sum
	open       int
	ends       int64 // 0: never
}

// at is how the account stands, without changing it.
func (a *account) at(now time.Time, window time.Duration) standing {
	in := a.in(now, window)
	s := standing{now: now, used: in.Used, ends: in.Ends}
	for _, h := range in.Holds {
		if h.Until > now.UnixMilli() {
			s.held = s.held.plus(h.sum())
			s.open++
		}
	}
	return s
}

// knows reports whether an action is held here, or was charged.
func (a *account) knows(action string, now time.Time) bool {
	h, ok := a.Holds[action]
	return ok && h.Until > now.UnixMilli() || slices.Contains(a.Done, action)
}

// reserve holds what an account can give of a claim, or says why it gives nothing. A hold stays as
// it is, unless the claim knows of more that was used: then it is measured anew, as if it were not
// held, and it stays if that does not fit. The account has been rolled.
func (a *account) reserve(c claim, limit sum, now time.Time) (output int64, changed bool, why *Refusal) {
	h, there := a.Holds[c.Action]
	held := there && h.Until > now.UnixMilli()
	if held {
		if c.spent = c.spent.most(h.Spent); c.spent == h.Spent {
			return h.Output, false, nil
		}
		c.by = h.By
	}
	if slices.Contains(a.Done, c.Action) {
		if c.spent != (sum{}) { // a call after the end would not be charged
			return 0, false, &Refusal{What: schemas.BudgetTokens, Spent: true}
		}
		return c.Output, false, nil // the caller does not know of its end
	}
	delete(a.Holds, c.Action)
	if output, why = c.fit(a.at(now, a.Window), limit); why == nil {
		a.Holds[c.Action] = c.hold(output)
	} else if there {
		a.Holds[c.Action] = h
	}
	return output, why == nil, why
}

// shrink holds less of the answer for an action.
func (a *account) shrink(c claim, output int64) (changed bool) {
	h, ok := a.Holds[c.Action]
	if !ok || h.Output <= output {
		return false
	}
	c.spent, c.by = c.spent.most(h.Spent), h.By
	a.Holds[c.Action] = c.hold(output)
	return true
}

// undo frees what this very call of Reserve has held.
func (a *account) undo(c claim) (changed bool) {
	return a.Holds[c.Action].By == c.by && a.settle(c.Action, nil)
}

// settle exchanges a hold for its use; nil: none. An action that is not held, because it
// was settled, or began in another window, changes nothing.
func (a *account) settle(action string, used *schemas.ChatUsage) (changed bool) {
	h, ok := a.Holds[action]
	if !ok {
		return false
	}
	delete(a.Holds, action)
	if used == nil {
		return true
	}
	spent := charged(used)
	spent.Requests = 1
	if !used.Priced { // it had a price when it began
		spent.Nanos = h.Nanos
	}
	a.Used = a.Used.plus(spent)
	a.Done = append(a.Done, action)
	a.Done = a.Done[max(0, len(a.Done)-maxDone):]
	return true
}
