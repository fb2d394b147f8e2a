package egress

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"weir/egress/stream"
	"weir/internal/problem"
	"weir/schemas"
)

func (e *Room) mountBudgets(engine *gin.Engine) {
	if e.cfg.Budgets == nil {
		return
	}
	read(engine, schemas.RouteBudgets, e.scoped(schemas.ScopeActionsRead, func(w http.ResponseWriter, r *http.Request, tenant, _ string) {
		e.serveBudgets(w, r, tenant)
	}))
}

func (e *Room) serveBudgets(w http.ResponseWriter, r *http.Request, tenant string) {
	q, err := readBudgetQuery(r.URL.Query())
	var all []schemas.BudgetView
	if err == nil {
		all, err = e.cfg.Budgets.List(r.Context(), tenant)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, q.page(all))
}

// budgetQuery is what is asked for of a tenant's accounts.
type budgetQuery struct {
	budget string      // empty: any
	after  budgetPlace // of the last one of the page before
	limit  int
}

// budgetsPage is how many accounts a page has, unless the request says otherwise.
const budgetsPage = 100

func readBudgetQuery(values url.Values) (q budgetQuery, err error) {
	if err = stream.Only(values, "budget", "limit", "cursor"); err != nil {
		return q, err
	}
	if q.limit, err = stream.Limit(values, budgetsPage); err != nil {
		return q, err
	}
	var ok bool
	if q.budget, ok, err = stream.One(values, "budget"); err == nil && ok && !schemas.ValidID(q.budget) {
		err = stream.Invalid("the parameter budget must be the name of a budget")
	}
	if err != nil {
		return q, err
	}
	cursor, ok, err := stream.One(values, "cursor")
	if err == nil && ok && !q.behind(cursor) {
		err = stream.Invalid("the parameter cursor must be the next of an earlier page")
	}
	return q, err
}

// budgetPlace is where an account stands among a tenant's: its budget, token, task and
// model.
type budgetPlace [4]string

func budgetPlaceOf(v schemas.BudgetView) budgetPlace {
	return budgetPlace{v.Budget, v.Token, v.Task, v.Model}
}

// String is the cursor behind it. None of its parts has a zero byte.
func (p budgetPlace) String() string {
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
		at := budgetPlaceOf(v)
		if q.budget != "" && v.Budget != q.budget || slices.Compare(at[:], q.after[:]) <= 0 {
			continue
		}
		if len(page.Items) == q.limit {
			page.Next = budgetPlaceOf(page.Items[q.limit-1]).String()
			break
		}
		page.Items = append(page.Items, v)
	}
	return page
}
