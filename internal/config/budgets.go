package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/models"
	"weir/schemas"
)

// Budget bounds what is used of models. What it does not name it does not bound.
type Budget struct {
	// What each has an account of its own: tenant, token, task, model, or several
	// together, such as [token, model] for each pair. Accounts are each tenant's own in
	// any case. With task it bounds the completions of tasks and no others. Default
	// tenant.
	Per []string `yaml:"per" jsonschema:"enum=tenant,enum=token,enum=task,enum=model"`
	// Names or patterns of the models that it counts, such as openai/*; of aliases
	// the names behind them. Default all.
	Models []string `yaml:"models,omitempty"`
	// Names of the tenants that it bounds. Default all.
	Tenants []string `yaml:"tenants,omitempty"`
	// After how long it begins anew, 1s to 8760h: windows begin at whole multiples of
	// it in UTC. Default 0: never.
	Window time.Duration `yaml:"window,omitempty"`
	// Completions, at least 1.
	Requests int64 `yaml:"requests,omitempty"`
	// Tokens of prompts and answers together, at least 1.
	Tokens int64 `yaml:"tokens,omitempty"`
	// Money by the models' prices, in US dollars. Models without a price are refused.
	USD USD `yaml:"usd,omitempty"`
}

const (
	maxBudgets    = 100
	maxBudgetName = 64
	mostWindow    = 8760 * time.Hour
	mostCount     = 1_000_000_000_000_000
)

// ModelBudgets are the budgets by name, as those who keep to them see them.
func (c Config) ModelBudgets() []schemas.Budget {
	list := make([]schemas.Budget, 0, len(c.Budgets))
	for _, name := range slices.Sorted(maps.Keys(c.Budgets)) {
		b := c.Budgets[name]
		list = append(list, schemas.Budget{
			Name: name, Per: b.Per, Models: b.Models, Tenants: b.Tenants, Window: b.Window,
			Requests: b.Requests, Tokens: b.Tokens, Nanos: int64(b.USD),
		})
	}
	return list
}

// deriveBudgets says whose accounts are where nobody does.
func deriveBudgets(c *Config) {
	for name, b := range c.Budgets {
		if len(b.Per) == 0 {
			b.Per = []string{schemas.PerTenant}
			c.Budgets[name] = b
		}
	}
}

func (r *reader) checkBudgets(c *Config) {
	if len(c.Budgets) > maxBudgets {
		r.wrong("budgets", "has %d budgets; every completion is counted in each that is about it, so write at most %d", len(c.Budgets), maxBudgets)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Budgets)) {
		b, key := c.Budgets[name], join("budgets", name)
		switch {
		case name == schemas.BudgetOfTask:
			r.wrong(key, "is what the budget is called that a task brings itself; give this one another name")
			continue
		case !schemas.ValidID(name) || len(name) > maxBudgetName:
			r.wrong(key, "is not the name of a budget; write at most %d letters, digits, dots, underscores, colons and hyphens", maxBudgetName)
			continue
		}
		r.checkBudget(key, b)
		c.warnings = append(c.warnings, c.doubtful(key, b)...)
	}
}

func (r *reader) checkBudget(key string, b Budget) {
	at := func(list string, i int) string { return join(key, list) + "[" + strconv.Itoa(i) + "]" }
	for i, per := range b.Per {
		if r.oneOf(at("per", i), per, schemas.PerTenant, schemas.PerToken, schemas.PerTask, schemas.PerModel); slices.Contains(b.Per[:i], per) {
			r.wrong(at("per", i), "is there twice; remove one")
		}
	}
	for i, pattern := range b.Models {
		if !models.ValidPattern(pattern) {
			r.wrong(at("models", i), "is neither the name of a model nor a pattern, such as openai/* or *")
		}
	}
	for i, tenant := range b.Tenants {
		if !schemas.ValidID(tenant) {
			r.wrong(at("tenants", i), "is not the name of a tenant; write at most 128 letters, digits, dots, underscores, colons and hyphens")
		}
	}
	if b.Window != 0 {
		between(r, join(key, "window"), duration(b.Window), duration(time.Second), duration(mostWindow))
	}
	bounds := false
	for _, n := range []struct {
		key   string
		value int64
	}{{"requests", b.Requests}, {"tokens", b.Tokens}, {"usd", int64(b.USD)}} {
		inner := join(key, n.key)
		given := r.given.has(inner)
		switch {
		case given && n.value == 0: // whether it means none or any number, nobody can tell
			r.wrong(inner, "is 0; leave it out where it is not bounded, and name other models for a token that may not use these")
		case n.key != "usd" && given:
			between(r, inner, n.value, 1, mostCount)
		}
		bounds = bounds || given
	}
	if !bounds {
		r.wrong(key, "bounds nothing; give it requests, tokens or usd")
	}
}

// doubtful says what a budget will not do that it looks like.
func (c Config) doubtful(key string, b Budget) (all []string) {
	for i, name := range b.Models {
		at := join(key, "models") + "[" + strconv.Itoa(i) + "]: "
		if of := c.Models[name].Alias; of != "" {
			all = append(all, at+"is another name for "+of+", which is what is counted; write that")
		} else if len(c.Models) > 0 && !c.serves(name) {
			all = append(all, at+"fits no model that is configured, so that nothing is counted by it")
		}
	}
	if b.USD == 0 {
		return all
	}
	var free []string
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if m := c.Models[name]; m.Alias == "" && m.Price == nil && models.May(b.Models, name) {
			free = append(free, name)
		}
	}
	if len(free) > 0 {
		all = append(all, join(key, "usd")+": refuses every request for "+strings.Join(free, ", ")+", without a price; give one, if it is 0")
	}
	return all
}

// serves reports whether a name or a pattern fits a model that there is, or some names of a
// pattern's.
func (c Config) serves(pattern string) bool {
	for name, m := range c.Models {
		if m.Alias == "" && (models.May([]string{pattern}, name) || models.May([]string{name}, pattern)) {
			return true
		}
	}
	return false
}
