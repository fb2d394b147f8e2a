package tasks

import (
	"context"
	"fmt"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

// announceNew folds in the new events, announces them, and stores their evidence. The evidence is last: if
// it exists, the rest is done. So a change is announced once it is durable, and at least once.
func (w *work) announceNew(ctx context.Context) error {
	var fresh []schemas.TaskAudit
	for _, ev := range w.st.Events[w.announced:] {
		w.task.Apply(ev)
		w.announced++
		u, ok := task.Update(w.st.ID, ev)
		if !ok || ev.Type == schemas.EventSettled || w.st.StoredEvidence[changeID(w.st.ID, u.N)] {
			continue
		}
		if u.Status == "" {
			u.Status = w.task.Status
		}
		fresh = append(fresh, w.audit(u))
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := w.cfg.Barrier(ctx); err != nil {
		return err
	}
	records := make([]schemas.Evidence, len(fresh))
	for i, a := range fresh {
		if err := w.announce(w.st.Ref, a.TaskUpdate); err != nil {
			return err
		}
		var err error
		if records[i], err = record(w.st, changeID(w.st.ID, a.N), a); err != nil {
			return err
		}
	}
	return w.recorder.Store(ctx, w.st, records...)
}

// announce publishes a change where nothing is stored.
func (p *Tasks) announce(ref schemas.Ref, u schemas.TaskUpdate) error {
	data, err := ledger.Encode(u)
	if err != nil {
		return err
	}
	if err := p.cfg.Announce(schemas.StatusSubject(ref), data); err != nil {
		return &fault.RetryAfter{Cause: fmt.Errorf("status: %w", err)}
	}
	return nil
}

// Ended announces the end.
func (p *Tasks) Ended(ctx context.Context, st *ledger.State) error {
	p.holders.forget(st.Ref)
	if err := p.cfg.Barrier(ctx); err != nil {
		return err
	}
	for _, ev := range st.Events {
		if u, ok := task.Update(st.ID, ev); ok && ev.Type == schemas.EventSettled {
			return p.announce(st.Ref, u)
		}
	}
	return nil
}

// audit is a change with who did it.
func (w *work) audit(u schemas.TaskUpdate) schemas.TaskAudit {
	a := schemas.TaskAudit{TaskUpdate: u, Repo: w.task.Order.Repo, Branch: w.task.Branch}
	if u.Lease > 0 || w.task.Leased {
		a.Holder = w.task.Holder
	}
	return a
}

func changeID(action string, n int) string { return fmt.Sprintf("%s.task.%d", action, n) }

func endID(action string) string { return action + ".task.settled" }

func record(st *ledger.State, id string, a schemas.TaskAudit) (schemas.Evidence, error) {
	payload, err := ledger.Encode(a)
	return schemas.Evidence{
		ID: id, Tenant: st.Tenant, ActionID: st.ID, Kind: schemas.EvidenceTask, Code: a.Code, Payload: payload,
	}, err
}
