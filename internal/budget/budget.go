// Package budget keeps what is used of models within what may be used: the worst case of
// a completion is held before it is begun, and exchanged for what it has used once that
// is known. An account is one value of a bucket, written under a guard, so that all
// workers of a cluster share it; a completion is in an account once, whatever is repeated.
package budget

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/schemas"
)

// Bucket is where the accounts lie; see broker.Bucket.
type Bucket interface {
	Get(ctx context.Context, key string) (schemas.Record, error)
	Put(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
	Forget(ctx context.Context, key string, revision uint64) error
	Read(ctx context.Context, after uint64, limit int) ([]schemas.Record, error)
	Barrier(ctx context.Context) error
}

// Config of a Book.
type Config struct {
	// Budgets are those in force. Default: none but what tasks bring.
	Budgets func() []schemas.Budget
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // tells of accounts that cannot be read; default: nobody is told
}

// Book keeps the accounts. It is safe for concurrent use.
type Book struct {
	bucket Bucket
	cfg    Config

	mu    sync.Mutex
	lanes map[string]*lane // by key
}

// NewBook returns a book over a bucket.
func NewBook(b Bucket, cfg Config) *Book {
	if cfg.Budgets == nil {
		cfg.Budgets = func() []schemas.Budget { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Book{bucket: b, cfg: cfg, lanes: map[string]*lane{}}
}

// Order is a completion that is to be paid for. What says whose it is has to be the same
// in Reserve and in Settle.
type Order struct {
	Tenant, Action string
	// Token is the id of the token that asked, and Task the task whose token it was.
	Token, Task string
	// Models are those that may answer it, behind their aliases: it is held in the accounts
	// of all of them. Shares is what each has used, for Settle; nil: all of them have used
	// all of it.
	Models []string
	Shares map[string]schemas.ChatUsage
	// TaskBudget is what the task brings; nil: it is not bounded.
	TaskBudget *schemas.TaskBudget
	// Prompt and Output are its worst case, in tokens. With Elastic the answer can be cut
	// off: then what there is of Output is enough, from one token on.
	Prompt, Output int64
	Elastic        bool
	// Prices are those of all that may answer it; where there is none, or one is nil,
	// nobody knows, and no budget of money can be kept.
	Prices []*schemas.ModelPrice
	// Spent is what its calls so far have used, all of them; nil: nothing. Prompt and
	// Output are those of the next one then.
	Spent *schemas.ChatUsage
	// Until is when it will surely have ended. What it holds is free again after that.
	Until time.Time
}

// Grant is what was held for a completion.
type Grant struct {
	// Output is how many tokens the answer may have; 0: nobody bounds it.
	Output int64
	// Source is the budget that bounds it, where it is less than was asked for.
	Source string
	// Cap is the budget that Output is held in, however much it is; of several the one
	// that gave least. An answer that goes on beyond Output exceeds it.
	Cap    string
	Limits []schemas.ChatLimit
}

// Reserve holds the worst case of a completion in every account that it touches, or in
// none. A repeat for the same action finds what it holds, unless it knows of more in Spent:
// then that is held on top, and an elastic answer may be shorter for it. The error is
// *Refusal, or the bucket's; after that one something may be held, until a repeat, Settle,
// or Until. After a refusal that is so only of what was held before: a worker that is gone
// may have sent something for it, and whoever goes on has to settle it.
//
// It does not wait until what it holds would survive a power cut: the barrier behind the
// record of the attempt does, before anything is sent.
func (b *Book) Reserve(ctx context.Context, o Order) (Grant, error) {
	seats, c := b.seats(o), o.claim()
	var g Grant
	var mine []seat // where this very call has made what is held
	held := make([]int64, 0, len(seats))
	for _, s := range seats {
		asked := c
		if g.Output > 0 { // no more than the others gave
			asked.output = g.Output
		}
		output, own, limits, err := b.hold(ctx, s, asked)
		if err != nil {
			return Grant{}, b.undo(ctx, mine, s, o, err)
		}
		if held = append(held, output); own {
			mine = append(mine, s)
		}
		g.Limits = append(g.Limits, limits...)
		if s.limit.Tokens == 0 && s.limit.Nanos == 0 {
			continue
		}
		if g.Cap == "" || output < g.Output {
			g.Output, g.Cap = output, s.name
		}
	}
	if g.Cap == "" {
		return g, nil
	}
	if g.Output < c.output {
		g.Source = g.Cap
	}
	return g, b.trim(ctx, seats, held, c, g.Output)
}

// undo is what Reserve returns that cannot hold in a seat: where that is a refusal, nothing
// is held any more that it has made.
func (b *Book) undo(ctx context.Context, mine []seat, at seat, o Order, err error) error {
	if errors.Is(err, ErrUnreadable) {
		b.unreadable(ctx, o)
		err = &Refusal{Source: at.name, Spent: true, Unreadable: true}
	}
	if _, refused := errors.AsType[*Refusal](err); !refused {
		return err
	}
	if undone := b.settle(ctx, mine, o, nil); undone != nil && !errors.Is(undone, ErrUnreadable) {
		return undone
	}
	return err
}

func (b *Book) unreadable(ctx context.Context, o Order) {
	b.cfg.Logger.WarnContext(ctx, "account of a budget not readable", "component", "budget", "tenant", o.Tenant, "action_id", o.Action, "err_kind", "damaged")
}

// hold holds a claim in one account; own says that nothing was held there before.
func (b *Book) hold(ctx context.Context, s seat, c claim) (output int64, own bool, limits []schemas.ChatLimit, err error) {
	var refused *Refusal
	err = b.change(ctx, s.key, func(a *account, now time.Time, unsure bool) (changed bool) {
		a.roll(now, s.window)
		var why *want
		var what did
		output, what, why = a.reserve(c, s.limit, now)
		changed = what != kept
		// What is found may be what was stored a moment ago.
		own = what == made || unsure && own
		st := a.at(now, s.window)
		if limits, refused = st.left(s.name, s.limit, now), nil; why != nil {
			refused = s.refusal(why, st, now)
			return false
		}
		if changed && s.ofTask {
			a.Limit = &s.limit
		}
		return changed
	})
	if err == nil && refused != nil {
		err = refused
	}
	return output, own, limits, err
}

// trim frees what was held of an answer beyond what every account bears.
func (b *Book) trim(ctx context.Context, seats []seat, held []int64, c claim, output int64) error {
	for i, s := range seats {
		if held[i] <= output {
			continue
		}
		err := b.change(ctx, s.key, func(a *account, now time.Time, _ bool) bool {
			a.roll(now, s.window)
			return a.shrink(c, output)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle exchanges what is held for a completion for what it has used, in every account
// what its models have, and waits until that would survive; nil: it has used nothing, and is no request either.
// A repeat changes nothing, and nor does what a window that is over bore. After an error it
// is to be repeated, but for ErrUnreadable alone: all other accounts are settled then, and
// nobody can settle that one.
func (b *Book) Settle(ctx context.Context, o Order, used *schemas.ChatUsage) error {
	seats := b.seats(o)
	if len(seats) == 0 {
		return nil
	}
	unread := b.settle(ctx, seats, o, used)
	if unread != nil && !errors.Is(unread, ErrUnreadable) {
		return unread
	}
	if err := b.bucket.Barrier(ctx); err != nil {
		return err
	}
	if unread != nil {
		b.unreadable(ctx, o)
	}
	return unread
}

// settle settles in all seats. Its error is ErrUnreadable where there is no other.
func (b *Book) settle(ctx context.Context, seats []seat, o Order, used *schemas.ChatUsage) error {
	var errs []error
	var unread error
	for _, s := range slices.Backward(seats) {
		err := b.change(ctx, s.key, func(a *account, now time.Time, _ bool) bool {
			a.roll(now, s.window)
			return a.settle(o.Action, s.share(o, used))
		})
		if errors.Is(err, ErrUnreadable) {
			unread = err
			continue
		}
		errs = append(errs, err)
	}
	return cmp.Or(errors.Join(errs...), unread)
}
