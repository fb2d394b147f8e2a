package budget

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

const (
	// lookAgain is how old a copy of an account may be that refuses.
	lookAgain = 500 * time.Millisecond
	// tidyEvery is how often Run forgets accounts.
	tidyEvery = time.Hour
	// windowKept is how long an account stays after its window, for lists and for clocks that are
	// behind.
	windowKept = 24 * time.Hour
	// taskKept is how long an account of a task stays after the last write to it: longer than any
	// task may take.
	taskKept = 32 * 24 * time.Hour
)

// Look says what Reserve would say by what was last seen of the accounts, without holding anything:
// *Refusal alone if there is no room just now, but may be later. An account that cannot be read is
// skipped, and an action that is in one already is let in: a worker decides. The limits are those
// that Reserve would leave; as they stand if it would not hold anything.
func (b *Limiter) Look(ctx context.Context, o Order) ([]schemas.ChatLimit, error) {
	c, now := o.claim(), b.cfg.Now()
	type seen struct {
		target
		standing
	}
	var all []seen
	var full *Refusal
	known, refused, output := false, false, c.Output
	for _, t := range b.targets(o) {
		bears, s, in, why, err := b.peek(ctx, t, c, now)
		if err != nil {
			continue
		}
		all, known = append(all, seen{t, s}), known || in
		if why == nil {
			output = min(output, bears)
			continue
		}
		refused = true
		if why.complete(t, s); full == nil && !why.Spent {
			full = why
		}
	}
	var left []schemas.ChatLimit
	for _, s := range all {
		if !known && !refused {
			s.held = s.held.plus(c.hold(output).sum())
		}
		left = append(left, s.left(s.target)...)
	}
	if full != nil && !known {
		return left, full
	}
	return left, nil
}

// peek gives the state of an account, the part of a claim's answer that fits, and whether it has the
// claim already. It reads the account if the copy would refuse and is old.
func (b *Limiter) peek(ctx context.Context, t target, c claim, now time.Time) (output int64, s standing, known bool, why *Refusal, err error) {
	for notBefore := (time.Time{}); ; notBefore = now {
		a, at, err := b.account(t.key()).Seen(ctx, notBefore)
		if err != nil {
			return 0, s, false, nil, err
		}
		s, known = a.at(now, t.window), a.knows(c.Action, now)
		output, why = c.fit(s, t.limit)
		if why == nil || known || now.Sub(at) < lookAgain {
			return output, s, known, why, nil
		}
	}
}

// each reads every account whose key has a prefix. One that cannot be read is nil.
func (b *Limiter) each(ctx context.Context, prefix string, do func(r schemas.Record, o owner, a *account)) error {
	_, err := b.bucket.Read(ctx, 0, func(r schemas.Record) {
		own, ok := readKey(r.Subject)
		if !ok || !strings.HasPrefix(r.Subject, prefix) {
			return
		}
		if a, ok := b.kind.Decode(r); ok {
			do(r, own, &a)
		} else {
			do(r, own, nil)
		}
	})
	return err
}

// List are the accounts of a tenant that were used, by budget: those of tasks' own budgets, and of
// the budgets in force. It reads the accounts of every tenant, and skips those that cannot be read.
func (b *Limiter) List(ctx context.Context, tenant string) ([]schemas.BudgetView, error) {
	budgets := map[string]schemas.Budget{}
	for _, in := range b.cfg.Budgets() {
		budgets[in.Name] = in
	}
	now := b.cfg.Now()
	newest := map[string]schemas.BudgetView{}
	err := b.each(ctx, schemas.EscapeToken(tenant)+".", func(r schemas.Record, o owner, a *account) {
		delete(newest, r.Subject) // it was written again while it was read
		if a == nil {
			return
		}
		in, ok := budgets[o.budget]
		limit, ofTask := limitOf(in), o.budget == schemas.BudgetOfTask
		if ofTask && a.Limit != nil {
			limit, ok = *a.Limit, true
		}
		if ok && (ofTask || o.of(in)) {
			newest[r.Subject] = o.view(a.at(now, in.Window), limit)
		}
	})
	if err != nil {
		return nil, err
	}
	list := slices.AppendSeq(make([]schemas.BudgetView, 0, len(newest)), maps.Values(newest))
	slices.SortFunc(list, func(x, y schemas.BudgetView) int {
		return cmp.Or(strings.Compare(x.Budget, y.Budget), strings.Compare(x.Token, y.Token),
			strings.Compare(x.Task, y.Task), strings.Compare(x.Model, y.Model))
	})
	return list, nil
}

// of reports whether an account is one of those that a budget has now: it may have told others
// apart before.
func (o owner) of(in schemas.Budget) bool {
	if slices.Contains(in.Per, schemas.PerModel) && o.model == "" {
		return false
	}
	in.Models = nil
	now, ok := ownerOf(in, Order{Tenant: o.tenant, Token: o.token, Task: o.task}, o.model)
	return ok && now == o
}

// view is an account as it is shown.
func (o owner) view(s standing, limit sum) schemas.BudgetView {
	v := schemas.BudgetView{Budget: o.budget, Token: o.token, Task: o.task, Model: o.model, Open: s.open}
	if s.ends > 0 {
		v.Resets = time.UnixMilli(s.ends).UTC()
	}
	for _, p := range s.parts(limit) {
		n := &schemas.BudgetCount{Limit: float64(p.limit), Used: float64(p.used), Held: float64(p.held)}
		switch p.what {
		case schemas.BudgetRequests:
			v.Requests = n
		case schemas.BudgetTokens:
			v.Tokens = n
		case schemas.BudgetUSD:
			v.USD = &schemas.BudgetCount{Limit: n.Limit / nano, Used: n.Used / nano, Held: n.Held / nano}
		}
	}
	return v
}

// Run forgets what means nothing any more, at once and each hour, until the context ends. What
// cannot be forgotten will be the next time, and is logged. Any number of nodes may do it.
func (b *Limiter) Run(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		if err := b.Tidy(ctx); err != nil && ctx.Err() == nil {
			b.cfg.Logger.WarnContext(ctx, "budget_cleanup_failed", "component", "budget")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Tidy drops the accounts whose window ended long ago, and those of ended tasks. All others stay:
// usage without a window is not dropped.
func (b *Limiter) Tidy(ctx context.Context) error {
	now := b.cfg.Now()
	var over []schemas.Record
	err := b.each(ctx, "", func(r schemas.Record, o owner, a *account) {
		if a != nil && (a.Ends != 0 && now.UnixMilli() >= a.Ends+windowKept.Milliseconds() || o.task != "" && now.Sub(r.Time) >= taskKept) {
			over = append(over, r)
		}
	})
	for i := 0; i < len(over) && err == nil; i++ {
		// A write that came in between has a higher revision, and stays.
		err = b.bucket.Forget(ctx, over[i].Subject, over[i].Seq)
	}
	return err
}
