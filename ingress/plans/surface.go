package plans

import (
	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/schemas"
)

// Surface is POST /v1/plans: an ordered list of decisions.
func Surface(s *ingress.Server) ingress.Surface {
	return ingress.Surface{
		Name: "plans", Kind: schemas.KindPlan,
		Routes: []ingress.Route{ingress.Post("/v1/plans", s.Store(order), schemas.ScopeActionsWrite)},
		Redrive: func(req *accept.Request, by grant.Caller) error {
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
	return ingress.Order{ID: id, Payload: req}, nil
}
