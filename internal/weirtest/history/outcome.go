package history

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"weir/schemas"
)

// settled is I2. It reads the log alone: an accepted action has exactly one terminal
// event, behind which nothing stands but a person's resolution or its successor's name, and which was stored no
// later than its deadline and the time to heal.
func (c *checker) settled() {
	for _, a := range c.actions {
		accepted, ends := a.Accepted(), a.Of(schemas.EventSettled)
		if accepted == nil {
			continue
		}
		if len(ends) != 1 {
			c.breach("I2", a.Tenant, a.ID, "%d terminal events among %d", len(ends), len(a.Events))
			continue
		}
		end := ends[0]
		for _, ev := range a.Events {
			if ev.Seq > end.Seq && ev.Type != schemas.EventResolution && ev.Type != schemas.EventSuperseded {
				c.breach("I2", a.Tenant, a.ID, "%s at %d stands behind the end at %d", ev.Type, ev.Seq, end.Seq)
			}
		}
		late := end.Record.Time.Sub(accepted.Deadline)
		if c.bounds.Heal > 0 && !accepted.Deadline.IsZero() && late > c.bounds.Heal {
			c.breach("I2", a.Tenant, a.ID, "it ended %s behind its deadline", late)
		}
	}
}

// ended is I5. It reads the ends on the log, the upstream's ledger and what clients were
// told: an attempt that the log calls not sent was not heard; an answer that the log holds
// was given; a success rests on such an answer, and a doubt on an attempt that may have
// left; the client was told that end, and shown that answer.
func (c *checker) ended() {
	for _, n := range c.names {
		if !n.flawed {
			c.unsent(n)
		}
		for _, a := range n.actions {
			if calls(a.Kind) {
				c.answers(n, a)
			}
		}
		c.told(n)
	}
	for _, a := range c.actions {
		if s := a.Settled(); s != nil && a.Accepted() != nil && calls(a.Kind) {
			c.grounded(a, *s)
		}
	}
}

// unsent finds what was heard though the log says that it never left.
func (c *checker) unsent(n *name) {
	for _, l := range n.lots() {
		if left := l.count((*Try).MayHaveLeft); len(l.hits) > left {
			c.breach("I5", n.tenant, n.text, "%s heard %d times, and the log says that %d attempts may have left", l.step, len(l.hits), left)
		}
	}
}

// answers finds answers on the log that nobody gave.
func (c *checker) answers(n *name, a *Action) {
	for _, t := range a.Tries {
		r := t.Result
		if r == nil || t.Probe > 0 || !r.Sent || t.Mocked() || r.Status == 0 || r.Code != "" {
			continue
		}
		given := slices.ContainsFunc(n.hits, func(h Hit) bool {
			_, step := h.step()
			return (step < 0 || step == t.Step) && h.Status == r.Status && (r.Answer == nil || same(h.Digest, r.Answer.Hash))
		})
		if !given {
			c.breach("I5", n.tenant, n.text, "the log has an answer with status %d to attempt %d of step %d, and the upstream gave none like it", r.Status, t.Number, t.Step)
		}
	}
}

// grounded holds an end against the attempts that it rests on.
func (c *checker) grounded(a *Action, s schemas.Settled) {
	switch s.Outcome {
	case schemas.OutcomeUnknown:
		if !slices.ContainsFunc(a.Tries, (*Try).MayHaveLeft) {
			c.breach("I5", a.Tenant, a.ID, "its outcome is unknown, and no attempt of it may have left")
		}
	case schemas.OutcomeSucceeded:
		if a.Kind != schemas.KindHTTP {
			return
		}
		last := a.answered()
		shown := a.Result().Answer
		switch {
		case last == nil:
			c.breach("I5", a.Tenant, a.ID, "it succeeded, and its last attempt has no answer on the log")
		case shown != nil && (shown.Status != last.Status || last.Answer != nil && shown.Hash != last.Answer.Hash):
			c.breach("I5", a.Tenant, a.ID, "its end shows another answer than its last attempt had")
		case shown == nil && s.ResultBlob == "" && s.AnswerBlob == "":
			c.breach("I5", a.Tenant, a.ID, "it succeeded, and its end shows no answer")
		}
	case schemas.OutcomeFailed, schemas.OutcomeDenied, schemas.OutcomeCanceled, schemas.OutcomeExpired:
	}
}

// answered is the result of the last attempt, where that is a whole answer.
func (a *Action) answered() *schemas.Attempted {
	if len(a.Tries) == 0 {
		return nil
	}
	if r := a.Tries[len(a.Tries)-1].Result; r != nil && r.Code == "" && r.Status != 0 {
		return r
	}
	return nil
}

// shown is the result whose answer an end shows: that of the last attempt, or, where retries
// are exhausted, of the last attempt that was answered.
func (a *Action) shown(s *schemas.Settled) *schemas.Attempted {
	if s.Code != schemas.RetriesExhausted {
		return a.answered()
	}
	for _, t := range slices.Backward(a.Tries) {
		if t.Probe == 0 && t.Result != nil && t.Result.Answer != nil {
			return t.Result
		}
	}
	return nil
}

// told holds what clients heard of an end against the log. Of one that the log does not
// have, I1 and I2 tell.
func (c *checker) told(n *name) {
	for _, asked := range n.asked {
		for _, a := range c.byID[place{n.tenant, asked.ID}] {
			s := a.Settled()
			if s == nil || a.Accepted() == nil {
				continue
			}
			if asked.Outcome != "" && asked.Outcome != s.Outcome {
				c.breach("I5", n.tenant, n.text, "its client was told %s, and it ended %s", asked.Outcome, s.Outcome)
			}
			if asked.Digest == "" || a.Kind != schemas.KindHTTP {
				continue
			}
			if last := a.shown(s); last == nil || last.Answer == nil || !same(asked.Digest, last.Answer.Hash) {
				c.breach("I5", n.tenant, n.text, "its client was shown an answer that is not the one on the log")
			}
		}
	}
}

// same compares the hashes of two bodies. That of none may be left out.
func same(a, b string) bool {
	none := sha256.Sum256(nil)
	empty := hex.EncodeToString(none[:])
	return a == b || a == empty && b == "" || a == "" && b == empty
}
