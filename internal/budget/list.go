package budget

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// page is how many accounts are read at once.
const page = 1000

// each reads every account there is. One that cannot be read is nil.
func (b *Book) each(ctx context.Context, begin string, do func(r schemas.Record, p place, a *account) error) error {
	for after := uint64(0); ; {
		records, err := b.bucket.Read(ctx, after, page)
		if err != nil {
			return err
		}
		for _, r := range records {
			after = r.Seq
			p, ok := readKey(r.Subject)
			if !ok || !strings.HasPrefix(r.Subject, begin) {
				continue
			}
			a, err := decode(r.Data)
			if err != nil || len(r.Data) == 0 {
				a = nil
			}
			if err := do(r, p, a); err != nil {
				return err
			}
		}
		if len(records) < page {
			return nil
		}
	}
}

// List are the accounts of a tenant that were used, by budget: those of tasks' own budgets,
// and of the budgets in force. It reads the accounts of every tenant, and passes over those
// that cannot be read.
func (b *Book) List(ctx context.Context, tenant string) ([]schemas.BudgetView, error) {
	budgets := map[string]schemas.Budget{}
	for _, in := range b.cfg.Budgets() {
		budgets[in.Name] = in
	}
	now := b.cfg.Now()
	newest := map[string]schemas.BudgetView{}
	err := b.each(ctx, schemas.EscapeToken(tenant)+".", func(r schemas.Record, p place, a *account) error {
		delete(newest, r.Subject) // it was written again while it was read
		if a == nil {
			return nil
		}
		in, ok := budgets[p.budget]
		limit := limitOf(in)
		if p.budget == schemas.BudgetOfTask && a.Limit != nil {
			limit, ok = *a.Limit, true
		}
		if ok && (p.budget == schemas.BudgetOfTask || sorted(p, in)) {
			newest[r.Subject] = p.view(a.at(now, in.Window), limit)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := make([]schemas.BudgetView, 0, len(newest))
	for _, v := range newest {
		list = append(list, v)
	}
	slices.SortFunc(list, func(x, y schemas.BudgetView) int {
		return cmp.Or(strings.Compare(x.Budget, y.Budget), strings.Compare(x.Token, y.Token), strings.Compare(x.Task, y.Task), strings.Compare(x.Model, y.Model))
	})
	return list, nil
}

// sorted reports whether an account is one of those that a budget has now: it may have told
// others apart before.
func sorted(p place, in schemas.Budget) bool {
	if slices.Contains(in.Per, schemas.PerModel) && p.model == "" {
		return false
	}
	now, ok := placeOf(schemas.Budget{Name: in.Name, Per: in.Per, Tenants: in.Tenants}, Order{Tenant: p.tenant, Token: p.token, Task: p.task}, p.model)
	return ok && now == p
}

// view is an account as it is shown.
func (p place) view(s standing, limit sum) schemas.BudgetView {
	v := schemas.BudgetView{Budget: p.budget, Token: p.token, Task: p.task, Model: p.model, Open: s.open}
	if s.ends > 0 {
		v.Resets = time.UnixMilli(s.ends).UTC()
	}
	const nano = 1e9
	for _, n := range []struct {
		to                **schemas.BudgetCount
		limit, used, held int64
		unit              float64
	}{
		{&v.Requests, limit.Requests, s.used.Requests, s.held.Requests, 1},
		{&v.Tokens, limit.Tokens, s.used.Tokens, s.held.Tokens, 1},
		{&v.USD, limit.Nanos, s.used.Nanos, s.held.Nanos, nano},
	} {
		if n.limit > 0 {
			*n.to = &schemas.BudgetCount{Limit: float64(n.limit) / n.unit, Used: float64(n.used) / n.unit, Held: float64(n.held) / n.unit}
		}
	}
	return v
}
