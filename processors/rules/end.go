package rules

import (
	"cmp"
	"time"

	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

// end is how a write came out.
type end struct {
	outcome schemas.Outcome
	code    schemas.Code // empty where it is in
	// before and after are the etags around the write; the same where nothing was
	// written.
	before, after string
	rule          *schemas.Rule // the written rule, if it is one
	at            time.Time     // when; zero: now
	refusal       *schemas.AgentError
}

// refused is the end of a write that is not made.
func refused(etag string, e *schemas.AgentError) end {
	return end{outcome: schemas.OutcomeFailed, code: e.Code, before: etag, after: etag, refusal: e}
}

func internal(etag, message string) end {
	return refused(etag, &schemas.AgentError{Code: schemas.InternalError, Message: message})
}

// unreadable is the end of a write on a set that this version cannot read.
func unreadable() end {
	return refused("", &schemas.AgentError{
		Code: schemas.InternalError, Detail: schemas.DetailRulesUnreadable,
		Message: "the stored rules cannot be read here; nothing was changed: run the version that wrote them, or newer, or have an admin give them up with `weir rules reset`",
	})
}

func mismatch(etag string) end {
	return refused(etag, &schemas.AgentError{
		Code: schemas.EtagMismatch, Message: "the rule set is another one than if_match names; read it again, and look whether the write is still wanted",
	})
}

// stopped is the end of a write that was canceled, or whose time was up, before it
// was made.
func stopped(etag string, canceled bool) end {
	o, code, message := schemas.OutcomeExpired, schemas.DeadlineExceeded, "the write's time was up before it was made; nothing was changed, and it may be sent again under another request_id"
	if canceled {
		o, code, message = schemas.OutcomeCanceled, schemas.Canceled, "the write was canceled before it was made; nothing was changed"
	}
	return other(etag, o, code, message)
}

// unknown is the end of a write that a worker had begun and of which nothing tells
// any more.
func unknown(etag string) end {
	return other(etag, schemas.OutcomeUnknown, schemas.OutcomeUnknownCode,
		"a worker was lost over the write, and nothing tells whether it is in; read the rules before it is sent again")
}

// other is an end without a code of its own in the agent API.
func other(etag string, o schemas.Outcome, code schemas.Code, message string) end {
	e := refused(etag, &schemas.AgentError{Code: schemas.InternalError, Message: message, Detail: string(code)})
	e.outcome, e.code = o, code
	return e
}

// outcome is the end as the action's.
func (w *write) outcome(e end) settle.Outcome {
	v := settle.Outcome{Outcome: e.outcome, Code: e.code, Result: schemas.RuleResult{
		Operation: w.order.Operation, RequestID: w.order.RequestID, Rule: e.rule, RulesEtag: e.after, Error: e.refusal,
	}}
	if e.refusal != nil {
		v.Message = e.refusal.Message
	}
	return v
}

// What follows an action's id in the id of the record of its write, and of a
// refusal. A worker that comes back to a write that was refused, and not settled,
// may find that it can be made now: then the write has a record of its own.
const (
	writeID   = ".rule"
	refusalID = ".rule.refused"
)

// evidence is the record of the write.
func (w *write) evidence(e end) (schemas.Evidence, error) {
	at, id := e.at, w.st.ID+writeID
	if at.IsZero() {
		at = w.cfg.Now()
	}
	if e.refusal != nil {
		id = w.st.ID + refusalID
	}
	after := e.after
	if e.outcome == schemas.OutcomeUnknown { // the set that was found may be this write's result, or not
		after = ""
	}
	payload, err := ledger.Encode(schemas.RuleAudit{
		Timestamp: at.UTC().Format(time.RFC3339Nano), Caller: w.order.Caller, RequestID: w.order.RequestID, Operation: w.order.Operation,
		RuleID: w.ruleID(e), Result: cmp.Or(string(e.code), schemas.RuleWritten), RulesEtagBefore: e.before, RulesEtagAfter: after,
	})
	return schemas.Evidence{
		ID: id, Tenant: w.st.Tenant, ActionID: w.st.ID, Kind: schemas.EvidenceRuleWrite, Code: e.code, Payload: payload,
	}, err
}

// ruleID names the rule that the write is about. What cannot be a rule's id is the
// caller's own text, and is left out.
func (w *write) ruleID(e end) string {
	id := w.order.ID
	switch {
	case e.rule != nil:
		return e.rule.ID
	case w.order.Operation == schemas.OpRulesCreate:
		id = member(w.order.Rule, "id")
	}
	if !schemas.ValidID(id) {
		return ""
	}
	return id
}
