package chat

import (
	"context"
	"encoding/base64"
	"slices"
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

// budgetsPage is how many accounts a page has, unless the request says otherwise.
const budgetsPage = 100

// budgets shows a tenant's accounts, in their order. If the previous page's last account is gone, a
// page begins after its place.
func (a Answerer) budgets() []egress.Route {
	return a.server.Read(schemas.RouteBudgets, egress.JSON(func(r *egress.Request) (any, error) {
		p := stream.NewParams(r.Request.URL.Query(), "budget", "limit", "cursor")
		limit, after := p.Limit(budgetsPage), ""
		budget, ok := p.One("budget")
		if ok && !schemas.ValidID(budget) {
			p.Refuse("budget", "must be the name of a budget")
		}
		p.Cursor(func(cursor string) bool {
			key, err := base64.RawURLEncoding.DecodeString(cursor)
			after = string(key)
			return err == nil && strings.Count(after, "\x00") == 3 && budgetCursor(after) == cursor
		})
		if p.Err != nil {
			return nil, p.Err
		}
		all, err := a.cfg.Budgets.List(r.Request.Context(), r.Reader.Tenant)
		all = slices.DeleteFunc(append([]schemas.BudgetView{}, all...), func(v schemas.BudgetView) bool {
			return budget != "" && v.Budget != budget || budgetKey(v) <= after
		})
		page := schemas.Page[schemas.BudgetView]{Items: all[:min(limit, len(all))]}
		if len(all) > limit {
			page.Next = budgetCursor(budgetKey(all[limit-1]))
		}
		return page, err
	}), schemas.ScopeActionsRead)
}

// budgetKey is where an account stands among a tenant's: its budget, token, task and model. These
// contain no zero byte.
func budgetKey(v schemas.BudgetView) string {
	return strings.Join([]string{v.Budget, v.Token, v.Task, v.Model}, "\x00")
}

// budgetCursor is the cursor after an account.
func budgetCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }
