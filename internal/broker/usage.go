package broker

import (
	"context"
	"sync/atomic"
	"time"
)

// usagePoll is how often the stored bytes are counted anew.
const usagePoll = time.Second

// usage knows roughly how much is stored, so that new work is refused while
// there is still room for the events of the work that was accepted. The
// server cannot do this: a stream with schedules may not refuse at a limit of
// its own, and the server's wall refuses everything alike.
//
// Between two counts only this node's own writes are added. The zero value
// has no limit.
type usage struct {
	limit int64
	bytes atomic.Int64
}

func (u *usage) full() bool { return u.limit > 0 && u.bytes.Load() >= u.limit }

func (u *usage) add(n int) {
	if u.limit > 0 {
		u.bytes.Add(int64(n))
	}
}

// watchUsage counts until the broker closes.
func (b *Broker) watchUsage() {
	tick := time.NewTicker(usagePoll)
	defer tick.Stop()
	was := false
	for {
		select {
		case <-tick.C:
			// A count that fails leaves the old one: a server that does not
			// answer refuses appends itself.
			_ = b.countUsage(b.life)
			if full := b.usage.full(); full != was {
				was = full
				b.tellFull(full)
			}
		case <-b.life.Done():
			return
		}
	}
}

// tellFull logs that new actions begin or cease to be refused.
func (b *Broker) tellFull(full bool) {
	if full {
		b.cfg.Logger.WarnContext(b.life, "log full", "component", "broker")
		return
	}
	b.cfg.Logger.InfoContext(b.life, "log has room", "component", "broker")
}

func (b *Broker) countUsage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := b.js.AccountInfo(ctx)
	if err != nil {
		return wrap(err)
	}
	b.usage.bytes.Store(int64(info.Store)) //nolint:gosec // no disk overflows it
	return nil
}
