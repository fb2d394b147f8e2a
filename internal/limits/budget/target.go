package budget

import (
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

// owner is whose an account is, as far as its budget tells owners apart.
type owner struct{ tenant, budget, token, task, model string }

// key is the account's in the bucket: no part is empty, and none holds a dot.
func (o owner) key() string {
	parts := []string{o.tenant, o.budget, o.token, o.task, o.model}
	for i, s := range parts {
		parts[i] = schemas.EscapeToken(s)
	}
	return strings.Join(parts, ".")
}

func readKey(key string) (o owner, ok bool) {
	parts := strings.Split(key, ".")
	fields := []*string{&o.tenant, &o.budget, &o.token, &o.task, &o.model}
	if len(parts) != len(fields) {
		return o, false
	}
	for i, part := range parts {
		text, err := schemas.UnescapeToken(part)
		if err != nil {
			return o, false
		}
		*fields[i] = text
	}
	return o, true
}

// target is an account that an order touches.
type target struct {
	owner

	window time.Duration
	limit  sum
	// ofTask: the limit comes from the task's own budget, and is kept in the account.
	ofTask bool
	// models are the order's models that it counts; nil: every model.
	models []string
}

// share is what of a usage is the account's.
func (t target) share(o Order, used *schemas.ChatUsage) *schemas.ChatUsage {
	if used == nil || o.Shares == nil || t.models == nil {
		return used
	}
	var own *schemas.ChatUsage
	for _, name := range t.models {
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

// targets are the accounts that an order touches, with its task and the task's subtokens first.
func (b *Limiter) targets(o Order) []target {
	var list []target
	own := func(task string, of *schemas.TaskBudget) {
		if limit := taskLimit(of); limit != (sum{}) && o.Task != "" {
			list = append(list, target{owner: owner{tenant: o.Tenant, budget: schemas.BudgetOfTask, task: task}, limit: limit, ofTask: true})
		}
	}
	own(o.Task, o.TaskBudget)
	for i := range o.Subtokens {
		own(schemas.SubtokenAccount(o.Task, o.Subtokens[i].N), &o.Subtokens[i].TaskBudget)
	}
	for _, in := range b.cfg.Budgets() {
		for _, model := range o.Models {
			own, ok := ownerOf(in, o, model)
			if !ok {
				continue
			}
			at := slices.IndexFunc(list, func(t target) bool { return t.owner == own && !t.ofTask })
			if at < 0 {
				at = len(list)
				list = append(list, target{owner: own, window: in.Window, limit: limitOf(in)})
			}
			if len(in.Models) > 0 || slices.Contains(in.Per, schemas.PerModel) {
				list[at].models = append(list[at].models, model)
			}
		}
	}
	return list
}

// limitOf is what a budget bounds.
func limitOf(b schemas.Budget) sum { return sum{b.Requests, b.Tokens, int64(b.Nanos)} }

// nano is how many nanodollars a dollar has.
const nano = 1e9

// taskLimit is the limit of the budget of a task or a subtoken; the zero sum: there is none.
func taskLimit(b *schemas.TaskBudget) sum {
	if b == nil {
		return sum{}
	}
	return sum{b.Requests, b.Tokens, int64(min(math.Round(b.USD*nano), math.MaxInt64/2))}
}

// ownerOf is the account of a budget that an order touches by one of its models, if any. A budget
// per task does not apply to an order without a task. Orders without a token share one account.
func ownerOf(b schemas.Budget, o Order, model string) (own owner, ok bool) {
	if len(b.Tenants) > 0 && !slices.Contains(b.Tenants, o.Tenant) || !models.May(b.Models, model) {
		return own, false
	}
	own = owner{tenant: o.Tenant, budget: b.Name}
	for _, per := range b.Per {
		switch per {
		case schemas.PerToken:
			own.token = o.Token
		case schemas.PerModel:
			own.model = model
		case schemas.PerTask:
			if own.task = o.Task; own.task == "" {
				return own, false
			}
		}
	}
	return own, true
}
