package index

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"weir/internal/telemetry"
)

// spoiled reports whether an error is that of a file which is to be built anew.
func spoiled(err error) bool {
	if errors.Is(err, errStale) {
		return true
	}
	var bad *sqlite.Error
	if !errors.As(err, &bad) {
		return false
	}
	switch bad.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_ERROR: // a table is missing
		return true
	default:
		return false
	}
}

// refresh reads what the log holds by now, all partitions at once, for as long as an
// answer may wait. A partition that does not answer holds nothing else up.
func (x *Index) refresh(ctx context.Context, s *store) (lag, error) {
	within, cancel := context.WithTimeout(ctx, x.cfg.Wait)
	defer cancel()
	errs := make([]error, len(x.parts))
	var all sync.WaitGroup
	for i, p := range x.parts {
		all.Go(func() { errs[i] = x.bring(within, s, p, 0) })
	}
	all.Wait()
	out := lag{silent: map[int]bool{}}
	x.mu.Lock()
	for i, st := range x.stand {
		if errs[i] != nil {
			out.silent[i] = true
			st.behind = max(st.behind, 1)
		}
		out.behind += st.behind
		if i == 0 || st.asOf.Before(out.asOf) {
			out.asOf = st.asOf
		}
	}
	x.mu.Unlock()
	for _, err := range errs {
		if err != nil && spoiled(err) {
			return out, err
		}
	}
	if out.behind > 0 {
		select {
		case x.poke <- struct{}{}:
		default:
		}
	}
	return out, ctx.Err()
}

// bring reads a partition until the log's end, or so many batches of it, and notes how
// far it came.
func (x *Index) bring(ctx context.Context, s *store, p *partition, most int) error {
	if !p.take(ctx) {
		return context.Cause(ctx)
	}
	defer p.give()
	err := x.follow(ctx, s, p, most)
	if errors.Is(err, errMoved) { // by another process, which has the same log
		err = x.follow(ctx, s, p, most)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	st := &x.stand[p.number]
	st.asOf, st.behind = p.asOf, 0
	if p.last > p.seq {
		st.behind = p.last - p.seq
	}
	return err
}

// interest is how long somebody who has asked counts as asking.
const interest = time.Minute

// background reads on every now and then, so that who asks first does not wait for
// all of it: a little at a time while nobody asks, and at once where somebody did.
func (x *Index) background() {
	tick := time.NewTicker(x.cfg.Every)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-tick.C:
		case <-x.poke:
		case <-x.life.Done():
			return
		}
		err := x.round()
		failed := err != nil && x.life.Err() == nil
		if failed && !told {
			x.cfg.Log.WarnContext(x.life, "index behind", slog.String("component", "egress/index"), slog.String("err_kind", telemetry.ErrKind(err)))
		}
		told = failed
	}
}

// round brings one partition after the other to the log's end.
func (x *Index) round() error {
	var errs []error
	for _, p := range x.parts {
		for {
			began := x.cfg.Now()
			more, err := x.batch(p)
			if err != nil {
				errs = append(errs, err)
			}
			if err != nil || !more || !x.rest(x.cfg.Now().Sub(began)) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// batch reads one batch of a partition and reports whether there are others. Between
// two of them whoever asks gets in.
func (x *Index) batch(p *partition) (more bool, err error) {
	ctx, cancel := context.WithTimeout(x.life, batchTimeout)
	defer cancel()
	s, err := x.open()
	if err != nil {
		return false, err
	}
	err = x.holding(s, func() error { return x.bring(ctx, s, p, 1) })
	if err != nil && spoiled(err) {
		return false, x.reopen(s)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stand[p.number].behind > 0, err
}

// batchTimeout bounds what the log takes to bring one batch.
const batchTimeout = 30 * time.Second

// rest leaves the machine to others behind a batch, unless somebody waits for the index.
func (x *Index) rest(took time.Duration) bool {
	x.mu.Lock()
	wanted := !x.asked.IsZero() && x.cfg.Now().Sub(x.asked) < interest
	x.mu.Unlock()
	if wanted || x.cfg.Rest < 0 {
		return x.life.Err() == nil
	}
	return pause(x.life, max(time.Duration(x.cfg.Rest)*took, time.Millisecond))
}
