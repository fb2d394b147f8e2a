// Package plans renders how an action of kind plan ended: the execution report
// as the controller loop reads it.
package plans

import (
	"encoding/json"
	"net/http"

	"weir/egress"
	"weir/internal/redact"
	"weir/schemas"
)

// Render returns the report, byte for byte as it is stored, so that a replay
// of a plan gets the answer that the first caller got. A plan that ended
// without a report is an error to be shown as a problem.
func Render(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	if len(doc) > 0 {
		return http.StatusOK, doc, nil
	}
	return 0, nil, egress.Unsuccessful(ref, s, "the plan ended without a report: "+string(s.Outcome))
}

// Surface answers for kind plan.
func Surface() egress.Surface {
	return egress.Surface{Name: "plans", Views: []egress.View{{Kind: schemas.KindPlan, Render: Render, Payload: egress.Shown(Hide)}}}
}

// Hide hides the values of headers and of ignored members of a plan whose names say that
// they carry credentials. The body for the target stays.
func Hide(r *redact.Redactor, plan *schemas.PlanRequest) {
	plan.Snapshot = r.Members(plan.Snapshot)
	for i, d := range plan.Plan.Decisions {
		plan.Plan.Decisions[i].TargetState = r.Members(d.TargetState, "url", "params", "body")
	}
}
