package corpus_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/ingress/executor"
	ingressplans "weir/ingress/plans"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/weirtest/upstream"
	"weir/processors/plans"
	"weir/schemas"
)

// TestStatic decides the static rows of the outbound corpus as POST /v1/execute does on a node without
// traffic rules, one with params as POST /v1/plans does: forms of addresses, hosts, paths, ports,
// headers, bodies and the ranges behind a name, without a network. It is the only test that runs
// all of them, and it is in the first tier. TestOutbound sends some of each category over the wire.
func TestStatic(t *testing.T) {
	t.Parallel()
	compiled := new(jsonschema.Cache)
	rows := 0
	for _, r := range readRows[outboundRow](t, "outbound") {
		if !r.Static {
			continue
		}
		rows++
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			var in struct {
				Entries   []policy.Entry `json:"entries"`
				SelfPorts []uint16       `json:"self_ports"`
			}
			require.NoError(t, json.Unmarshal(encode(r.Policy), &in))
			p, err := policy.Compile(policy.Config{Entries: in.Entries, SelfPorts: in.SelfPorts})
			require.NoError(t, err)
			code := r.decide(p, compiled)
			assert.Equal(t, r.Expected == "allow", code == codeOK, "%s: %s", r.Why, code)
			if r.Level == "must" {
				assert.EqualValues(t, r.Code, code, r.Why)
			}
		})
	}
	require.Greater(t, rows, 200)
}

// codeOK is the code of an allowed row.
const codeOK schemas.Code = "OK"

// asker asks the policy of a row as a node asks its own, and keeps the decision.
type asker struct {
	policy  *policy.Policy
	scope   evaluate.Scope
	decided policy.Decision
}

// Evaluate implements executor.Policy.
func (a *asker) Evaluate(call schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	_, a.decided = evaluate.Call(a.policy, nil, call, a.scope, time.Now())
	permit, _ := a.decided.Permit()
	return a.decided.Decision, policy.Class(call.Method, call.IdempotencyKey != "", permit)
}

// MaxTimeout implements executor.Policy.
func (*asker) MaxTimeout() time.Duration { return 30 * time.Second }

// plan evaluates the decision of a plan with one.
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

// decide decides a row as the gateway does: by the request, then by the first answer of DNS.
func (r *outboundRow) decide(p *policy.Policy, compiled *jsonschema.Cache) schemas.Code {
	a := &asker{policy: p}
	path, text := r.body()
	body := []byte(text)
	err := strict.Check(body, strict.Limits{})
	switch {
	case err != nil:
	case path == "/v1/plans":
		err = a.plan(body)
	default:
		_, err = executor.Translate(body, a, compiled)
	}
	if err != nil {
		return codeOf(err)
	}
	permit, _ := a.decided.Permit()
	switch {
	case !permit.Valid():
		return a.decided.Code
	case permit.Addr().IsValid():
		return codeOK
	}
	addrs, ok := r.resolve(permit.Host(), 8)
	if !ok {
		return schemas.UpstreamDNS
	}
	if err := permit.CheckAddrs(addrs); err != nil {
		return schemas.DenyAddress
	}
	return codeOK
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

// resolve is the first answer for a host, through so many aliases. It is false if DNS fails.
func (r *outboundRow) resolve(host string, aliases int) (addrs []netip.Addr, ok bool) {
	answers, ok := r.Resolver[host]
	if !ok {
		answers = r.Resolver["*"]
	}
	if len(answers) == 0 || aliases == 0 {
		return nil, false
	}
	for _, word := range answers[0] {
		if alias, ok := strings.CutPrefix(word, upstream.CNAME); ok {
			more, ok := r.resolve(alias, aliases-1)
			if !ok {
				return nil, false
			}
			addrs = append(addrs, more...)
			continue
		}
		a, err := netip.ParseAddr(word)
		if err != nil {
			return nil, false
		}
		addrs = append(addrs, a)
	}
	return addrs, len(addrs) > 0
}
