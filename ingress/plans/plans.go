// Package plans translates the bodies of POST /v1/plans to plans. It performs nothing and knows no
// HTTP. It does not check the targets of decisions: a bad target fails alone, in its turn.
package plans

import (
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/schemas"
)

// The refusals of a whole plan, word for word as controllers know them.
const (
	noSnapshot   = "state:env.snapshot is required"
	badSnapshot  = "state:env.snapshot must be a mapping"
	noPlan       = "artifact:proposed.plan is required"
	badPlan      = "artifact:proposed.plan must be a mapping"
	badDecisions = "plan.decisions must be a non-string sequence"
	badDecision  = "each plan decision must be a mapping"
	badEffectRef = "decision.effect_ref must be a non-empty string"
	badTarget    = "decision.target_state must be a mapping"
	badPlanID    = "plan.plan_id must be a string or null"
	badKey       = "decision.idempotency_key must be a string"
	badRequestID = "request_id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"
)

type envelope struct {
	RequestID jsontext.Value `json:"request_id"`
	Snapshot  jsontext.Value `json:"state:env.snapshot"`
	Plan      jsontext.Value `json:"artifact:proposed.plan"`
}

type plan struct {
	PlanID    jsontext.Value `json:"plan_id"`
	Decisions jsontext.Value `json:"decisions"`
}

type decision struct {
	EffectRef      jsontext.Value `json:"effect_ref"`
	TargetState    jsontext.Value `json:"target_state"`
	IdempotencyKey jsontext.Value `json:"idempotency_key"`
}

// Translate reads a body that strict.Check has passed. Every refusal is a
// *fault.Error with VALIDATION_ERROR or INVALID_REQUEST and concerns the whole
// plan. Unknown members of the plan and of a decision are left out. Snapshot and
// target states keep their bytes. The plan's RequestID is the caller's, or "".
func Translate(body []byte) (schemas.PlanRequest, error) {
	var env envelope
	if err := strict.Decode(body, &env); err != nil {
		return schemas.PlanRequest{}, err
	}
	if err := mapping(env.Snapshot, noSnapshot, badSnapshot); err != nil {
		return schemas.PlanRequest{}, err
	}
	if err := mapping(env.Plan, noPlan, badPlan); err != nil {
		return schemas.PlanRequest{}, err
	}
	req := schemas.PlanRequest{Snapshot: json.RawMessage(env.Snapshot)}
	if !strict.Absent(env.RequestID) {
		id, ok := strict.String(env.RequestID)
		if !ok || !schemas.ValidID(id) {
			return schemas.PlanRequest{}, refuse(badRequestID)
		}
		req.RequestID = id
	}
	var err error
	req.Plan, err = proposed(env.Plan)
	if err != nil {
		return schemas.PlanRequest{}, err
	}
	return req, nil
}

func proposed(v jsontext.Value) (schemas.ProposedPlan, error) {
	const at = "/artifact:proposed.plan"
	var p plan
	if err := strict.Open(at, v, &p); err != nil {
		return schemas.ProposedPlan{}, err
	}
	out := schemas.ProposedPlan{Decisions: []schemas.PlanDecision{}}
	if !strict.Absent(p.PlanID) {
		id, ok := strict.String(p.PlanID)
		if !ok {
			return out, refuse(badPlanID)
		}
		out.PlanID = &id
	}
	if strict.Kind(p.Decisions) != '[' {
		return out, refuse(badDecisions)
	}
	var list []jsontext.Value
	if err := jsonv2.Unmarshal(p.Decisions, &list); err != nil {
		return out, refuse(badDecisions)
	}
	for i, v := range list {
		d, err := decide(at+"/decisions/"+strconv.Itoa(i), v)
		if err != nil {
			return out, err
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out, nil
}

func decide(at string, v jsontext.Value) (schemas.PlanDecision, error) {
	if strict.Kind(v) != '{' {
		return schemas.PlanDecision{}, refuse(badDecision)
	}
	var d decision
	if err := strict.Open(at, v, &d); err != nil {
		return schemas.PlanDecision{}, err
	}
	ref, ok := strict.String(d.EffectRef)
	if !ok || ref == "" {
		return schemas.PlanDecision{}, refuse(badEffectRef)
	}
	if strict.Kind(d.TargetState) != '{' {
		return schemas.PlanDecision{}, refuse(badTarget)
	}
	out := schemas.PlanDecision{EffectRef: ref, TargetState: json.RawMessage(d.TargetState)}
	if !strict.Absent(d.IdempotencyKey) {
		if out.IdempotencyKey, ok = strict.String(d.IdempotencyKey); !ok {
			return schemas.PlanDecision{}, refuse(badKey)
		}
	}
	return out, nil
}

// mapping refuses a value that is absent, or not an object.
func mapping(v jsontext.Value, none, other string) error {
	switch {
	case strict.Absent(v):
		return refuse(none)
	case strict.Kind(v) != '{':
		return refuse(other)
	default:
		return nil
	}
}

func refuse(message string) error { return fault.New(schemas.ValidationError, message) }

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
