package app

import "weir/schemas"

// agent is the remote agent that serves a task type now. What it is called by
// travels with the policy that has its entry, so both are exchanged at once.
func (a *App) agent(taskType string) (schemas.Agent, bool) {
	d := a.policy.now.Load()
	if d == nil {
		return schemas.Agent{}, false
	}
	agent, ok := d.agents[taskType]
	return agent, ok
}

// serves reports whether a remote agent serves a task type now. Those that Weir
// serves by itself are not among them.
func (a *App) serves(taskType string) bool {
	_, ok := a.agent(taskType)
	return ok
}
