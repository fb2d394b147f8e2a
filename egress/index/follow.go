package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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

// position is how far the file has a partition: everything up to seq. The stamp identifies the record at
// seq.
type position struct {
	seq   uint64
	stamp string
}

// partition is what the open file knows of one partition of the log.
type partition struct {
	number  int
	stream  string
	busy    chan struct{} // holds the one reader of what follows
	checked bool          // the file's position is one of this log
	empty   uint64        // up to here, no record follows the file's position
	first   uint64        // of the log, when the index last dropped what the log has dropped

	stand atomic.Pointer[schemas.Freshness] // for others than the reader
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
		stand := *p.stand.Load()
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
	if err == nil {
		err = x.check(ctx, s, p, at, first, last)
	}
	if err != nil {
		return err
	}
	at.seq = max(at.seq, p.empty, max(first, 1)-1)
	for steps := 0; at.seq < last; steps++ {
		p.stand.Store(&schemas.Freshness{AsOf: p.stand.Load().AsOf, Behind: last - at.seq})
		if most > 0 && steps > 0 {
			return nil
		}
		if at, err = x.step(ctx, s, p, at, last, cmp.Or(most, batch)); err != nil {
			return err
		}
	}
	p.stand.Store(&schemas.Freshness{AsOf: asked})
	return nil
}

// position reads how far the file has a partition.
func (s *store) position(ctx context.Context, partition int) (at position, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT seq, stamp FROM place WHERE partition = ?", partition).Scan(&at.seq, &at.stamp)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return at, err
}

// check compares the file with the log, which was read after it: that the log is as long, once that it
// still has the record of the position, and that the file has nothing that the log has dropped. Else
// the file is of another log, or of one that has lost records.
func (x *Index) check(ctx context.Context, s *store, p *partition, at position, first, last uint64) error {
	if last < max(at.seq, p.empty) {
		return errStale
	}
	if !p.checked && at.seq >= max(first, 1) {
		rec, err := x.log.Next(ctx, p.stream, every, at.seq)
		if err == nil && stampOf(rec) != at.stamp || errors.Is(err, fault.ErrNotFound) {
			return errStale
		}
		if err != nil {
			return err
		}
	}
	p.checked = true
	if first > p.first {
		if err := x.prune(ctx, s, p, first); err != nil {
			return err
		}
		p.first = first
	}
	return nil
}

// stampOf distinguishes a record from every other that may later have its sequence.
func stampOf(rec schemas.Record) string {
	return strconv.FormatUint(rec.Seq, 10) + " " + strconv.FormatInt(rec.Time.UnixNano(), 10) + " " + rec.Subject
}

// every selects all records. The index filters the records itself: to apply a filter, the
// server looks at each subject that it has.
const every = ">"

// step reads one batch, of so many records at most, after a position and up to the log's last, stores
// it, and returns the next position.
func (x *Index) step(ctx context.Context, s *store, p *partition, at position, last uint64, most int) (position, error) {
	records, err := x.page(ctx, p, at.seq+1, last, most)
	if err != nil {
		return at, err
	}
	to := position{seq: last}
	if n := len(records); n > 0 {
		to = position{records[n-1].Seq, stampOf(records[n-1])}
	}
	// A record that a power cut could remove from the log must not be in the index: another
	// record may get its sequence.
	if err := x.durable.Durable(ctx, p.stream, to.seq); err != nil {
		return at, err
	}
	if len(records) == 0 {
		p.empty = last
		return to, nil
	}
	if err := s.apply(ctx, p.number, at.seq, to, records); err != nil {
		return at, err
	}
	return s.position(ctx, p.number)
}

// catchUp is the pause after which a replica that was late may show more.
const catchUp = 20 * time.Millisecond

// page reads records from one on, and none after last. A replica that is late does not show the newest:
// then the stream's leader shows the next one, or that there is none.
func (x *Index) page(ctx context.Context, p *partition, from, last uint64, most int) ([]schemas.Record, error) {
	records, _, err := x.log.Page(ctx, p.stream, every, from, most, batchSize)
	if err == nil && len(records) == 0 {
		var next schemas.Record
		if next, err = x.log.Next(ctx, p.stream, every, from); err == nil {
			retry.Pause(ctx, catchUp)
			records = append(records, next)
		} else if errors.Is(err, fault.ErrNotFound) {
			err = nil
		}
	}
	return slices.DeleteFunc(records, func(r schemas.Record) bool { return r.Seq > last }), err
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
				defer func() { more = s.parts[number].stand.Load().Behind > 0 }()
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
