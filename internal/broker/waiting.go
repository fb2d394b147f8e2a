package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// Waiting is how many new actions no worker has been given yet, of all tenants: it is the
// log's own count. What waits for a retry, for somebody, or to begin is not among them.
func (b *Broker) Waiting(ctx context.Context) (uint64, error) {
	n := uint64(0)
	err := b.eachQueue(ctx, func(_ string, q queue) error {
		if q.isNew() {
			n += q.waits
		}
		return nil
	})
	return n, err
}

// WaitingOf is Waiting of one tenant. It costs a request for each queue that has anything
// waiting, and the server's looking through that.
func (b *Broker) WaitingOf(ctx context.Context, tenant string) (uint64, error) {
	token, n := schemas.EscapeToken(tenant), uint64(0)
	err := b.eachQueue(ctx, func(stream string, q queue) error {
		switch {
		case !q.isNew() || q.waits == 0:
			return nil
		case q.crowd:
			if tenantToken(q.filter) == token {
				n += q.waits
			}
			return nil
		}
		own := crowd{Tenant: token}.filter(q.filter)
		if slices.Contains(q.crowds, own) {
			return nil // the crowd's consumer tells
		}
		waits, err := b.count(ctx, stream, own, q.Delivered.Stream+1)
		n += min(waits, q.waits)
		return err
	})
	return n, err
}

// queue is a consumer of work, for all tenants or for one.
type queue struct {
	*jetstream.ConsumerInfo

	filter string
	crowd  bool
	crowds []string // the filters of the crowds that were handed over from it
	// waits is how many messages wait in it to be worked on. What it has yet to pass over
	// waits in a crowd, and is not among them.
	waits uint64
}

func (q queue) isNew() bool { return strings.HasSuffix(q.filter, "."+string(schemas.TailAccepted)) }

// hurries reports whether it is of nudges to actions that are new.
func (q queue) hurries() bool { return strings.HasSuffix(q.filter, "."+string(schemas.TailHigh)) }

// eachQueue shows the consumers of all partitions.
func (b *Broker) eachQueue(ctx context.Context, show func(stream string, q queue) error) error {
	for p := range b.cfg.Layout.Partitions {
		stream := schemas.LogStream(p)
		all, err := b.queues(ctx, stream)
		for _, q := range all {
			if err == nil {
				err = show(stream, q)
			}
		}
		if err != nil {
			return fmt.Errorf("consumers of %s: %w", stream, wrap(err))
		}
	}
	return nil
}

// queues are the consumers of one partition. Where no tenant has one of its own that takes
// one request a few hundred of them, else one more for each such tenant.
func (b *Broker) queues(ctx context.Context, stream string) (all []queue, _ error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		all = append(all, queue{ConsumerInfo: info, filter: filterOf(info.Config), crowd: strings.HasPrefix(info.Name, schemas.CrowdPrefix), waits: info.NumPending})
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	for _, c := range all {
		if !c.crowd {
			continue
		}
		for i := range all {
			q := &all[i]
			if q.crowd || (crowd{Tenant: tenantToken(c.filter)}).filter(q.filter) != c.filter {
				continue
			}
			passes, err := b.count(ctx, stream, c.filter, q.Delivered.Stream+1)
			if err != nil {
				return nil, err
			}
			q.waits -= min(passes, q.waits)
			q.crowds = append(q.crowds, c.filter)
		}
	}
	return all, nil
}

// count is how many messages there are under a filter from a sequence on: the server says of
// the first how many follow.
func (b *Broker) count(ctx context.Context, stream, filter string, from uint64) (n uint64, err error) {
	req := directGet{Next: filter, Seq: max(from, 1), Batch: 1}
	werr := b.get(ctx, stream, req, func(m *nats.Msg) bool {
		switch s := status(m); s {
		case "":
			n++
			return false
		case statusEnd:
			more, bad := strconv.ParseUint(last(m.Header, headerPending), 10, 64)
			if n += more; bad != nil {
				err = fmt.Errorf("%w: an answer without a count", fault.ErrUnavailable)
			}
		case statusNotFound:
		default:
			err = fmt.Errorf("%w: status %s", fault.ErrUnavailable, s)
		}
		return true
	})
	if werr != nil {
		return 0, werr
	}
	return n, err
}
