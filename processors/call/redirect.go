package call

import (
	"cmp"
	"context"

	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// redirects reports whether the answer to a try is a redirect that must be followed. It is the same
// for the worker that made the try and for a later reader.
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

// refuse records that policy refused the redirect after from or, without one, a probe: nothing was
// sent for it, and none follows.
func (c *Caller) refuse(ctx context.Context, t *Task, number int, from *ledger.Attempt, d schemas.Decision) error {
	var a schemas.Attempt
	res := schemas.Attempted{Step: t.Step, Number: number, Code: cmp.Or(d.Code, schemas.DenyRedirect)}
	if from != nil {
		a, res.Hop = from.Attempt, from.Hop+1
		res.Status, res.Answer, res.AnswerBlob = from.Result.Status, from.Result.Answer, from.Result.AnswerBlob
	} else {
		a = schemas.Attempt{
			Step: t.Step, Number: number, Probe: t.probe.attempt, Class: schemas.ClassSafe, Worker: c.cfg.Worker, Message: t.State.Message,
			Method: t.Call.Method, URL: t.Call.URL, ExpiresAt: c.cfg.Now().UTC(),
		}
	}
	a.Hop, a.Decision, res.Probe = res.Hop, d, a.Probe
	if err := c.ledger.Append(ctx, t.State, schemas.Event{Type: schemas.EventAttempted, Attempt: &a, Attempted: &res}); err != nil {
		return err
	}
	return t.Record(ctx, ledger.Attempt{Attempt: a, Result: &res})
}
