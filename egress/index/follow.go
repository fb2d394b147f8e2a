package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/internal/retry"
	"weir/internal/telemetry"
	"weir/schemas"
)

// A batch has at most so many records, in one transaction; a read of the log returns at most so much.
// Without a request the batches are small, because calls wait while a batch is read from the log.
const (
	batch      = 2048
	quietBatch = 256
	batchSize  = 4 << 20
)

// position is how far a partition has been read, and the newest record up to there.
type position struct {
	seq      uint64 // everything up to here is in the index
	stampSeq uint64
	stamp    string
}

// partition is what the open file knows of one partition of the log.
type partition struct {
	number  int
	stream  string
	busy    chan struct{} // holds the one reader of what follows
	checked bool          // the file's position is one of this log
	first   uint64        // of the log, when the index last dropped what the log has dropped

	stand atomic.Pointer[schemas.Freshness] // for others than the reader; nil: not known
}

// refresh reads what the log holds by now, all partitions at once, for as long as an
// answer may wait. A partition that does not answer does not delay the others.
func (x *Index) refresh(ctx context.Context, s *store) (fresh schemas.Freshness, err error) {
	within, cancel := context.WithTimeout(ctx, x.cfg.Wait)
	defer cancel()
	errs := make([]error, len(s.parts))
	var all sync.WaitGroup
	for i, p := range s.parts {
		all.Go(func() { errs[i] = x.advance(within, s, p, 0) })
	}
	all.Wait()
	for i, p := range s.parts {
		stand := p.standing()
		if errs[i] != nil {
			stand.Behind = max(stand.Behind, 1)
		}
		fresh.Behind += stand.Behind
		if i == 0 || stand.AsOf.Before(fresh.AsOf) {
			fresh.AsOf = stand.AsOf
		}
	}
	if err := errors.Join(errs...); spoiled(err) {
		return fresh, err
	}
	if fresh.Behind > 0 {
		select {
		case x.poke <- struct{}{}:
		default:
		}
	}
	return fresh, ctx.Err()
}

// standing is how far a partition was read.
func (p *partition) standing() schemas.Freshness {
	return *cmp.Or(p.stand.Load(), &schemas.Freshness{})
}

// advance reads a partition to the end that the log has now, or one batch of so many records (0: all),
// and notes how far it came. The position is the file's, which another process may share.
func (x *Index) advance(ctx context.Context, s *store, p *partition, most int) error {
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.busy }()
	at, err := s.position(ctx, p.number)
	if err != nil {
		return err
	}
	asked := time.Now()
	first, last, err := x.log.Bounds(ctx, p.stream)
	if err != nil {
		return err
	}
	if err := x.check(ctx, p, at, first, last); err != nil {
		return err
	}
	for steps := 0; ; steps++ {
		at.seq = max(at.seq, max(first, 1)-1)
		stand := schemas.Freshness{AsOf: p.standing().AsOf, Behind: max(last, at.seq) - at.seq}
		if stand.Behind == 0 {
			stand.AsOf = asked
		}
		p.stand.Store(&stand)
		if stand.Behind == 0 {
			break
		}
		if most > 0 && steps > 0 {
			return nil
		}
		if err := x.step(ctx, s, p, at, last, cmp.Or(most, batch)); err != nil {
			return err
		}
		if at, err = s.position(ctx, p.number); err != nil {
			return err
		}
	}
	if first > p.first {
		if err := x.prune(ctx, s, p, first); err != nil {
			return err
		}
		p.first = first
	}
	return nil
}

// position reads how far the file has a partition.
func (s *store) position(ctx context.Context, partition int) (at position, err error) {
	const query = "SELECT seq, stamp_seq, stamp FROM place WHERE partition = ?"
	err = s.db.QueryRowContext(ctx, query, partition).Scan(&at.seq, &at.stampSeq, &at.stamp)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return at, err
}

// check compares a position with the log, which was read after it: first that the log is as long, and
// once that it still has the record there. Else the file is of another log, or of one that has lost
// records.
func (x *Index) check(ctx context.Context, p *partition, at position, first, last uint64) error {
	if last < at.seq {
		return errStale
	}
	if !p.checked && at.stampSeq > 0 {
		rec, err := x.log.Next(ctx, p.stream, every, at.stampSeq)
		gone := errors.Is(err, fault.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		if at.stampSeq >= first && (gone || stampOf(rec) != at.stamp) {
			return errStale
		}
	}
	p.checked = true
	return nil
}

// stampOf distinguishes a record from every other that may later have its sequence.
func stampOf(rec schemas.Record) string {
	return strconv.FormatUint(rec.Seq, 10) + " " + strconv.FormatInt(rec.Time.UnixNano(), 10) + " " + rec.Subject
}

// every selects all records. The index filters the records itself: to apply a filter, the
// server looks at each subject that it has.
const every = ">"

// A replica that is late is read again after catchUp, at most so often in a row.
const (
	catchUp  = 20 * time.Millisecond
	patience = 100
)

// step reads one batch, of so many records at most, after a position and up to the log's last, and
// stores it.
func (x *Index) step(ctx context.Context, s *store, p *partition, at position, last uint64, most int) error {
	records, err := x.page(ctx, p, at.seq+1, last, most)
	if err != nil {
		return err
	}
	to := position{last, at.stampSeq, at.stamp}
	if n := len(records); n > 0 {
		to = position{records[n-1].Seq, records[n-1].Seq, stampOf(records[n-1])}
	}
	// A record that a power cut could remove from the log must not be in the index: another
	// record may get its sequence.
	if err := x.durable.Durable(ctx, p.stream, to.seq); err != nil {
		return err
	}
	return s.apply(ctx, p.number, at.seq, to, records)
}

// page reads records from one on, and none after last. Only the stream's leader says that none is
// left: a replica that is late does not know the newest.
func (x *Index) page(ctx context.Context, p *partition, from, last uint64, most int) ([]schemas.Record, error) {
	for range patience {
		records, _, err := x.log.Page(ctx, p.stream, every, from, most, batchSize)
		records = slices.DeleteFunc(records, func(r schemas.Record) bool { return r.Seq > last })
		if err != nil || len(records) > 0 {
			return records, err
		}
		next, err := x.log.Next(ctx, p.stream, every, from)
		switch {
		case errors.Is(err, fault.ErrNotFound) || err == nil && next.Seq > last:
			return nil, nil
		case err != nil:
			return nil, err
		case !retry.Pause(ctx, catchUp):
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("%w: it does not show what it is known to hold", fault.ErrUnavailable)
}

// background reads on from time to time, so that the first request does not wait for all of
// it: a little at a time without requests, and at once after one.
func (x *Index) background() {
	tick := time.NewTicker(x.cfg.Every)
	defer tick.Stop()
	warned := false
	for {
		select {
		case <-tick.C:
		case <-x.poke:
		case <-x.life.Done():
			return
		}
		err := x.round()
		failed := err != nil && x.life.Err() == nil
		if failed && !warned {
			x.cfg.Log.WarnContext(x.life, "index_lagging", slog.String("component", "egress/index"), slog.String("err_kind", telemetry.ErrKind(err)))
		}
		warned = failed
	}
}

// batchTimeout bounds how long the log may take to return one batch.
const batchTimeout = 30 * time.Second

// Without a request for as long as interest, the index pauses after each batch restFactor times
// as long as it took: it takes a twentieth of one processor.
const (
	interest   = time.Minute
	restFactor = 19
)

// round reads one partition after the other to the log's end. Between two batches a request
// can read.
func (x *Index) round() error {
	var errs []error
	for number := range x.cfg.Layout.Partitions {
		for more := true; more && x.life.Err() == nil; {
			began := time.Now()
			ctx, cancel := context.WithTimeout(x.life, batchTimeout)
			err := x.hold(ctx, func(s *store) error {
				defer func() { more = s.parts[number].standing().Behind > 0 }()
				return x.advance(ctx, s, s.parts[number], quietBatch)
			})
			cancel()
			if err != nil {
				if !spoiled(err) { // then the next round reads from the beginning
					errs = append(errs, err)
				}
				break
			}
			if more && time.Since(time.Unix(0, x.asked.Load())) >= interest {
				retry.Pause(x.life, max(restFactor*time.Since(began), time.Millisecond))
			}
		}
	}
	return errors.Join(errs...)
}
