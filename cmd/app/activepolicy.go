package app

import (
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	"weir/internal/config"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/schemas"
)

// inForce is the policy that decides now. It is exchanged as a whole.
type inForce struct{ now atomic.Pointer[dated] }

// dated is a policy with the remote agents that it permits, by task type, the models and their
// budgets, and the time at which this node put it in force.
type dated struct {
	policy  *policy.Policy
	agents  map[string]schemas.Agent
	listed  []schemas.Model // as the configuration has them
	models  *models.Set
	budgets []schemas.Budget
	since   time.Time
}

// get returns the policy in force; before there is a policy, an empty one.
func (f *inForce) get() *dated {
	if d := f.now.Load(); d != nil {
		return d
	}
	return &dated{}
}

// Load is the policy in force; before there is one, nil, which denies everything.
func (f *inForce) Load() *policy.Policy { return f.get().policy }

// draw makes of a configuration what a reload exchanges.
func (a *App) draw(c config.Config) (dated, error) {
	p, err := a.compile(c)
	if err != nil {
		return dated{}, err
	}
	d := dated{policy: p, agents: c.RunAgents(), listed: c.ChatModels(), budgets: c.ModelBudgets()}
	d.models = models.New(d.listed)
	return d, nil
}

// otherThan reports whether another policy decides differently, or calls agents and models
// differently or within other limits, which the policy's version does not include.
func (d *dated) otherThan(next dated) bool {
	return next.policy.Version() != d.policy.Version() || !maps.Equal(next.agents, d.agents) ||
		!reflect.DeepEqual(next.listed, d.listed) || !reflect.DeepEqual(next.budgets, d.budgets)
}

// agent is the remote agent that serves a task type now. Its name is stored with the policy that
// has its entry, so both change at once.
func (a *App) agent(taskType string) (schemas.Agent, bool) {
	agent, ok := a.policy.get().agents[taskType]
	return agent, ok
}

// serves reports whether a remote agent serves a task type now. Weir's own task types are not
// included.
func (a *App) serves(taskType string) bool {
	_, ok := a.agent(taskType)
	return ok
}

// models are those in force. They travel with the policy that has their entries, so
// both are exchanged at once; nil: there are none yet.
func (a *App) models() *models.Set { return a.policy.get().models }

// budgets are those in force. They are exchanged with the models that they bound.
func (a *App) budgets() []schemas.Budget { return a.policy.get().budgets }
