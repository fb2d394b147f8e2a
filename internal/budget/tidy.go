package budget

import (
	"context"
	"time"

	"weir/schemas"
)

const (
	// tidyEvery is how often Run looks for what can go.
	tidyEvery = time.Hour
	// windowKept is how long an account stays whose window is over, so that nobody who
	// looks at it wonders, and no clock that is behind misses it.
	windowKept = 24 * time.Hour
	// taskKept is how long an account of a task stays after the last write to it: longer
	// than any task may take.
	taskKept = 32 * 24 * time.Hour
)

// Run forgets what means nothing any more, at once and each hour, until the context ends.
// What cannot be forgotten now will be the next time, and the log says so. Any number of nodes may do it.
func (b *Book) Run(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		if err := b.Tidy(ctx); err != nil && ctx.Err() == nil {
			b.cfg.Logger.WarnContext(ctx, "accounts of budgets not tidied", "component", "budget")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Tidy forgets the accounts whose window is long over, and those of tasks that are. All
// others stay: what was used in all is not forgotten.
func (b *Book) Tidy(ctx context.Context) error {
	now := b.cfg.Now()
	return b.each(ctx, "", func(r schemas.Record, p place, a *account) error {
		if a == nil || !over(r, p, a, now) {
			return nil
		}
		// A write that came in between has a higher revision, and stays.
		return b.bucket.Forget(ctx, r.Subject, r.Seq)
	})
}

// over reports whether nobody will ask for an account any more, or would find it as empty
// as none.
func over(r schemas.Record, p place, a *account, now time.Time) bool {
	if a.Ends != 0 && now.UnixMilli() >= a.Ends+windowKept.Milliseconds() {
		return true
	}
	return p.task != "" && now.Sub(r.Time) >= taskKept
}
