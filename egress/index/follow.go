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
	number int
	stream string
	busy   chan struct{} // holds the one reader of what follows
	position
	known bool   // place is what the open file has
	last  uint64 // of the log, when it was last asked
	first uint64 // of the log, when the index last dropped what the log has dropped
	asOf  time.Time

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

// advance reads a partition to the end that the log has now, or so many records of it (0: all), and
// notes how far it came.
func (x *Index) advance(ctx context.Context, s *store, p *partition, most int) error {
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.busy }()
	err := x.follow(ctx, s, p, most)
	if errors.Is(err, errMoved) { // by another process, which has the same log
		err = x.follow(ctx, s, p, most)
	}
	p.stand.Store(&schemas.Freshness{AsOf: p.asOf, Behind: max(p.last, p.seq) - p.seq})
	return err
}

func (x *Index) follow(ctx context.Context, s *store, p *partition, most int) error {
	if !p.known {
		if err := x.adopt(ctx, s, p); err != nil {
			return err
		}
	}
	asked := time.Now()
	first, last, err := x.log.Bounds(ctx, p.stream)
	if err != nil {
		return err
	}
	if last < p.seq { // it is not the log that was read
		return errStale
	}
	p.last = last
	if first > 0 && p.seq < first-1 {
		p.position = position{seq: first - 1}
	}
	for began := p.seq; p.seq < last; {
		if most > 0 && p.seq > began {
			return nil
		}
		if err := x.step(ctx, s, p, cmp.Or(most, batch)); err != nil {
			return err
		}
	}
	p.asOf = asked
	if first > p.first {
		if err := x.prune(ctx, s, p, first); err != nil {
			return err
		}
		p.first = first
	}
	return nil
}

// adopt takes over the place that the file has of a partition, if the log still has the record
// there: else the file is of another log, or of one that has lost records.
func (x *Index) adopt(ctx context.Context, s *store, p *partition) error {
	p.position = position{}
	const query = "SELECT seq, stamp_seq, stamp FROM place WHERE partition = ?"
	err := s.db.QueryRowContext(ctx, query, p.number).Scan(&p.seq, &p.stampSeq, &p.stamp)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if p.stampSeq > 0 {
		first, _, err := x.log.Bounds(ctx, p.stream)
		if err != nil {
			return err
		}
		rec, err := x.log.Next(ctx, p.stream, every, p.stampSeq)
		gone := errors.Is(err, fault.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		if p.stampSeq >= first && (gone || stampOf(rec) != p.stamp) {
			return errStale
		}
	}
	p.known = true
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

// step reads one batch, of so many records at most, and stores it.
func (x *Index) step(ctx context.Context, s *store, p *partition, most int) error {
	records, err := x.page(ctx, p, most)
	if err != nil {
		return err
	}
	to := position{p.last, p.stampSeq, p.stamp}
	if n := len(records); n > 0 {
		to = position{records[n-1].Seq, records[n-1].Seq, stampOf(records[n-1])}
	}
	// A record that a power cut could remove from the log must not be in the index: another
	// record may get its sequence.
	if err := x.durable.Durable(ctx, p.stream, to.seq); err != nil {
		return err
	}
	if err := s.apply(ctx, p.number, p.seq, to, records); err != nil {
		p.known = false
		return err
	}
	p.position = to
	return nil
}

// page reads records after the partition's place and up to its last. Only the stream's leader
// says that none is left: a replica that is late does not know the newest.
func (x *Index) page(ctx context.Context, p *partition, most int) ([]schemas.Record, error) {
	for range patience {
		records, _, err := x.log.Page(ctx, p.stream, every, p.seq+1, most, batchSize)
		records = slices.DeleteFunc(records, func(r schemas.Record) bool { return r.Seq > p.last })
		if err != nil || len(records) > 0 {
			return records, err
		}
		next, err := x.log.Next(ctx, p.stream, every, p.seq+1)
		switch {
		case errors.Is(err, fault.ErrNotFound) || err == nil && next.Seq > p.last:
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
				defer func() { more = s.parts[number].stand.Load().Behind > 0 }()
				return x.advance(ctx, s, s.parts[number], quietBatch)
			})
			cancel()
			if spoiled(err) { // the next round reads from the beginning
				break
			}
			if err != nil {
				errs = append(errs, err)
				break
			}
			if more && time.Since(time.Unix(0, x.asked.Load())) >= interest {
				retry.Pause(x.life, max(restFactor*time.Since(began), time.Millisecond))
			}
		}
	}
	return errors.Join(errs...)
}
