package broker

import (
	"context"
	"slices"
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
	err := b.eachQueue(ctx, func(_ string, q queue) error {
		if kind := kindOfFilter(q.filter); kind != "" && !q.hurries() { // what is hurried waits among the new actions too
			lag[kind] += q.waits + uint64(max(0, q.NumAckPending))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lag, nil
}

// kindOfFilter is the kind whose work a queue's filter covers; empty: none that is known.
func kindOfFilter(filter string) schemas.Kind {
	parts := strings.Split(filter, ".")
	if len(parts) != 8 || !slices.Contains(schemas.Kinds(), schemas.Kind(parts[5])) {
		return ""
	}
	return schemas.Kind(parts[5])
}
