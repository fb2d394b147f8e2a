package plans

import (
	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/schemas"
)

// route is part of the ids that are derived from an Idempotency-Key. It must never change.
const route = "/v1/plans"

// Surface is POST /v1/plans: an ordered list of decisions.
func Surface(s *ingress.Server) ingress.Surface {
	return ingress.Surface{
		Name: "plans", Kind: schemas.KindPlan,
		Routes: []ingress.Route{ingress.Post(route, s.Store(route, order), schemas.ScopeActionsWrite)},
		Redrive: func(req *accept.Request, by grant.Asker) error {
			plan, err := ingress.Payload[schemas.PlanRequest](req.Payload)
			if err != nil {
				return err
			}
			return grant.Plan(plan, by.Entries)
		},
	}
}

func order(who ingress.Identity, body []byte) (ingress.Order, error) {
	req, err := Translate(body)
	if err == nil {
		err = grant.Plan(req, who.Entries)
	}
	if err != nil {
		return ingress.Order{}, err
	}
	id := req.RequestID
	req.RequestID = "" // it names the action, and is no part of the plan
	return ingress.Order{Kind: schemas.KindPlan, ID: id, Payload: req}, nil
}
