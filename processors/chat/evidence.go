package chat

import (
	"cmp"
	"context"
	"encoding/json"

	"weir/internal/completion"
	"weir/internal/ledger"
	"weir/internal/limits/budget"
	"weir/internal/models"
	"weir/processors/settle"
	"weir/schemas"
)

// storeMissingEvidence leaves what the attempts of an earlier worker should have left.
func (w *work) storeMissingEvidence(ctx context.Context) error {
	if !w.st.Again || len(w.st.Attempts) == 0 {
		return nil
	}
	if err := w.recorder.Recall(ctx, w.st); err != nil {
		return err
	}
	for at, t := range w.st.Attempts {
		if t.Result == nil || w.st.StoredEvidence[settle.AttemptID(w.st.ID, t.Attempt)] {
			continue
		}
		if err := w.storeEvidence(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// storeEvidence leaves the evidence of an attempt, and counts it.
func (w *work) storeEvidence(ctx context.Context, at int) error {
	t := w.st.Attempts[at]
	a, err := w.audit(ctx, at)
	if err != nil {
		return err
	}
	d, code := t.LastWord(), w.codeOf(at)
	rec, err := record(w.st, settle.AttemptID(w.st.ID, t.Attempt), code, a)
	if err != nil {
		return err
	}
	rec.Entry, rec.PolicyVersion, rec.Shadow, rec.Traffic = d.Entry, d.Version, d.Shadow, d.Traffic
	records := []schemas.Evidence{rec}
	refusal, refused, err := settle.Refusal(w.st, t)
	if err != nil {
		return err
	}
	if refused {
		records = append(records, refusal)
	}
	if err := w.recorder.Store(ctx, w.st, records...); err != nil {
		return err
	}
	w.cfg.Metrics.ChatCalled(a, code)
	return nil
}

// codeOf is how an attempt ended; empty: with a completion. Its response has been read by now.
func (w *work) codeOf(at int) schemas.Code {
	res := w.st.Attempts[at].Result
	if response := w.responses[at]; response != nil && !succeeded(res.Status, response) {
		return schemas.ModelFailed
	}
	return res.Code
}

// audit says of an attempt what may be said without content.
func (w *work) audit(ctx context.Context, at int) (schemas.ChatAudit, error) {
	t, c := w.st.Attempts[at], w.candidate(at)
	res := t.Result
	a := schemas.ChatAudit{
		Asked: w.order.Model, Dialect: w.order.Dialect, Model: c.Name, Sent: c.Send, Upstream: c.Upstream.Name, TaskID: w.order.TaskID,
		Attempt: t.Step + 1, Stream: w.order.Stream, Status: res.Status, SentOut: res.Sent, DurationMS: res.Duration.Milliseconds(),
		RequestHash: w.mac(t.Digest),
	}
	said, err := w.said(ctx, at)
	if err != nil {
		return a, err
	}
	if a.Usage, err = w.charge(ctx, at); err != nil {
		return a, err
	}
	var answer json.RawMessage
	if said != nil {
		a.Finish, a.FirstMS, answer = said.Reasons, said.First.Milliseconds(), said.Completion
	}
	if res.Answer != nil {
		a.ResponseHash = w.mac(res.Answer.Hash)
	}
	if res.Code == schemas.BudgetExhausted {
		a.LimitSource = w.grant.Cap
	}
	a.GenAI = attributes(a, completion.Parse(answer).Get("model").Str, w.codeOf(at))
	return a, nil
}

func (w *work) mac(content string) string {
	if content == "" {
		return ""
	}
	return w.cfg.Mac(w.st.Tenant, content)
}

// budgetID is the evidence id of a completion that a budget refused.
func budgetID(action string) string { return action + ".budget" }

// refusalRecord is the evidence of that.
func (w *work) refusalRecord(list []models.Candidate, r *budget.Refusal, code schemas.Code) (schemas.Evidence, error) {
	a := schemas.ChatAudit{Asked: w.order.Model, Dialect: w.order.Dialect, TaskID: w.order.TaskID, Stream: w.order.Stream, LimitSource: r.Source}
	if len(list) > 0 {
		a.Model = list[0].Name
	}
	a.GenAI = attributes(a, "", code)
	return record(w.st, budgetID(w.st.ID), code, a)
}

func record(st *ledger.State, id string, code schemas.Code, a schemas.ChatAudit) (schemas.Evidence, error) {
	payload, err := ledger.Encode(a)
	return schemas.Evidence{
		ID: id, Tenant: st.Tenant, ActionID: st.ID, Kind: schemas.EvidenceChat, Code: code, Payload: payload,
	}, err
}

// attributes describe a call in the words of OpenTelemetry's conventions for generative
// AI. answered is the model that its provider names in the answer.
func attributes(a schemas.ChatAudit, answered string, code schemas.Code) map[string]any {
	m := map[string]any{"gen_ai.operation.name": a.Dialect.Operation(), "gen_ai.request.model": cmp.Or(a.Sent, a.Model, a.Asked)}
	if a.Upstream != "" {
		m["gen_ai.provider.name"] = a.Upstream
	}
	if name := schemas.ChatModel(a.Sent, answered); name != "" {
		m["gen_ai.response.model"] = name
	}
	if len(a.Finish) > 0 {
		m["gen_ai.response.finish_reasons"] = a.Finish
	}
	if u := a.Usage; u != nil {
		for name, n := range u.GenAI() {
			m[name] = n
		}
	}
	if code != "" {
		m["error.type"] = string(code)
	}
	return m
}
