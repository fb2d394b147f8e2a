package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// heavyShare is the part of what a queue's feed holds that makes a tenant heavy: an eighth.
const heavyShare = 8

// heaviest is the tenant that a queue's feed holds most of, crowds aside, if that is enough
// for one and the queue has more than it can work on.
func (f *feed) heaviest() (tenant string, heavy bool) {
	if f.s.cfg.CrowdAfter <= 0 {
		return "", false
	}
	table := f.crowds.known.Load()
	f.crew.mu.Lock()
	defer f.crew.mu.Unlock()
	if f.closing || f.behind < uint64(f.s.cfg.CrowdAfter) && f.crew.busy < f.crew.slots {
		return "", false
	}
	count := make(map[string]int)
	for d := range f.held {
		count[tenantToken(d.record.Subject)]++
	}
	most := 0
	for t, n := range count {
		if _, there := table.of(f.durable, t); !there && n > most {
			tenant, most = t, n
		}
	}
	return tenant, most > 0 && most*heavyShare >= len(f.held)
}

// look hands the heaviest tenant of a queue over to a consumer of its own where more waits
// in the queue than one should wait behind. What the queue has given out stays the queue's.
func (k *crowds) look(ctx context.Context, f *feed) {
	tenant, heavy := f.heaviest()
	if !heavy {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c, err := k.s.b.js.Consumer(ctx, k.stream, f.durable)
	if err != nil || c.CachedInfo().NumPending < uint64(k.s.cfg.CrowdAfter) { //nolint:gosec // it is not negative
		return
	}
	from := c.CachedInfo().Delivered.Stream + 1
	err = k.change(ctx, func(t crowdTable) (crowdTable, error) { return t.with(f.durable, tenant, from) })
	if k.wrote(f, err) {
		k.s.cfg.Logger.InfoContext(ctx, "crowd opened", k.about(f)...)
	}
}

// wrote reports whether this node has made a change of the record. That another was first, or
// that there was nothing to change any more, is no news.
func (k *crowds) wrote(f *feed, err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, fault.ErrFenced), errors.Is(err, errCrowded), errors.Is(err, errIsACrowd), errors.Is(err, errNoCrowd):
	default:
		f.warn("crowd_unwritten")
	}
	return false
}

// about is what the log tells of a crowd: its queue, and never the tenant.
func (k *crowds) about(f *feed) []any {
	return []any{"component", "broker", "stream", k.stream, "kind", string(f.kind)}
}

// leaveShare is the part of CrowdAfter down to which a crowd has to be worked off before it
// goes back to its queue.
const leaveShare = 8

// review hands back what has been worked off, and mends consumers that are not as the record
// has them.
func (k *crowds) review(ctx context.Context) {
	for _, one := range k.branches {
		f := k.queue(one.crowd.Queue)
		c, there := k.known.Load().of(one.crowd.Queue, one.crowd.Tenant)
		if f == nil || !there || !c.same(*one.crowd) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		k.reviewOne(bounded, f, c)
		cancel()
	}
}

func (k *crowds) queue(durable string) *feed {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.queues[durable]
}

func (k *crowds) reviewOne(ctx context.Context, f *feed, c crowd) {
	found, err := k.s.b.js.Consumer(ctx, k.stream, schemas.CrowdQueue(c.Slot))
	if isGone(err) {
		k.mend(ctx, f, c)
	}
	if err != nil {
		return
	}
	info := found.CachedInfo()
	if !c.is(info.Config, f.config) {
		k.mend(ctx, f, c)
		return
	}
	left := info.NumPending + uint64(info.NumAckPending) //nolint:gosec // it is not negative
	switch {
	case c.Until == 0 && left <= uint64(k.s.cfg.CrowdAfter/leaveShare): //nolint:gosec // it is not negative
		_, last, err := k.s.b.Bounds(ctx, k.stream)
		if err != nil {
			return
		}
		err = k.change(ctx, func(t crowdTable) (crowdTable, error) { return t.until(c, last+1) })
		if k.wrote(f, err) {
			k.s.cfg.Logger.InfoContext(ctx, "crowd closing", k.about(f)...)
		}
	case c.Until != 0 && k.drained(ctx, c, f, info):
		if err = k.change(ctx, func(t crowdTable) (crowdTable, error) { return t.without(c) }); err == nil {
			_ = k.s.b.js.DeleteConsumer(ctx, k.stream, schemas.CrowdQueue(c.Slot)) // what is left of it is dropped when it is needed
		}
		if k.wrote(f, err) {
			k.s.cfg.Logger.InfoContext(ctx, "crowd closed", k.about(f)...)
		}
	}
}

// drained reports whether a crowd that has an end has nothing left of what the queue may
// have passed over: of all that was in the stream when the end could first be seen.
func (k *crowds) drained(ctx context.Context, c crowd, f *feed, info *jetstream.ConsumerInfo) bool {
	end, seen := k.ends[c.name()]
	if !seen {
		if _, last, err := k.s.b.Bounds(ctx, k.stream); err == nil {
			k.ends[c.name()] = last
		}
		return false // at the next review, with what the consumer says then
	}
	if info.AckFloor.Stream >= end {
		return true
	}
	if info.NumAckPending > 0 {
		return false
	}
	// The consumer's leader may not have seen all that the stream's has.
	next, err := k.s.b.Next(ctx, k.stream, c.filter(filterOf(f.config)), max(info.Delivered.Stream+1, c.From))
	return errors.Is(err, fault.ErrNotFound) || err == nil && next.Seq > end
}

// mend makes a crowd's consumer again that is another's, by a record that is read now.
func (k *crowds) mend(ctx context.Context, f *feed, c crowd) {
	t, err := k.fresh(ctx)
	if err != nil || !t.knows(c) {
		return
	}
	f.warn("crowd_restored")
	_ = f.makeCrowd(ctx, c) // and if not now, at the next review
}
