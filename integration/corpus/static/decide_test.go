package static_test

import (
	"errors"
	"time"

	"weir/ingress/executor"
	ingressplans "weir/ingress/plans"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/processors/plans"
	"weir/schemas"
)

// codeOK is the code of an allowed row.
const codeOK schemas.Code = "OK"

// maxTimeout is what policy.timeout is where the configuration has none.
const maxTimeout = 30 * time.Second

// asker asks the policy of a row as a node asks its own, and keeps what it said.
type asker struct {
	policy *policy.Policy
	scope  evaluate.Scope
	said   policy.Decision
}

// Evaluate implements executor.Policy.
func (a *asker) Evaluate(call schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	_, a.said = evaluate.Call(a.policy, nil, call, a.scope, time.Now())
	permit, _ := a.said.Permit()
	return a.said.Decision, policy.Class(call.Method, call.IdempotencyKey != "", permit)
}

// MaxTimeout implements executor.Policy.
func (*asker) MaxTimeout() time.Duration { return maxTimeout }

// decide reads and judges the request of a row as POST /v1/execute does, or POST
// /v1/plans where it is planned. Without a permit, code says why.
func decide(p *policy.Policy, c *row, check executor.Checker) (permit policy.Permit, code schemas.Code) {
	a := &asker{policy: p}
	err := strict.Check(c.body(), strict.Limits{})
	switch {
	case err != nil:
	case c.planned():
		err = a.plan(c.body())
	default:
		_, err = executor.Translate(c.body(), a, check)
	}
	if err != nil {
		return policy.Permit{}, codeOf(err)
	}
	permit, _ = a.said.Permit()
	return permit, a.said.Code
}

// plan judges the decision of a plan with one.
func (a *asker) plan(body []byte) error {
	req, err := ingressplans.Translate(body)
	if err != nil {
		return err
	}
	call, _, err := plans.Translate(req.Plan.Decisions[0].TargetState)
	if err != nil {
		return fault.New(plans.Refusal(err), err.Error())
	}
	a.scope.KeyRequired = true
	a.Evaluate(call)
	return nil
}

// codeOf is the code that a refused body is answered with.
func codeOf(err error) schemas.Code {
	if e, ok := errors.AsType[*executor.Error](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code
	}
	return schemas.Internal
}

// answerTo decides as the gateway does: by the request, then by the first answer of DNS.
func answerTo(p *policy.Policy, c *row, check executor.Checker) schemas.Code {
	permit, code := decide(p, c, check)
	switch {
	case !permit.Valid():
		return code
	case permit.Addr().IsValid():
		return codeOK
	}
	addrs, ok := c.resolve(permit.Host())
	if !ok {
		return schemas.UpstreamDNS
	}
	if err := permit.CheckAddrs(addrs); err != nil {
		return schemas.DenyAddress
	}
	return codeOK
}
