package rules

import (
	"cmp"
	"context"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/rules"
	"weir/internal/traffic"
	"weir/processors/call"
	"weir/schemas"
)

// write is one write of a set. It belongs to one goroutine.
type write struct {
	*Rules

	st    *ledger.State
	order schemas.RuleOrder
	// begun: an earlier worker may have made the write.
	begun bool
	// sent: this worker has sent it, and its reported failure may be wrong.
	sent bool
}

// carry makes the write, or returns why it is not made. An error comes from the rule sets and means
// that the result is unknown; fault.ErrFenced means that the write was not stored, or an earlier
// worker's was.
//
// It checks first whether the write is already stored: then it cannot be refused any more. A write
// that no earlier worker can have made is only compared with the newest etag, because a race has
// many losers.
func (w *write) carry(ctx context.Context, stop call.Stop) (end, error) {
	expected, readable := rules.Revision(w.order.IfMatch)
	cur, err := w.sets.Newest(ctx, w.st.Tenant)
	damaged := errors.Is(err, rules.ErrUnreadable)
	switch {
	case err != nil && !damaged:
		return end{}, err
	case readable && (w.begun || w.sent) && (cur.Revision > expected || damaged):
		e, settled, err := w.recoverOutcome(ctx, cur, expected)
		if err != nil || settled {
			return e, err
		}
	}
	e, err := w.attempt(ctx, stop, cur, damaged)
	if err == nil && e.refusal != nil && w.begun && !damaged && cur.Etag == w.order.IfMatch {
		return w.void(ctx, cur, e)
	}
	return e, err
}

// attempt makes the write unless something speaks against it.
func (w *write) attempt(ctx context.Context, stop call.Stop, cur rules.Snapshot, damaged bool) (end, error) {
	canceled, over := call.Over(w.st, stop, w.cfg.Now())
	switch {
	case over:
		return stopped(cur.Etag, canceled), nil
	case damaged:
		return unreadable(), nil
	case cur.Etag != w.order.IfMatch:
		return mismatch(cur.Etag), nil
	}
	return w.put(ctx, cur)
}

// voided follows an action's id in the By of a set that was put in its own place.
const voided = ".void"

// void makes a refusal final: a write that an earlier worker sent and that has not arrived yet
// would still find its expected set. So the set is stored again under a new revision before the
// refusal is reported.
func (w *write) void(ctx context.Context, cur rules.Snapshot, e end) (end, error) {
	doc := cur.Doc
	doc.By, doc.At = w.st.ID+voided, w.cfg.Now().UTC()
	next, err := w.sets.Put(ctx, w.st.Tenant, doc, cur.Revision)
	switch {
	case errors.Is(err, fault.ErrTooLarge), errors.Is(err, rules.ErrUnreadable):
		return unknown(cur.Etag), nil // it stays as it is, whatever may still arrive
	case err != nil:
		return end{}, err
	}
	e.after = next.Etag
	return e, nil
}

// put writes what the order makes of a set in its place.
func (w *write) put(ctx context.Context, cur rules.Snapshot) (end, error) {
	now := w.cfg.Now().UTC()
	doc, refusal := w.apply(cur.Doc, now)
	if refusal != nil {
		return refused(cur.Etag, refusal), nil
	}
	doc.V, doc.Tenant = schemas.RuleSetVersion, w.st.Tenant
	doc.By, doc.Previous, doc.At = w.st.ID, cur.Revision, now
	if refusal := w.fits(doc); refusal != nil {
		return refused(cur.Etag, refusal), nil
	}
	w.sent = true
	next, err := w.sets.Put(ctx, w.st.Tenant, doc, cur.Revision)
	switch {
	case errors.Is(err, fault.ErrTooLarge):
		return refused(cur.Etag, tooLarge()), nil
	case errors.Is(err, rules.ErrUnreadable):
		return internal(cur.Etag, "the rules with this one cannot be put in force; nothing was changed"), nil
	case err != nil:
		return end{}, err
	}
	return w.written(next), nil
}

// recoverOutcome derives from the set that replaced the expected one whether this action wrote it. Settled is
// false if it did not, or if it had not started: then the write is refused, if only because its
// etag is outdated.
func (w *write) recoverOutcome(ctx context.Context, cur rules.Snapshot, expected uint64) (e end, settled bool, err error) {
	next, err := w.sets.After(ctx, w.st.Tenant, expected)
	var lost bool // what replaced it, if anything did
	switch {
	case errors.Is(err, rules.ErrUnreadable):
		lost = true
	case errors.Is(err, fault.ErrNotFound):
		lost = cur.Revision >= expected // equal where it cannot be read: the earlier worker's write may still arrive
	case err != nil:
		return e, false, err
	case next.Doc.Previous == expected && next.Doc.By == w.st.ID:
		return w.written(next), true, nil
	default: // what replaced an earlier set says that the expected one was never this tenant's
		lost = next.Doc.Previous > expected
	}
	if lost && w.begun {
		return unknown(cur.Etag), true, nil
	}
	return e, false, nil
}

// written is the end of a write that is in.
func (w *write) written(next rules.Snapshot) end {
	e := end{outcome: schemas.OutcomeSucceeded, before: w.order.IfMatch, after: next.Etag, at: next.Doc.At}
	list := next.Doc.Rules
	switch w.order.Operation {
	case schemas.OpRulesCreate: // it stands last
		if len(list) > 0 {
			e.rule = &list[len(list)-1]
		}
	case schemas.OpRulesPatch, schemas.OpRulesEnable, schemas.OpRulesDisable:
		if i := find(list, w.order.ID); i >= 0 {
			e.rule = &list[i]
		}
	}
	return e
}

// reset replaces an unreadable set by an empty one, or returns why not. Its errors are those of
// carry. No etag can identify such a set, so its being unreadable is the condition.
func (w *write) reset(ctx context.Context, stop call.Stop) (end, error) {
	cur, err := w.sets.Newest(ctx, w.st.Tenant)
	damaged := errors.Is(err, rules.ErrUnreadable)
	if err != nil && !damaged {
		return end{}, err
	}
	canceled, over := call.Over(w.st, stop, w.cfg.Now())
	switch {
	case !damaged && cur.Doc.By == w.st.ID:
		return w.written(cur), nil
	case w.begun && (over || !damaged): // it may still arrive, or have been replaced since
		return unknown(cur.Etag), nil
	case over:
		return stopped(cur.Etag, canceled), nil
	case !damaged:
		return refused(cur.Etag, invalid("", "the rule set can be read; disable its rules instead")), nil
	}
	next, err := w.sets.Reset(ctx, w.st.Tenant, w.st.ID)
	if err != nil {
		return end{}, err
	}
	return w.written(next), nil
}

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
