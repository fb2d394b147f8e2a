package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// leaderWait is how long the result of haveLeaders is reused: a node may be probed often.
const leaderWait = time.Second

// leadership is the last result of haveLeaders.
type leadership struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// Ready reports whether a write would reach the log. It makes a round trip to the server, checks
// the store and the disk of an embedded one, and on a cluster whether each partition has a leader,
// as of a second ago at most.
func (b *Broker) Ready(ctx context.Context) error {
	if b.cfg.Server != nil {
		if err := b.cfg.Server.Healthy(); err != nil {
			return err
		}
	} else if !b.nc.IsConnected() || !b.writes.IsConnected() { // a flush would wait for the connection
		return fmt.Errorf("%w: no connection", fault.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := errors.Join(wrap(b.nc.FlushWithContext(ctx)), wrap(b.writes.FlushWithContext(ctx)))
	if err != nil || b.cfg.Server != nil {
		return err
	}
	return b.haveLeaders(ctx)
}

// haveLeaders sends a request to the leader of each partition, all at once.
func (b *Broker) haveLeaders(ctx context.Context) error {
	b.leaders.mu.Lock()
	defer b.leaders.mu.Unlock()
	if time.Since(b.leaders.at) < leaderWait {
		return b.leaders.err
	}
	errs := make([]error, b.cfg.Layout.Partitions)
	var asked sync.WaitGroup
	for p := range errs {
		asked.Go(func() {
			s, err := b.js.Stream(ctx, schemas.LogStream(p))
			if err == nil {
				if c := s.CachedInfo().Cluster; c != nil && c.Leader == "" {
					err = fmt.Errorf("%w: no leader", fault.ErrUnavailable)
				}
			}
			if err != nil {
				errs[p] = fmt.Errorf("stream %s: %w", schemas.LogStream(p), wrap(err))
			}
		})
	}
	asked.Wait()
	b.leaders.at, b.leaders.err = time.Now(), errors.Join(errs...)
	return b.leaders.err
}
