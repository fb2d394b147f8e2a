package rules

import (
	"cmp"

	"weir/internal/policy"
	"weir/internal/traffic"
	"weir/schemas"
)

// checkRedirect refuses a redirect that policy could never allow, or that leads to itself. It reports
// such rules early; policy still decides about each call. was is the rule before; nil for a new
// one. A redirect that is only renamed or turned off is not checked.
func (w *write) checkRedirect(was *schemas.Rule, r schemas.Rule) *schemas.AgentError {
	if r.Type != schemas.RuleRedirect {
		return nil
	}
	if was == nil || rerouted(*was, r) || r.Enabled && !was.Enabled {
		if reason, ok := allowed(w.policy(), r); !ok {
			return invalid(string(schemas.DenyRule), "at /action/to_url: policy permits no call there: "+reason)
		}
	}
	if (was == nil || r.Enabled) && traffic.ReturnsAlways(r) {
		return invalid(string(schemas.DenyRule), "at /action/to_url: it leads back to what the rule matches; no call could go there")
	}
	return nil
}

// rerouted reports whether a rule leads somewhere else than before.
func rerouted(was, r schemas.Rule) bool {
	return was.Type != r.Type || was.Match != r.Match || was.Action.ToURL != r.Action.ToURL
}

// allowed reports whether some call that a redirect made could be permitted, and
// what policy says of one if not.
func allowed(p *policy.Policy, r schemas.Rule) (reason string, ok bool) {
	method := r.Match.Method
	if method == traffic.AnyMethod {
		method = ""
	}
	prefix := traffic.TargetPrefix(r)
	whole := prefix == r.Action.ToURL
	if p.Reaches(method, prefix, whole, false) || ofRuns(r.Scope) && p.Reaches(method, prefix, whole, true) {
		return "", true
	}
	if whole {
		if d := p.Decide(policy.Request{Method: cmp.Or(method, "GET"), URL: prefix}); !d.Allowed {
			return d.Reason, false
		}
	}
	return "no entry and no allowed host leads there; ask the operator to add one", false
}

// ofRuns reports whether a call to an agent may be in the scope.
func ofRuns(s *schemas.RuleScope) bool {
	return s == nil || s.ActionKind == "" || s.ActionKind == schemas.KindRun
}
