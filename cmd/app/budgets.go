package app

import "weir/schemas"

// budgets are those in force. They are exchanged with the models that they bound.
func (a *App) budgets() []schemas.Budget {
	if d := a.policy.now.Load(); d != nil {
		return d.budgets
	}
	return nil
}
