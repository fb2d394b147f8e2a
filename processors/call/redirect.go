package call

import (
	"cmp"
	"context"
	"errors"

	"weir/internal/ledger"
	"weir/internal/limits/destination"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// permits are the permits that a call and its redirects have from their entry: all use the slot of
// the first.
type permits struct {
	entry      string
	slot, last *destination.Permit
}

// hasSlot reports whether the next hop can use the slot that is held.
func (h *permits) hasSlot(entry string) bool { return h.slot != nil && h.entry == entry }

// keep adds the permit of the next hop.
func (h *permits) keep(entry string, permit *destination.Permit) {
	if !h.hasSlot(entry) {
		h.release()
		h.entry, h.slot = entry, permit
	} else if h.last != h.slot {
		h.last.Release()
	}
	h.last = permit
}

// release releases all permits. It may be called twice.
func (h *permits) release() {
	h.last.Release()
	h.slot.Release()
	*h = permits{}
}

// pendingRedirect is the try whose redirect must be followed now; nil if there is none. It is the same for the
// worker that made the try and for a later reader: the decision for that redirect is not repeated.
// A try from a version that did not record the target has none.
func pendingRedirect(tries []ledger.Attempt) *ledger.Attempt {
	if len(tries) == 0 {
		return nil
	}
	last := &tries[len(tries)-1]
	if !redirects(last.Result) || last.Result.Location == "" {
		return nil
	}
	return last
}

// redirects reports whether the answer to a try is a redirect that must be followed.
func redirects(res *schemas.Attempted) bool {
	return res.Code == "" && !res.RetryAt.IsZero() && policy.IsRedirect(res.Status)
}

// ask evaluates rules and policy for the step's call or, after from, for its redirect: the call
// must still be permitted by itself, and its entry must permit the redirect. A probe that traffic
// rules answer or redirect is denied.
func (c *Caller) ask(t *Task, from *ledger.Attempt) (guard.Pass, schemas.Decision) {
	p, d := c.guard.Check(t.Call, t.scope())
	switch {
	case !p.Valid():
	case t.probe != nil && !genuine(p):
		d.Allowed, d.Code = false, schemas.DenyRule
		d.Reason = "a traffic rule answers or redirects the probe, and only the target's own answer counts; change the rule"
		return guard.Pass{}, d
	case from != nil:
		return c.guard.Redirect(p, from.Result.Location, from.Result.Status, from.Hop+1)
	}
	return p, d
}

// attempt makes the call or, behind from, the hop that follows it, and has the destination
// learn of it. The error is that of do, but that a hop which was revoked is written down
// as refused, and so is one that leads nowhere.
func (c *Caller) attempt(ctx context.Context, t *Task, p guard.Pass, number int, from *ledger.Attempt, permit *destination.Permit) error {
	hop := 0
	if from != nil {
		hop = from.Hop + 1
	}
	done, err := c.do(ctx, t, p, number, hop)
	var denial *revoked
	switch {
	case err != nil && from != nil && errors.As(err, &denial):
		return c.refuseRedirect(ctx, t, *from, denial.decision)
	case err != nil:
		return err
	}
	c.learn(ctx, t, permit, done)
	if res := done.Result; redirects(res) && res.Location == "" {
		_, d := c.guard.Redirect(p, "", res.Status, hop+1)
		return c.refuseRedirect(ctx, t, *done, d)
	}
	return nil
}

// refuseRedirect records that a redirect was not followed: nothing was sent for it.
func (c *Caller) refuseRedirect(ctx context.Context, t *Task, from ledger.Attempt, d schemas.Decision) error {
	a := from.Attempt
	a.Hop, a.Decision = a.Hop+1, d
	return c.refuse(ctx, t, a, schemas.Attempted{
		Code: cmp.Or(d.Code, schemas.DenyRedirect), Status: from.Result.Status, Answer: from.Result.Answer, AnswerBlob: from.Result.AnswerBlob,
	})
}

// refuse records an attempt that was not made, and why.
func (c *Caller) refuse(ctx context.Context, t *Task, a schemas.Attempt, res schemas.Attempted) error {
	res.Step, res.Number, res.Hop = a.Step, a.Number, a.Hop
	if err := c.ledger.Append(ctx, t.State, schemas.Event{Type: schemas.EventAttempted, Attempt: &a, Attempted: &res}); err != nil {
		return err
	}
	return t.Record(ctx, ledger.Attempt{Attempt: a, Result: &res})
}
