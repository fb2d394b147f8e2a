package broker

import (
	"context"
	"fmt"
	"strings"

	"weir/schemas"
)

// Lag is how much work there is of each kind: the messages that no worker has been given
// yet, and those that workers have and have not acknowledged, delayed ones included. It is
// that of the whole log, whichever node asks. Each call asks the server once a partition;
// of a cluster whose consumers do not all answer it is an error, and no smaller number.
func (b *Broker) Lag(ctx context.Context) (map[schemas.Kind]uint64, error) {
	lag := make(map[schemas.Kind]uint64, len(schemas.Kinds()))
	for _, k := range schemas.Kinds() {
		lag[k] = 0
	}
	for p := range b.cfg.Layout.Partitions {
		if err := b.lagOf(ctx, schemas.LogStream(p), lag); err != nil {
			return nil, fmt.Errorf("consumers of %s: %w", schemas.LogStream(p), wrap(err))
		}
	}
	return lag, nil
}

// lagOf adds that of one partition, as far as it is of kinds that are known.
func (b *Broker) lagOf(ctx context.Context, stream string, lag map[schemas.Kind]uint64) error {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	queues := s.ListConsumers(ctx)
	for q := range queues.Info() {
		kind := kindOf(q.Name)
		if strings.HasPrefix(q.Name, schemas.CrowdPrefix) {
			kind = kindOfFilter(filterOf(q.Config))
		}
		if _, known := lag[kind]; known {
			lag[kind] += q.NumPending + uint64(max(0, q.NumAckPending))
		}
	}
	return queues.Err()
}

// kindOfFilter is the kind whose work a queue's filter covers.
func kindOfFilter(filter string) schemas.Kind {
	parts := strings.Split(filter, ".")
	if len(parts) != 8 {
		return ""
	}
	return schemas.Kind(parts[5])
}
