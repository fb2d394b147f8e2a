package budget

import (
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

// seat is an account that an order touches.
type seat struct {
	name   string // the budget's
	key    string
	window time.Duration
	limit  sum
	// ofTask: the limit was brought by the task, and is kept in the account.
	ofTask bool
	// models are those of the order's that it is about; nil: every model.
	models []string
}

// share is what of a usage is an account's.
func (s seat) share(o Order, used *schemas.ChatUsage) *schemas.ChatUsage {
	if used == nil || o.Shares == nil || s.models == nil {
		return used
	}
	var own *schemas.ChatUsage
	for _, name := range s.models {
		u, ok := o.Shares[name]
		switch {
		case !ok:
		case own == nil:
			own = &u
		default:
			*own = models.Sum(*own, u)
		}
	}
	return own
}

// place is whose an account is, as far as its budget tells them apart.
type place struct{ tenant, budget, token, task, model string }

// key is the account's in the bucket: no part is empty, and none holds a dot.
func (p place) key() string {
	parts := []string{p.tenant, p.budget, p.token, p.task, p.model}
	for i, s := range parts {
		parts[i] = schemas.EscapeToken(s)
	}
	return strings.Join(parts, ".")
}

func readKey(key string) (p place, ok bool) {
	parts := strings.Split(key, ".")
	fields := []*string{&p.tenant, &p.budget, &p.token, &p.task, &p.model}
	if len(parts) != len(fields) {
		return p, false
	}
	for i, part := range parts {
		text, err := schemas.UnescapeToken(part)
		if err != nil {
			return p, false
		}
		*fields[i] = text
	}
	return p, true
}

// seats are the accounts that an order touches, its task's own first.
func (b *Book) seats(o Order) []seat {
	var list []seat
	if t := taskLimit(o); t != (sum{}) {
		p := place{tenant: o.Tenant, budget: schemas.BudgetOfTask, task: o.Task}
		list = append(list, seat{name: p.budget, key: p.key(), limit: t, ofTask: true})
	}
	for _, in := range b.cfg.Budgets() {
		for _, model := range o.Models {
			p, ok := placeOf(in, o, model)
			if !ok {
				continue
			}
			key := p.key()
			at := slices.IndexFunc(list, func(s seat) bool { return s.key == key && !s.ofTask })
			if at < 0 {
				at = len(list)
				list = append(list, seat{name: in.Name, key: key, window: in.Window, limit: limitOf(in)})
			}
			if len(in.Models) > 0 || slices.Contains(in.Per, schemas.PerModel) {
				list[at].models = append(list[at].models, model)
			}
		}
	}
	return list
}

// taskLimit is what a task has brought; nothing where it is not bounded.
func taskLimit(o Order) sum {
	if o.Task == "" || o.TaskBudget == nil {
		return sum{}
	}
	const nano = 1e9
	return sum{o.TaskBudget.Requests, o.TaskBudget.Tokens, int64(min(math.Round(o.TaskBudget.USD*nano), math.MaxInt64/2))}
}

// placeOf is the account of a budget that an order touches by one of its models, if any. What has no task is
// not bounded by what each task may use; what has no token shares one account.
func placeOf(b schemas.Budget, o Order, model string) (p place, ok bool) {
	if len(b.Tenants) > 0 && !slices.Contains(b.Tenants, o.Tenant) || !models.May(b.Models, model) {
		return p, false
	}
	p = place{tenant: o.Tenant, budget: b.Name}
	for _, per := range b.Per {
		switch per {
		case schemas.PerToken:
			p.token = o.Token
		case schemas.PerModel:
			p.model = model
		case schemas.PerTask:
			if p.task = o.Task; p.task == "" {
				return p, false
			}
		}
	}
	return p, true
}
