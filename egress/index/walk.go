package index

import (
	"context"
	"errors"

	"weir/egress/status"
	"weir/internal/fault"
	"weir/schemas"
)

// WalkLog is what a walk reads.
type WalkLog interface {
	Range(ctx context.Context, stream, filter string, from uint64, limit int) ([]schemas.Record, error)
	Bounds(ctx context.Context, stream string) (first, last uint64, err error)
}

// WalkConfig shapes a walk. Zero fields but Layout take the default.
type WalkConfig struct {
	Layout schemas.Layout // required
	// Reads and Looks bound the work of one page: reads of the log, and
	// actions looked at. A page that ends there is short and has a next.
	// Default 32 and 2000.
	Reads int
	Looks int
}

// Walker goes through the accepted events of a tenant straight on the log, newest
// first, for lists that show more of an action than the index holds.
type Walker struct {
	log     WalkLog
	durable status.Durable
	cfg     WalkConfig
}

// NewWalker walks over log, and shows nothing before durable says so.
func NewWalker(log WalkLog, durable status.Durable, cfg WalkConfig) *Walker {
	if cfg.Reads <= 0 {
		cfg.Reads = 32
	}
	if cfg.Looks <= 0 {
		cfg.Looks = 2000
	}
	return &Walker{log: log, durable: durable, cfg: cfg}
}

// Walk gives the accepted events of a tenant's actions of a kind, the newest first,
// from behind a cursor on, until take wants no more or as much was looked at as one
// page may cost. Take says up to which sequence it has read what it shows, which is
// waited for, or 0; its fault.ErrNotFound and fault.ErrGone pass the action over. Next
// is where to go on, and empty at the end.
func (x *Walker) Walk(ctx context.Context, tenant string, kind schemas.Kind, cursor string, take func(ctx context.Context, rec schemas.Record) (seq uint64, more bool, err error)) (next string, err error) {
	var from []uint64
	if cursor != "" {
		if from, err = parseCursor(cursor, x.cfg.Layout.Partitions); err != nil {
			return "", err
		}
	}
	return x.walk(ctx, tenant, kind, from, take)
}

// walk merges the partitions by the time at which their actions were accepted.
// It stops where a partition has not been read far enough to know which action
// is next: what it gives is in order, if short.
func (x *Walker) walk(ctx context.Context, tenant string, kind schemas.Kind, from []uint64, take func(context.Context, schemas.Record) (uint64, bool, error)) (string, error) {
	scans, err := x.scans(ctx, tenant, kind, from)
	if err != nil {
		return "", err
	}
	seen := make([]uint64, len(scans))
	reads, more := x.cfg.Reads, true
	for looks := x.cfg.Looks; more && looks > 0; looks-- {
		best, err := newest(ctx, x.log, scans, &reads)
		if err != nil {
			return "", err
		}
		if best < 0 {
			break
		}
		var seq uint64
		seq, more, err = take(ctx, scans[best].pop())
		if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrGone) {
			more = true // dropped while the page was read
			continue
		}
		if err != nil {
			return "", err
		}
		seen[best] = max(seen[best], seq)
	}
	for p, seq := range seen {
		if err := x.durable.Durable(ctx, scans[p].stream, seq); err != nil {
			return "", err
		}
	}
	return cursorOf(scans), nil
}

func (x *Walker) scans(ctx context.Context, tenant string, kind schemas.Kind, from []uint64) ([]*scan, error) {
	scans := make([]*scan, x.cfg.Layout.Partitions)
	for p := range scans {
		s := &scan{stream: schemas.LogStream(p), filter: x.cfg.Layout.TenantAccepted(p, tenant, kind)}
		first, last, err := x.log.Bounds(ctx, s.stream)
		if err != nil {
			return nil, err
		}
		s.first, s.before = first, last+1
		if from != nil {
			s.before = min(s.before, from[p])
		}
		scans[p] = s
	}
	return scans, nil
}
