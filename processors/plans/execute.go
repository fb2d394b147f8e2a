package plans

import (
	"context"
	"encoding/json"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Plans performs kind plan. It is safe for concurrent use.
type Plans struct {
	caller   *call.Caller
	recorder *settle.Recorder
}

// New returns an executor of plans.
func New(c *call.Caller, r *settle.Recorder) *Plans {
	return &Plans{caller: c, recorder: r}
}

// Execute carries the decisions out in order. One that fails does not keep the
// others from being tried; a cancel or the deadline does.
func (p *Plans) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	plan, err := call.Payload[schemas.PlanRequest](st, "a plan")
	if err != nil {
		return settle.Outcome{}, err
	}
	return p.Carry(ctx, st, plan, stop)
}

// Carry is Execute for a plan that an action of another kind holds.
func (p *Plans) Carry(ctx context.Context, st *ledger.State, plan schemas.PlanRequest, stop call.Stop) (settle.Outcome, error) {
	end := tally{}
	steps := make([]Step, 0, len(plan.Plan.Decisions))
	for i, d := range plan.Plan.Decisions {
		step, err := p.decision(ctx, st, stop, i, d, &end)
		if err != nil {
			return settle.Outcome{}, err
		}
		steps = append(steps, step)
	}
	report := Report(plan.Plan.PlanID, plan.Snapshot, steps)
	closing := schemas.Evidence{
		ID: settle.ClosingID(st.ID), Tenant: st.Tenant, ActionID: st.ID,
		Kind: schemas.EvidenceConnector, Payload: closingRecord(report),
	}
	if err := p.recorder.Store(ctx, st, closing); err != nil {
		return settle.Outcome{}, err
	}
	return end.outcome(report), nil
}

// closingRecord fits a plan's closing record into a message of the log: without
// the snippets where it is large, and where it is larger still by the report's
// hash alone. The whole report is the action's result.
func closingRecord(report schemas.PlanResult) json.RawMessage {
	record := ClosingRecord(report)
	if len(record) <= schemas.InlineLimit {
		return record
	}
	brief := make(map[string]schemas.ArtifactRef, len(report.ActResult.ArtifactRefs))
	for ref, a := range report.ActResult.ArtifactRefs {
		a.ResponseSnippet = nil
		brief[ref] = a
	}
	status := report.ActResult.Status
	record = schemas.Encoded(schemas.ActResult{ArtifactRefs: brief, Status: status})
	if len(record) <= schemas.InlineLimit {
		return record
	}
	return schemas.Encoded(struct {
		Effects       int    `json:"effects"`
		ExecutionHash string `json:"execution_hash"`
		Status        string `json:"status"`
	}{len(brief), report.Report.ExecutionHash, status})
}

// decision carries one decision out.
func (p *Plans) decision(ctx context.Context, st *ledger.State, stop call.Stop, i int, d schemas.PlanDecision, end *tally) (Step, error) {
	step := Step{EffectRef: d.EffectRef, IdempotencyKey: d.IdempotencyKey}
	c, view, err := Translate(d.TargetState)
	if err != nil {
		step.Message = err.Error()
		refused := schemas.Decision{Code: Refusal(err), Reason: step.Message}
		end.count(refused.Code, false)
		return step, settle.Deny(ctx, p.recorder, &call.Task{State: st, Step: i}, refused)
	}
	step.View = view
	t := &call.Task{
		State: st, Step: i, Call: c, KeyRequired: true, Stop: stop,
		Record: settle.Record(p.recorder, st, evidence(d, view)),
	}
	r, err := p.caller.Run(ctx, t)
	switch {
	case err != nil:
		return step, err
	case r.Answered && rejected(r.Last.Result.Schema):
		code := r.Last.Result.Schema.Code
		step.Message = Failure("the answer does not fit the response schema of its entry").Error()
		end.count(code, true)
		return step, nil
	case r.Answered:
		a := r.Last.Result.Answer // without its body where that is large
		step.Hash, step.Snippet = a.Hash, a.Snippet
		end.applied++
		return step, nil
	}
	step.Message = end.failure(r, view)
	if r.Denied {
		return step, settle.Deny(ctx, p.recorder, t, r.Decision)
	}
	return step, nil
}

// rejected reports whether an answer does not fit a response schema that fails the call.
func rejected(found *schemas.SchemaFinding) bool {
	return found != nil && found.Mode != policy.SchemaWarn
}

// Refusal is the code of a target state that Translate refuses.
func Refusal(err error) schemas.Code {
	if err == errNoKey { //nolint:errorlint // Translate returns it as it is
		return schemas.DenyKeyUnknown
	}
	return schemas.ValidationError
}

// Evidence is the records of all tries.
func (p *Plans) Evidence(st *ledger.State) ([]schemas.Evidence, error) {
	plan, err := call.Payload[schemas.PlanRequest](st, "a plan")
	if err != nil {
		return nil, err
	}
	return p.Records(st, plan)
}

// Records is Evidence for a plan that an action of another kind holds.
func (p *Plans) Records(st *ledger.State, plan schemas.PlanRequest) ([]schemas.Evidence, error) {
	return settle.Records(st, func(st *ledger.State, t ledger.Attempt) ([]schemas.Evidence, error) {
		if t.Step >= len(plan.Plan.Decisions) {
			return nil, &fault.Terminal{Code: schemas.Poison, Reason: "an attempt names a decision that the plan does not have"}
		}
		d := plan.Plan.Decisions[t.Step]
		_, view, err := Translate(d.TargetState)
		if err != nil {
			return nil, &fault.Terminal{Code: schemas.Poison, Reason: "an attempt was made of a decision that cannot be read", Cause: err}
		}
		return evidence(d, view)(st, t)
	})
}

// evidence is the connector's record of a call that was answered, and Weir's
// own of one that was not.
func evidence(d schemas.PlanDecision, v View) settle.Evidence {
	return func(st *ledger.State, t ledger.Attempt) ([]schemas.Evidence, error) {
		records, err := settle.Made(st, t)
		if err != nil || t.Result.Code != "" || t.Probe > 0 {
			return records, err
		}
		hash, snippet := "", ""
		if a := t.Result.Answer; a != nil {
			hash, snippet = a.Hash, a.Snippet
		}
		records[0].Kind = schemas.EvidenceConnector
		records[0].Payload = CallRecord(d.EffectRef, v, t.Result.Status, hash, snippet, t.LastWord().Entry)
		return records, nil
	}
}

// tally counts the results of a plan's decisions.
type tally struct {
	applied, sent int
	denied        int
	unknown       int
	canceled      bool
	expired       bool
	first         schemas.Code // of the failures
}

func (t *tally) count(code schemas.Code, sent bool) {
	if t.first == "" {
		t.first = code
	}
	if sent {
		t.sent++
	} else {
		t.denied++
	}
}

// failure counts the end of a call that was not answered, and words it.
func (t *tally) failure(r call.Result, v View) string {
	sent := false
	for _, try := range r.Tries {
		sent = sent || try.Result.Sent
	}
	switch {
	case r.Denied:
		t.count(r.Decision.Code, sent)
		return v.Denied(r.Decision)
	case r.Canceled:
		t.canceled = true
		return Failure("the plan was canceled").Error()
	case r.Expired:
		t.expired = true
		return Failure("the plan's deadline passed").Error()
	case r.Unknown:
		t.unknown++
		t.count(schemas.OutcomeUnknownCode, true)
		return Failure(schemas.UnknownText).Error()
	}
	code := r.Last.Result.Code
	t.count(code, sent || !code.Denied())
	if d := r.Last.LastWord(); !d.Allowed && d.Code == code {
		return v.Denied(d)
	}
	return Failure(call.Describe(*r.Last)).Error()
}

// outcome is the plan's end. The report goes with every one of them.
func (t *tally) outcome(report schemas.PlanResult) settle.Outcome {
	v := settle.Outcome{Outcome: schemas.OutcomeFailed, Code: t.first, Result: report}
	switch {
	case t.unknown > 0:
		v.Outcome, v.Code, v.Message = schemas.OutcomeUnknown, schemas.OutcomeUnknownCode, schemas.UnknownText
	case t.canceled:
		v.Outcome, v.Code = schemas.OutcomeCanceled, schemas.Canceled
	case t.expired:
		v.Outcome, v.Code = schemas.OutcomeExpired, schemas.DeadlineExceeded
	case report.Report.Status == statusSucceeded:
		v.Outcome, v.Code = schemas.OutcomeSucceeded, ""
	case t.applied == 0 && t.sent == 0:
		v.Outcome = schemas.OutcomeDenied
	}
	return v
}
