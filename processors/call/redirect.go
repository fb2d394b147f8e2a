package call

import (
	"cmp"
	"context"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

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
