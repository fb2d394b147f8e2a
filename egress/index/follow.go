package index

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// A batch is so many records, in one transaction; and a read of the log brings so much at most.
const (
	batch     = 2048
	batchSize = 4 << 20
)

// partition is how far one partition has been read.
type partition struct {
	number   int
	stream   string
	busy     chan struct{} // holds the one who reads
	seq      uint64        // everything up to here is in the index
	last     uint64        // of the log, when it was last asked
	asOf     time.Time
	known    bool   // seq is that of the open file
	first    uint64 // of the log, when what it has dropped was last dropped here
	stampSeq uint64
	stamp    string
}

func newPartition(p int) *partition {
	return &partition{number: p, stream: schemas.LogStream(p), busy: make(chan struct{}, 1)}
}

// take waits for the partition to be nobody else's.
func (p *partition) take(ctx context.Context) bool {
	select {
	case p.busy <- struct{}{}:
		return true
	default:
	}
	select {
	case p.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *partition) give() { <-p.busy }

// standing is how far a partition has been read, for those who do not read it.
type standing struct {
	asOf   time.Time
	behind uint64
}

// follow reads a partition until the end that the log has now, or so many batches of
// it; 0: all. The caller holds the partition.
func (x *Index) follow(ctx context.Context, s *store, p *partition, most int) error {
	if !p.known {
		if err := x.adopt(ctx, s, p); err != nil {
			return err
		}
	}
	asked := x.cfg.Now()
	first, last, err := x.log.Bounds(ctx, p.stream)
	if err != nil {
		return err
	}
	if last < p.seq { // it is not the log that was read
		return errStale
	}
	p.last = last
	if first > 0 && p.seq < first-1 {
		p.seq, p.stampSeq, p.stamp = first-1, 0, ""
	}
	for n := 0; p.seq < last; n++ {
		if most > 0 && n == most {
			return nil
		}
		if err := x.step(ctx, s, p, last); err != nil {
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

// adopt takes over what the file says of a partition, if the log still has the record
// that it ended with: else the file is of another log, or of one that has lost records.
func (x *Index) adopt(ctx context.Context, s *store, p *partition) error {
	err := s.db.QueryRowContext(ctx, "SELECT seq, stamp_seq, stamp FROM place WHERE partition = ?", p.number).Scan(&p.seq, &p.stampSeq, &p.stamp)
	if errors.Is(err, errNoRows) {
		p.seq, p.stampSeq, p.stamp, p.known = 0, 0, "", true
		return nil
	}
	if err != nil {
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

// stampOf tells one record from every other that may come to stand in its place.
func stampOf(rec schemas.Record) string {
	return strconv.FormatUint(rec.Seq, 10) + " " + strconv.FormatInt(rec.Time.UnixNano(), 10) + " " + rec.Subject
}

// step reads one batch and stores it, with how far it goes, in one transaction.
func (x *Index) step(ctx context.Context, s *store, p *partition, last uint64) error {
	b := loaded{from: p.seq, to: last, stampSeq: p.stampSeq, stamp: p.stamp}
	records, more, err := x.page(ctx, p, p.seq, last)
	if err != nil {
		return err
	}
	if n := len(records); more && n > 0 {
		b.to = records[n-1].Seq
	}
	for _, rec := range records {
		if r, ok := readAccepted(rec); ok {
			b.rows = append(b.rows, r)
		} else if e, ok := readSettled(rec); ok {
			b.ends = append(b.ends, e)
		}
		b.see(rec)
	}
	// What a cut of power could take from the log must not be in the index: another
	// record may come to stand in its place.
	if err := x.durable.Durable(ctx, p.stream, b.to); err != nil {
		return err
	}
	if err := x.store(ctx, s, p, &b); err != nil {
		return err
	}
	p.seq, p.stampSeq, p.stamp = b.to, b.stampSeq, b.stamp
	return nil
}

// every is every record. What is not for the index is read too: to find the records of a filter, and
// how many are left, the server looks at each subject that it has.
const every = ">"

// page reads the records behind one sequence and up to another. That
// there is none left is the word of the stream's leader: a replica that is late knows
// nothing of the newest.
func (x *Index) page(ctx context.Context, p *partition, after, upTo uint64) (records []schemas.Record, more bool, err error) {
	for late := 0; ; late++ {
		records, more, err = x.log.Page(ctx, p.stream, every, after+1, batch, batchSize)
		if err != nil {
			return nil, false, err
		}
		read := after
		if n := len(records); n > 0 {
			read = records[n-1].Seq
		}
		for n := len(records); n > 0 && records[n-1].Seq > upTo; n-- {
			records, more = records[:n-1], false
		}
		if more || read >= upTo {
			return records, more, nil
		}
		next, err := x.log.Next(ctx, p.stream, every, read+1)
		switch {
		case errors.Is(err, fault.ErrNotFound) || err == nil && next.Seq > upTo:
			return records, false, nil
		case err != nil:
			return nil, false, err
		case len(records) > 0: // go on behind them
			return records, true, nil
		case late == patience:
			return nil, false, fmt.Errorf("%w: it does not show what it is known to hold", fault.ErrUnavailable)
		}
		if !pause(ctx, catchUp) {
			return nil, false, context.Cause(ctx)
		}
	}
}

// A replica that is late is asked again after catchUp, and so often in a row.
const (
	catchUp  = 20 * time.Millisecond
	patience = 100
)

// pause waits; false says that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
