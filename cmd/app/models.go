package app

import "weir/internal/models"

// models are those in force. They travel with the policy that has their entries, so
// both are exchanged at once; nil: there are none yet.
func (a *App) models() *models.Set {
	if d := a.policy.now.Load(); d != nil {
		return d.models
	}
	return nil
}
