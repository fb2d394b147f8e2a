package budget

import (
	"context"
	"time"

	"weir/schemas"
)

// lookAgain is how old a look at an account may be that refuses anybody.
const lookAgain = 500 * time.Millisecond

// Look says what Reserve would say by what was last seen of the accounts, without holding
// anything: *Refusal alone where a window is full just now. An account that cannot be read
// is passed over, and an action that is in one already is let in: for a worker will tell.
func (b *Book) Look(ctx context.Context, o Order) ([]schemas.ChatLimit, error) {
	c, now := o.claim(), b.cfg.Now()
	var limits []schemas.ChatLimit
	var full *Refusal
	for _, s := range b.seats(o) {
		l := b.enter(s.key)
		st, why, known := b.glance(ctx, l, s, c, now)
		b.leave(l)
		if known {
			return nil, nil
		}
		if st == nil {
			continue
		}
		limits = append(limits, st.left(s.name, s.limit, now)...)
		if why == nil || full != nil {
			continue
		}
		if r := s.refusal(why, *st, now); !r.Spent {
			full = r
		}
	}
	if full != nil {
		return limits, full
	}
	return limits, nil
}

// glance looks at one account, at the bucket's where the copy is none or would refuse and
// is old. A nil standing: it cannot be read.
func (b *Book) glance(ctx context.Context, l *lane, s seat, c claim, now time.Time) (st *standing, why *want, known bool) {
	for seen := l.last(); ; {
		if seen != nil {
			at := seen.account.at(now, s.window)
			_, why = c.fit(at, s.limit)
			st, known = &at, seen.account.knows(c.action, now)
			if why == nil || known || now.Sub(seen.at) < lookAgain {
				return st, why, known
			}
		}
		var err error
		if seen, err = b.look(ctx, l); err != nil {
			return nil, nil, false
		}
		seen = &sight{seen.account, seen.revision, now}
	}
}
