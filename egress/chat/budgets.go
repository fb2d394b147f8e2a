package chat

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
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

func (a Answerer) budgets() []egress.Route {
	return a.server.Read(schemas.RouteBudgets, func(r *egress.Request) error {
		q, err := readBudgetQuery(r.Request.URL.Query())
		if err != nil {
			return err
		}
		all, err := a.cfg.Budgets.List(r.Request.Context(), r.Reader.Tenant)
		if err != nil {
			return err
		}
		stream.WriteJSON(r.Writer, r.Request, http.StatusOK, q.page(all))
		return nil
	}, schemas.ScopeActionsRead)
}

// budgetQuery is what is asked for of a tenant's accounts.
type budgetQuery struct {
	budget string       // empty: any
	after  budgetCursor // the last item of the previous page
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
	p.Cursor(q.behind)
	return q, p.Err
}

// budgetCursor is where an account stands among a tenant's: its budget, token, task and
// model.
type budgetCursor [4]string

func budgetCursorOf(v schemas.BudgetView) budgetCursor {
	return budgetCursor{v.Budget, v.Token, v.Task, v.Model}
}

// String is the cursor after this place. Its parts contain no zero byte.
func (p budgetCursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(p[:], "\x00")))
}

// behind reads where a page begins.
func (q *budgetQuery) behind(cursor string) bool {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	return err == nil && copy(q.after[:], strings.Split(string(text), "\x00")) == len(q.after) && q.after.String() == cursor
}

// page is the page of a tenant's accounts, which come in their order. Where the last one
// of the page before is gone, it begins behind where that would be.
func (q *budgetQuery) page(all []schemas.BudgetView) schemas.Page[schemas.BudgetView] {
	page := schemas.Page[schemas.BudgetView]{Items: []schemas.BudgetView{}}
	for _, v := range all {
		at := budgetCursorOf(v)
		if q.budget != "" && v.Budget != q.budget || slices.Compare(at[:], q.after[:]) <= 0 {
			continue
		}
		if len(page.Items) == q.limit {
			page.Next = budgetCursorOf(page.Items[q.limit-1]).String()
			break
		}
		page.Items = append(page.Items, v)
	}
	return page
}
