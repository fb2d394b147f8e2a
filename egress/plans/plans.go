// Package plans renders how an action of kind plan ended: the execution report
// as the controller loop reads it.
package plans

import (
	"encoding/json"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/schemas"
)

// Render returns the report, byte for byte as it is stored, so that a replay
// of a plan gets the answer that the first caller got. A plan that ended
// without a report is an error to be shown as a problem.
func Render(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) ([]byte, error) {
	if len(doc) > 0 {
		return doc, nil
	}
	code := s.Code
	if code == "" {
		code = fallback(s.Outcome)
	}
	p := schemas.Problem{Code: code, Detail: s.Message}
	if p.Detail == "" {
		p.Detail = "the plan ended without a report: " + string(s.Outcome)
	}
	if s.Outcome == schemas.OutcomeUnknown {
		p.Code = schemas.OutcomeUnknownCode
		p.Detail = schemas.UnknownText + " (/v1/actions/" + ref.ID + "/resolve)"
	}
	return nil, &problem.Error{Problem: p}
}

func fallback(o schemas.Outcome) schemas.Code {
	switch o {
	case schemas.OutcomeCanceled:
		return schemas.Canceled
	case schemas.OutcomeExpired:
		return schemas.DeadlineExceeded
	case schemas.OutcomeUnknown:
		return schemas.OutcomeUnknownCode
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	return schemas.Internal
}

// Surface answers for kind plan.
func Surface() egress.Surface {
	return egress.Surface{Name: "plans", Views: []egress.View{{
		Kind: schemas.KindPlan, Payload: egress.Shown(Hide),
		Answer: func(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
			body, err := Render(ref, s, doc)
			if err == nil {
				stream.WriteBody(w, http.StatusOK, "application/json", body)
			}
			return err
		},
	}}}
}

// Hide hides the values of headers and of ignored members of a plan whose names say that
// they carry credentials. The body for the target stays.
func Hide(r *redact.Redactor, plan *schemas.PlanRequest) {
	plan.Snapshot = r.Members(plan.Snapshot)
	for i, d := range plan.Plan.Decisions {
		plan.Plan.Decisions[i].TargetState = r.Members(d.TargetState, "url", "params", "body")
	}
}
