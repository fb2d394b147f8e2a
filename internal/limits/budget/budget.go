// Package budget keeps what is used of models within budgets: the worst case of a completion is
// held before it begins, and exchanged for what it has used once that is known. All workers of a
// cluster share the accounts. A completion is in an account once, whatever is repeated.
package budget

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/limits"
	"weir/internal/mirror"
	"weir/internal/models"
	"weir/schemas"
)

// Bucket is where the accounts lie; see broker.Bucket.
type Bucket interface {
	limits.Bucket
	mirror.Reader
	Forget(ctx context.Context, key string, revision uint64) error
	Barrier(ctx context.Context) error
}

// Config of a Limiter.
type Config struct {
	// Budgets are those in force. Default: none but those of tasks.
	Budgets func() []schemas.Budget
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // logs accounts that cannot be read; default: none
}

const (
	// storeWithin bounds the reads and writes of one batch of changes to an account.
	storeWithin = 10 * time.Second
	// maxAccounts is how many accounts are kept in memory.
	maxAccounts = 4096
)

// Limiter keeps the accounts. It is safe for concurrent use.
type Limiter struct {
	bucket Bucket
	cfg    Config
	kind   limits.Accounts[account]

	mu       sync.Mutex
	accounts map[string]*limits.Account[account] // by key; each is but a copy
}

// NewLimiter returns a Limiter over a bucket.
func NewLimiter(b Bucket, cfg Config) *Limiter {
	if cfg.Budgets == nil {
		cfg.Budgets = func() []schemas.Budget { return nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Limiter{bucket: b, cfg: cfg, accounts: map[string]*limits.Account[account]{}, kind: limits.Accounts[account]{
		Bucket: b, Readable: func(_ string, a account) bool { return a.V == version }, Unreadable: errUnreadable,
		Clone: cloneAccount, Within: storeWithin, Now: cfg.Now,
	}}
}

func (b *Limiter) account(key string) *limits.Account[account] {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[key]
	if a == nil {
		for other := range b.accounts {
			if len(b.accounts) < maxAccounts {
				break
			}
			delete(b.accounts, other) // any: it is read again when it is needed
		}
		a = b.kind.Open(key, account{V: version}, nil)
		b.accounts[key] = a
	}
	return a
}

// Order is a completion that needs a budget. The fields that name its accounts must be the same
// in Reserve and in Settle.
type Order struct {
	Tenant, Action string
	// Token is the id of the token that asked, and Task the task whose token it was.
	Token, Task string
	// Models are those that may answer it, behind their aliases: it is held in the accounts of
	// all of them. Shares is what each has used, for Settle; nil: each has used all of it.
	Models []string
	Shares map[string]schemas.ChatUsage
	// TaskBudget is the task's own budget; nil: none.
	TaskBudget *schemas.TaskBudget
	// Subtokens are the budgets of the task's subtokens that the completion is charged to.
	Subtokens []schemas.SubtokenBudget
	// Prompt and Output are its worst case, in tokens. With Elastic the answer can be cut off:
	// then any part of Output is enough, from one token on.
	Prompt, Output int64
	Elastic        bool
	// Prices are those of all that may answer it. Without any, or with a nil one, the price is
	// not known, and no budget of money can be kept.
	Prices []*schemas.ModelPrice
	// Spent is the usage of all its calls so far; nil: none. Prompt and Output then belong to the
	// next call.
	Spent *schemas.ChatUsage
	// Until is when it will surely have ended. Its hold is free again after that.
	Until time.Time
}

// unsaid is how many tokens an answer without a bound is taken to have at most.
const unsaid = 16_384

// WorstCase is what a completion asks of its budgets that any of some candidates may answer: its
// prompt where its images count most, the largest answer of any of them, and the prices of all. Of
// the fields that name its accounts it sets the task's alone, and it leaves Until to the caller.
func WorstCase(o *schemas.ChatOrder, list []models.Candidate) Order {
	w := Order{
		Task: o.TaskID, TaskBudget: o.Budget, Subtokens: o.Subtokens,
		Prompt: models.Plus(o.Prompt, o.Media), Output: o.Output, Elastic: o.Output == 0 && o.Stream,
	}
	image := int64(0)
	for _, c := range list {
		most, _ := models.Image(c.Model)
		image = max(image, most)
		if o.Output == 0 && o.Dialect != schemas.DialectEmbeddings { // those have no answer in tokens
			w.Output = max(w.Output, models.Times(cmp.Or(c.Model.MaxOutput, unsaid), max(o.Choices, 1)))
		}
		if !slices.Contains(w.Prices, c.Model.Price) {
			w.Prices = append(w.Prices, c.Model.Price)
		}
	}
	w.Prompt = models.Plus(w.Prompt, models.Times(o.Images, image))
	return w
}

// Grant is what was held for a completion.
type Grant struct {
	// Output is how many tokens the answer may have; 0: it is not bounded.
	Output int64
	// Cap is the budget that Output is held in, however much it is; of several the one that gave
	// least. A longer answer exceeds it.
	Cap    string
	Limits []schemas.ChatLimit
}

// Reserve holds the worst case of a completion in every account that it touches, or in none. A
// repeat for the same action finds what it holds, unless it knows of more in Spent: then that is
// held on top, and an elastic answer may be shorter for it. The error is *Refusal, or the bucket's;
// after the latter something may be held, until a repeat, Settle, or Until. After a refusal that is
// so only of what was held before: an earlier worker may have sent something for it, and the next
// one must settle it.
//
// It does not wait until what it holds would survive a power cut: the barrier after the record of
// the attempt does, before anything is sent.
func (b *Limiter) Reserve(ctx context.Context, o Order) (Grant, error) {
	targets, c := b.targets(o), o.claim()
	c.by = rand.Text()[:8]
	var g Grant
	held := make([]int64, 0, len(targets))
	for i, t := range targets {
		asked := c
		if g.Output > 0 { // no more than the others gave
			asked.Output = g.Output
		}
		output, left, err := b.hold(ctx, t, asked)
		if err != nil {
			return Grant{}, b.undo(ctx, targets[:i+1], o, c, err)
		}
		held = append(held, output)
		g.Limits = append(g.Limits, left...)
		if (t.limit.Tokens > 0 || t.limit.Nanos > 0) && (g.Cap == "" || output < g.Output) {
			g.Output, g.Cap = output, t.budget
		}
	}
	for i, t := range targets { // no account holds more of the answer than all of them bear
		if g.Cap != "" && held[i] > g.Output {
			if err := b.change(ctx, t, func(a *account, _ time.Time) bool { return a.shrink(c, g.Output) }); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// undo returns the error of Reserve after the last target has given err. If that is a refusal, what
// Reserve has held is free again.
func (b *Limiter) undo(ctx context.Context, targets []target, o Order, c claim, err error) error {
	if errors.Is(err, errUnreadable) {
		b.unreadable(ctx, o)
		err = &Refusal{Source: targets[len(targets)-1].budget, Spent: true, Unreadable: true}
	}
	if _, refused := errors.AsType[*Refusal](err); !refused {
		return err
	}
	return cmp.Or(b.changeAll(ctx, targets[:len(targets)-1], o, func(_ target, a *account) bool { return a.undo(c) }), err)
}

func (b *Limiter) unreadable(ctx context.Context, o Order) {
	b.cfg.Logger.WarnContext(ctx, "budget_account_unreadable", "component", "budget",
		"tenant", o.Tenant, "action_id", o.Action, "err_kind", "damaged")
}

// change changes an account in the window of now.
func (b *Limiter) change(ctx context.Context, t target, do func(a *account, now time.Time) bool) error {
	return b.account(t.key()).Change(ctx, func(a *account, now time.Time) bool {
		a.roll(now, t.window)
		return do(a, now)
	})
}

// changeAll changes all targets, the last one first. An account that cannot be read is logged, and
// stays.
func (b *Limiter) changeAll(ctx context.Context, targets []target, o Order, do func(t target, a *account) bool) error {
	var errs []error
	for _, t := range slices.Backward(targets) {
		err := b.change(ctx, t, func(a *account, _ time.Time) bool { return do(t, a) })
		if errors.Is(err, errUnreadable) {
			b.unreadable(ctx, o)
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// hold holds a claim in one account.
func (b *Limiter) hold(ctx context.Context, t target, c claim) (int64, []schemas.ChatLimit, error) {
	var output int64
	var left []schemas.ChatLimit
	var refused *Refusal
	err := b.change(ctx, t, func(a *account, now time.Time) (changed bool) {
		output, changed, refused = a.reserve(c, t.limit, now)
		s := a.at(now, t.window)
		if left = s.left(t); refused != nil {
			refused.complete(t, s)
		}
		if changed && t.ofTask {
			a.Limit = &t.limit
		}
		return changed
	})
	switch {
	case err != nil: // a try may go on
		return 0, nil, err
	case refused != nil:
		return 0, nil, refused
	}
	return output, left, nil
}

// Settle exchanges what is held for a completion for what it has used, in every account what its
// models have, and waits until that would survive; nil: it has used nothing, and is no request
// either. A repeat changes nothing, and neither does an end after the window. After an error it
// must be repeated. An account that cannot be read is not settled, which is no error.
func (b *Limiter) Settle(ctx context.Context, o Order, used *schemas.ChatUsage) error {
	targets := b.targets(o)
	if len(targets) == 0 {
		return nil
	}
	err := b.changeAll(ctx, targets, o, func(t target, a *account) bool { return a.settle(o.Action, t.share(o, used)) })
	if err != nil {
		return err
	}
	return b.bucket.Barrier(ctx)
}
