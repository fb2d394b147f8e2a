package tunnel

import (
	"context"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/problem"
	"weir/schemas"
)

// record stores the record of a state of the tunnel.
func (x *Tunnel) record(ctx context.Context, state schemas.TunnelState, code schemas.Code, audit schemas.TunnelAudit) error {
	pass := x.current()
	permit, d := pass.Permit(), pass.Decision()
	audit.State, audit.Target, audit.Connect, audit.Network = state, permit.Authority(), permit.Connect(), permit.Network()
	return x.store(ctx, code, d, audit)
}

func (x *Tunnel) store(ctx context.Context, code schemas.Code, d schemas.Decision, audit schemas.TunnelAudit) error {
	payload, err := ledger.Encode(audit)
	if err != nil {
		return err
	}
	err = x.all.recorder.Record(ctx, schemas.Evidence{
		ID: x.id + "." + string(audit.State), Tenant: x.caller.Tenant, ActionID: x.id, Kind: schemas.EvidenceTunnel,
		Entry: d.Entry, Code: code, Payload: payload, PolicyVersion: d.Version, Principal: x.caller.Principal, Shadow: d.Shadow,
	})
	if err != nil || audit.State == schemas.TunnelEnded {
		return err
	}
	return x.all.cfg.Barrier(ctx)
}

// refuse stores the record of a refusal, and returns the error that says it.
func (x *Tunnel) refuse(ctx context.Context, authority string, d schemas.Decision, failed *fault.Call) error {
	audit := schemas.TunnelAudit{State: schemas.TunnelRefused, Target: policy.Authority(authority), Reason: reason(d, failed.Code)}
	if pass := x.current(); pass.Valid() {
		audit.Connect, audit.Network = pass.Permit().Connect(), pass.Permit().Network()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storing)
	defer cancel()
	if err := x.store(ctx, failed.Code, d, audit); err != nil {
		return &fault.Error{Code: schemas.Unavailable, Message: "the record of the refusal could not be stored; try again", Cause: err}
	}
	return &problem.Error{
		Problem: schemas.Problem{Code: failed.Code, Rule: d.Entry, Reason: audit.Reason, Detail: audit.Reason},
		Cause:   failed,
	}
}

// reason is why a tunnel was refused, in a fixed sentence.
func reason(d schemas.Decision, code schemas.Code) string {
	switch {
	case !d.Allowed && d.Reason != "":
		return d.Reason
	case code == schemas.DenyAddress:
		return "the host leads to an address that the entry does not grant; its network and cidrs say which it does"
	case code.Denied():
		return "the policy or a traffic rule has changed, and denies the tunnel"
	case code == schemas.UpstreamDNS:
		return "the host has no address; check its name"
	case code == schemas.UpstreamTimeout:
		return "the target did not accept the connection in time"
	case code == schemas.Canceled:
		return "the client left before the tunnel was open"
	default:
		return "the target refused the connection"
	}
}
