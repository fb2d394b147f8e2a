package chat

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"weir/egress"
	"weir/egress/stream"
	"weir/schemas"
)

// Budgets are the accounts of what is used of models.
type Budgets interface {
	// List are a tenant's accounts, by budget, token, task and model.
	List(ctx context.Context, tenant string) ([]schemas.BudgetView, error)
}

func (a Answerer) budgets() []egress.Route {
	return a.server.Read(schemas.RouteBudgets, egress.JSON(func(r *egress.Request) (any, error) {
		q, err := readBudgetQuery(r.Request.URL.Query())
		if err != nil {
			return nil, err
		}
		all, err := a.cfg.Budgets.List(r.Request.Context(), r.Reader.Tenant)
		return q.page(all), err
	}), schemas.ScopeActionsRead)
}

// budgetQuery is what is asked for of a tenant's accounts.
type budgetQuery struct {
	budget string // empty: any
	after  string // the key of the last item of the previous page
	limit  int
}

// budgetsPage is how many accounts a page has, unless the request says otherwise.
const budgetsPage = 100

func readBudgetQuery(values url.Values) (q budgetQuery, err error) {
	p := stream.NewParams(values, "budget", "limit", "cursor")
	q.limit = p.Limit(budgetsPage)
	budget, ok := p.One("budget")
	if q.budget = budget; ok && !schemas.ValidID(budget) {
		p.Refuse("budget", "must be the name of a budget")
	}
	p.Cursor(func(cursor string) bool {
		key, err := base64.RawURLEncoding.DecodeString(cursor)
		q.after = string(key)
		return err == nil && strings.Count(q.after, "\x00") == 3 && budgetCursor(q.after) == cursor
	})
	return q, p.Err
}

// budgetKey is where an account stands among a tenant's: its budget, token, task and model. These
// contain no zero byte.
func budgetKey(v schemas.BudgetView) string {
	return strings.Join([]string{v.Budget, v.Token, v.Task, v.Model}, "\x00")
}

// budgetCursor is the cursor after an account.
func budgetCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// page is the page of a tenant's accounts, which come in their order. Where the last one
// of the page before is gone, it begins behind where that would be.
func (q *budgetQuery) page(all []schemas.BudgetView) schemas.Page[schemas.BudgetView] {
	page := schemas.Page[schemas.BudgetView]{Items: []schemas.BudgetView{}}
	for _, v := range all {
		if q.budget != "" && v.Budget != q.budget || budgetKey(v) <= q.after {
			continue
		}
		if len(page.Items) == q.limit {
			page.Next = budgetCursor(budgetKey(page.Items[q.limit-1]))
			break
		}
		page.Items = append(page.Items, v)
	}
	return page
}
