package activetasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

const (
	// page and pageSize are how many messages are asked for at once, of which each may hold a
	// whole order: it costs the server little more than to give out one.
	page     = 4000
	pageSize = 4 << 20
	// patience bounds one look at the log.
	patience = 10 * time.Second
)

// feedSubject matches the events of tasks, in all sections.
const feedSubject = schemas.LiveLog + ".*.*.*." + string(schemas.KindTask) + ".*"

// look reads every partition to its end, and the control records. Records read before an error are
// kept, and a partition that cannot be read does not prevent the others from being read.
func (b *Cache) look(ctx context.Context) error {
	errs := make([]error, b.cfg.Layout.Partitions+1)
	var all sync.WaitGroup
	for p := range b.cfg.Layout.Partitions {
		all.Go(func() { errs[p] = b.readOn(ctx, p) })
	}
	all.Wait()
	errs[b.cfg.Layout.Partitions] = b.readOrders(ctx)
	return errors.Join(errs...)
}

// readOn reads a partition to its current end, as the stream's leader reports it; the records
// themselves may come from any replica. It asks for the end first, because searching for the next
// task event past other writers' records would scan them all.
func (b *Cache) readOn(ctx context.Context, p int) error {
	stream, filter := schemas.LogStream(p), schemas.KindFilter(p, schemas.KindTask)
	first, last, err := b.log.Bounds(ctx, stream)
	if err != nil {
		return err
	}
	from, err := b.bound(p, first, last)
	if err != nil {
		return err
	}
	for from <= last {
		records, _, err := b.log.Page(ctx, stream, filter, from, page, pageSize)
		if err != nil {
			return err
		}
		if len(records) == 0 { // or not known to who was asked
			next, err := b.log.Next(ctx, stream, filter, from)
			switch {
			case errors.Is(err, fault.ErrNotFound):
				b.apply(p, nil, last)
				return nil
			case err != nil:
				return err
			}
			records = []schemas.Record{next}
		}
		to := records[len(records)-1].Seq
		b.apply(p, records, to)
		from = to + 1
	}
	return nil
}

// errShort: records that were read before are missing, perhaps only for now.
var errShort = errors.New("the log is shorter than it was")

// bound drops the tasks whose beginning history has dropped: they cannot continue. It returns where
// the partition is read on. If a log ends before the last record read, it is read again from its end.
func (b *Cache) bound(p int, first, last uint64) (from uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last < b.read[p] {
		b.read[p] = last
		return 0, fmt.Errorf("%w: %w", fault.ErrUnavailable, errShort)
	}
	if first > b.first[p] {
		b.first[p] = first
		for ref, t := range b.tasks {
			if t.first < first && b.cfg.Layout.Partition(ref.Tenant, ref.ID) == p {
				b.drop(t)
			}
		}
	}
	return b.read[p] + 1, nil
}

// apply adds the records that were read of a partition, up to a place.
func (b *Cache) apply(p int, records []schemas.Record, to uint64) {
	events := make([]event, 0, len(records))
	for _, r := range records { // without the lock
		if e, ok := decode(r); ok {
			events = append(events, e)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		b.learn(e)
	}
	b.read[p] = max(b.read[p], to)
}

// readOrders reads the orders that lie aside, of tasks that have not ended meanwhile.
func (b *Cache) readOrders(ctx context.Context) error {
	b.mu.Lock()
	aside := slices.Collect(maps.Keys(b.aside))
	b.mu.Unlock()
	var errs []error
	for _, t := range aside {
		errs = append(errs, b.readOrder(ctx, t))
	}
	return errors.Join(errs...)
}

func (b *Cache) readOrder(ctx context.Context, t *task) error {
	b.mu.Lock()
	name := t.blob
	b.mu.Unlock()
	payload, err := b.log.GetBlob(ctx, name)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.aside, t)
	switch {
	case b.tasks[t.Ref] != t: // it has ended
	case err != nil || !t.ordered(payload):
		b.drop(t) // its worker settles it
	default:
		b.update(t)
	}
	return nil
}
