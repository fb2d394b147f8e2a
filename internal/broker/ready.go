package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// ledFor is how long the word that the streams have leaders counts: a node may be asked
// often whether it is ready.
const ledFor = time.Second

// leadership remembers whether the streams had leaders.
type leadership struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// Ready reports whether a write would find the log: a round trip to the server, for the
// embedded one the state of its store and of its disk, and on a cluster whether each
// partition has a leader, as of a second ago at most.
func (b *Broker) Ready(ctx context.Context) error {
	if b.cfg.Server != nil {
		if err := b.cfg.Server.Healthy(); err != nil {
			return err
		}
	} else if !b.nc.IsConnected() || !b.writes.IsConnected() { // a flush would wait for it
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

// haveLeaders asks each partition's leader whether it is one.
func (b *Broker) haveLeaders(ctx context.Context) error {
	b.leaders.mu.Lock()
	defer b.leaders.mu.Unlock()
	if time.Since(b.leaders.at) < ledFor {
		return b.leaders.err
	}
	names := make([]string, b.cfg.Layout.Partitions)
	for p := range names {
		names[p] = schemas.LogStream(p)
	}
	_, err := b.infos(ctx, names)
	b.leaders.at, b.leaders.err = time.Now(), err
	return err
}

// infos are what the leaders of streams say of them, asked all at once. A stream that has
// no leader is an error.
func (b *Broker) infos(ctx context.Context, names []string) ([]*jetstream.StreamInfo, error) {
	all, errs := make([]*jetstream.StreamInfo, len(names)), make([]error, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			s, err := b.js.Stream(ctx, name)
			if err != nil {
				errs[i] = fmt.Errorf("stream %s: %w", name, wrap(err))
				return
			}
			all[i] = s.CachedInfo()
			if c := all[i].Cluster; c != nil && c.Leader == "" {
				errs[i] = fmt.Errorf("stream %s: %w: no leader", name, fault.ErrUnavailable)
			}
		})
	}
	asked.Wait()
	return all, errors.Join(errs...)
}
