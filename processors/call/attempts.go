package call

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"weir/internal/failpoint"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/internal/retry"
	"weir/processors/guard"
	"weir/schemas"
)

// Result is the result of a task. Exactly one of Answered, Denied, Unknown, Failed, Canceled and
// Expired holds.
type Result struct {
	// Answered: a complete answer came back; it is Last's.
	Answered bool
	// Denied: policy refused the next attempt of the task; Decision says why.
	Denied   bool
	Decision schemas.Decision
	Task     *Task
	// Unknown: the call may have had its effect and must not be repeated.
	Unknown bool
	// Unprobed goes with Unknown: why the probe of the entry could not be made; empty: there is none, or
	// it shows nothing.
	Unprobed string
	// Failed: no complete answer, and no further attempt.
	Failed bool
	// Exhausted goes with Answered or Failed: another attempt would have been
	// made, had the budget or the deadline allowed it.
	Exhausted bool
	Canceled  bool
	Expired   bool
	// Reconciled goes with Answered: the call's answer was lost, and Last is the probe that showed
	// its effect.
	Reconciled bool

	// Last is the newest attempt; nil if there was none.
	Last *ledger.Attempt
	// Tries are all attempts, redirects' hops included, in order.
	Tries []ledger.Attempt
}

// run is Run without probes. Of a probe it ends with errStale at the time of the next: another entry
// in force may have another probe.
func (c *Caller) run(ctx context.Context, t *Task) (Result, error) {
	var next pending
	defer func() { next.permit.Release() }() //nolint:contextcheck // released whatever the call's result
	if w := t.State.Waiting; w != nil && w.For == schemas.WaitLimit && w.Step == t.Step {
		next.booked = w.Until
	}
	for {
		next.permit.Release() //nolint:contextcheck // as above; a redirect takes its own
		tries := t.tries()
		number, from := 1, (*ledger.Attempt)(nil)
		canceled, over := Over(t.State, t.Stop, c.cfg.Now())
		if n := len(tries); n > 0 {
			last := &tries[n-1]
			number = last.Number + 1
			switch {
			case redirects(last.Result) && last.Result.Location != "": // without one an older version has written it
				number, from = last.Number, last
			case last.Result.RetryAt.IsZero() && (!last.NotApplied || last.Number >= c.schedule(t, c.guard.Contract(last.Decision.Entry)).Attempts):
				return conclude(t, tries), nil
			case over: // nothing is waited for any more
			default:
				err := c.wait(ctx, t, &Deferral{Until: last.Result.RetryAt, Reason: schemas.WaitDelay, Step: t.Step}, inline)
				if errors.Is(err, errStale) && t.probe == nil {
					continue
				}
				if err != nil {
					return Result{Last: last, Tries: tries}, err
				}
			}
		}
		if over {
			return doubted(Result{Canceled: canceled, Expired: !canceled}, tries), nil
		}
		p, decision := c.ask(t, from)
		failpoint.At(failpoint.Decided, t.State.ID)
		switch {
		case p.Valid():
		case from != nil, t.probe != nil:
			if err := c.refuse(ctx, t, number, from, decision); err != nil {
				return Result{}, err
			}
			continue
		default: // a call whose result is unknown stays so: a denial would mean that nothing was sent
			return doubted(Result{Denied: true, Decision: decision, Task: t}, tries), nil
		}
		if len(tries) > 0 && !c.canRetry(p, tries) {
			return conclude(t, tries), nil
		}
		err := c.hold(ctx, t, p, &next)
		if err == nil {
			err = c.attempt(ctx, t, p, number, from, &next)
		}
		if err != nil && !errors.Is(err, errStale) {
			return Result{}, err
		}
	}
}

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

// newest is the newest try of some classes that may have had an effect; nil: none, or a later one
// settles what became of it.
func newest(tries []ledger.Attempt, settles func(*ledger.Attempt) bool, classes ...schemas.Class) *ledger.Attempt {
	for i := len(tries) - 1; i >= 0; i-- {
		switch t := &tries[i]; {
		case settles(t):
			return nil
		case t.MayHaveActed() && slices.Contains(classes, t.Class):
			return t
		}
	}
	return nil
}

// inDoubt is the newest try that may have had an unknown effect that is not harmless to repeat; nil:
// none. A try that was not sent proves nothing about the one before. An answer of the target
// resolves the doubt about all of them; an answer of a traffic rule does not.
func inDoubt(tries []ledger.Attempt) *ledger.Attempt {
	answered := func(t *ledger.Attempt) bool { return t.Result.Status != 0 && t.Result.Sent }
	return newest(tries, answered, schemas.ClassOnce, schemas.ClassKeyed)
}

// unanswered is the newest try that was sent with a class by which it may be repeated
// but changes its target, and that no whole answer of a target's has followed; nil: none.
func unanswered(tries []ledger.Attempt) *ledger.Attempt {
	whole := func(t *ledger.Attempt) bool { return t.MayHaveActed() && t.Result.Code == "" }
	return newest(tries, whole, schemas.ClassIdempotent)
}

// canRetry checks, right before sending, whether a call may be sent in addition to the tries that
// were sent before: the entry may have changed since the retry was planned, and the key may have
// expired meanwhile. A key is valid with its original request. After a change by traffic rules the
// request is another one, possibly to a target that has never seen the key. An unanswered PUT or
// DELETE is repeated unchanged for the same reason: two targets might have received it. A call that
// the rules answer is not sent, but proves nothing about one in doubt.
func (c *Caller) canRetry(p guard.Pass, tries []ledger.Attempt) bool {
	open := unanswered(tries)
	if p.Mocked() {
		return open == nil && inDoubt(tries) == nil
	}
	if open != nil && digest(p) != open.Digest {
		return false
	}
	for i := range tries {
		switch t := &tries[i]; {
		case !t.MayHaveActed():
		case !t.Class.Repeatable():
			return false
		case t.Class != schemas.ClassKeyed:
		case p.Class() != schemas.ClassKeyed, !c.cfg.Now().Before(t.KeyExpiresAt), digest(p) != t.Digest:
			return false
		}
	}
	return true
}

// schedule is a task's by an entry's contract.
func (c *Caller) schedule(t *Task, k policy.Contract) retry.Schedule {
	s := c.cfg.Schedule
	if r := k.Retry; r != nil {
		s.Attempts, s.Base, s.Cap = r.Attempts, r.Base, r.Cap
	}
	s.Attempts = cmp.Or(t.Attempts, s.Attempts)
	return s
}

// next records in the result of an attempt, which began at a time, whether such an end permits
// another attempt by its entry's contract, and when that one follows, if it does. Readers of an
// answer that was shown while it arrived get no other, unless its worker is gone.
func (c *Caller) next(t *Task, a *schemas.Attempt, res *schemas.Attempted, failed *fault.Call, began time.Time, k policy.Contract) {
	var answer schemas.Answer
	if res.Answer != nil {
		answer = *res.Answer
	}
	if t.probe != nil {
		res.RetryAt = c.nextProbe(t, a, res, failed, began, k, answer.RetryAfter)
		return
	}
	open := t.State.Open()
	switch {
	case failed == nil && (!t.RetryStatus || k.NeverRetry.Matches(res.Status, answer.Headers)),
		open != nil && open.Shown > 0 && (failed == nil || failed.Code != schemas.Interrupted),
		!retry.Retryable(a.Class, res.Status, k.RetryOn(), failed):
		return
	}
	s := c.schedule(t, k)
	if res.Repeatable = true; a.Number >= s.Attempts {
		return
	}
	deadline, wish := t.State.Action.Deadline, answer.RetryAfter
	at := c.cfg.Now().Add(s.Delay(a.Number, c.cfg.Rand(), wish))
	if wish > 0 && !deadline.IsZero() && at.After(deadline) {
		at = c.cfg.Now().Add(s.Delay(a.Number, c.cfg.Rand(), 0)) // a wish that cannot be granted is not granted in part: the schedule holds
	}
	if !deadline.IsZero() && !at.Before(deadline) || !a.KeyExpiresAt.IsZero() && at.After(a.KeyExpiresAt) {
		return
	}
	res.RetryAt = at.UTC()
}

// conclude reads the result off a task's last attempt.
func conclude(t *Task, tries []ledger.Attempt) Result {
	last := &tries[len(tries)-1]
	r, res := Result{Tries: tries, Last: last}, last.Result
	canceled := t.State.CancelRequested || t.Stop.Requested()
	switch {
	case res.Code == "":
		r.Answered, r.Exhausted = true, res.Repeatable
	case canceled && (last.Class == schemas.ClassSafe || t.Abort && res.Code == schemas.Canceled):
		r.Canceled = true
	case t.Abort && t.expired(last):
		r.Expired = true
	default:
		return doubted(Result{Failed: true, Exhausted: last.NotApplied || res.Repeatable}, tries)
	}
	return r
}

// doubted is the result after tries, or an unknown one if a try is in doubt.
func doubted(r Result, tries []ledger.Attempt) Result {
	if inDoubt(tries) != nil {
		r = Result{Unknown: true}
	}
	if r.Tries = tries; len(tries) > 0 {
		r.Last = &tries[len(tries)-1]
	}
	return r
}

// Abandon closes an attempt that a dead worker left open: its result will never be known. Whether
// another follows is decided as for any failure. Its evidence is stored with the evidence of earlier
// attempts. A probe is repeated at once.
func (c *Caller) Abandon(ctx context.Context, st *ledger.State) error {
	open := st.Open()
	if open == nil {
		return nil
	}
	res := schemas.Attempted{Step: open.Step, Number: open.Number, Hop: open.Hop, Probe: open.Probe, Code: schemas.Interrupted, Sent: true}
	if open.Probe > 0 {
		res.RetryAt = c.cfg.Now().UTC()
	} else {
		failed := &fault.Call{Code: schemas.Interrupted, Sent: true}
		c.next(&Task{State: st, Step: open.Step}, &open.Attempt, &res, failed, time.Time{}, c.guard.Contract(open.Decision.Entry))
	}
	return c.ledger.Append(ctx, st, schemas.Event{Type: schemas.EventAttempted, Attempted: &res})
}
