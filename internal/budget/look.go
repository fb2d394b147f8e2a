package budget

import (
	"context"
	"time"

	"weir/schemas"
)

// lookAgain is how old a look at an account may be that refuses anybody.
const lookAgain = 500 * time.Millisecond

// sighted is a seat as Look has found its account.
type sighted struct {
	seat
	standing
	output int64 // what it bears of the answer
}

// Look says what Reserve would say by what was last seen of the accounts, without holding
// anything: *Refusal alone where there is no room just now, but may be later. An account
// that cannot be read is passed over, and an action that is in one already is let in: for a
// worker will tell. The limits are those that Reserve would leave, and as they stand where
// it would not hold anything.
func (b *Book) Look(ctx context.Context, o Order) ([]schemas.ChatLimit, error) {
	c, now := o.claim(), b.cfg.Now()
	var all []sighted
	var full *Refusal
	there, refused := false, false
	for _, s := range b.seats(o) {
		l := b.enter(s.key)
		st, output, why, known := b.glance(ctx, l, s, c, now)
		b.leave(l)
		if st == nil {
			continue
		}
		all = append(all, sighted{s, *st, output})
		there, refused = there || known, refused || why != nil
		if why == nil || full != nil {
			continue
		}
		if r := s.refusal(why, *st, now); !r.Spent {
			full = r
		}
	}
	if there {
		full = nil
	} else if !refused {
		all = c.seated(all)
	}
	var limits []schemas.ChatLimit
	for _, s := range all {
		limits = append(limits, s.left(s.name, s.limit, now)...)
	}
	if full != nil {
		return limits, full
	}
	return limits, nil
}

// seated are seats with the claim held in each: no more of the answer than all of them
// bear.
func (c claim) seated(all []sighted) []sighted {
	output := c.output
	for _, s := range all {
		output = min(output, s.output)
	}
	for i := range all {
		all[i].held = all[i].held.plus(c.hold(output).sum())
	}
	return all
}

// glance looks at one account, at the bucket's where the copy is none or would refuse and
// is old. A nil standing: it cannot be read.
func (b *Book) glance(ctx context.Context, l *lane, s seat, c claim, now time.Time) (st *standing, output int64, why *want, known bool) {
	for seen := l.last(); ; {
		if seen != nil {
			at := seen.account.at(now, s.window)
			output, why = c.fit(at, s.limit)
			st, known = &at, seen.account.knows(c.action, now)
			if why == nil || known || now.Sub(seen.at) < lookAgain {
				return st, output, why, known
			}
		}
		var err error
		if seen, err = b.look(ctx, l); err != nil {
			return nil, 0, nil, false
		}
		seen = &sight{seen.account, seen.revision, now}
	}
}
