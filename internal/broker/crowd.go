package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/fault"
	"weir/schemas"
)

// A crowd is the part of a queue that one tenant has too much of. It is handed out of the
// queue to a consumer of its own, and back when it has been worked off, so that nobody else
// waits behind it. ADR 0033 tells why nothing is lost by that:
//
//   - the record in schemas.CrowdBucket is the truth. The consumer can be made from it at any
//     time, by anybody, from the crowd's first message on;
//   - the queue passes a message over only where a record that was read after the message
//     came says that it is the crowd's;
//   - a crowd's consumer passes nothing over. The record goes once the consumer has nothing
//     left of what was stored while the record still was open.
//
// What two consumers give out is a message that came twice: the fence knows that.
type crowd struct {
	// Slot names the consumer: there is a fixed number of them a partition.
	Slot int `json:"slot"`
	// Tenant is the tenant's token in subjects, and Queue the durable consumer that it
	// was too much for.
	Tenant string `json:"tenant"`
	Queue  string `json:"queue"`
	// From is the first sequence of the stream that is the crowd's.
	From uint64 `json:"from"`
	// Until is the first that is the queue's again; 0: there is none yet.
	Until uint64 `json:"until,omitempty"`
}

// holds reports whether a message of its queue and tenant is the crowd's.
func (c crowd) holds(seq uint64) bool { return seq >= c.From && (c.Until == 0 || seq < c.Until) }

// same reports whether both mean one crowd, open or not.
func (c crowd) same(o crowd) bool {
	c.Until, o.Until = 0, 0
	return c == o
}

// crowdTable is the record of a partition: all of its crowds, in one value, so that two
// nodes that hand over at once cannot both do it.
type crowdTable struct {
	Crowds []crowd `json:"crowds"`
	rev    uint64
}

// readCrowds reads a record. One that cannot be read is no table: who passes messages over
// must not guess.
func readCrowds(r schemas.Record) (crowdTable, error) {
	t := crowdTable{rev: r.Seq}
	if len(r.Data) == 0 {
		return t, nil
	}
	if err := json.Unmarshal(r.Data, &t); err != nil {
		return crowdTable{}, fmt.Errorf("%w: the record of crowds cannot be read", fault.ErrUnavailable)
	}
	t.rev = r.Seq
	return t, nil
}

// of is a tenant's crowd in a queue.
func (t *crowdTable) of(queue, tenant string) (crowd, bool) {
	if t == nil {
		return crowd{}, false
	}
	for _, c := range t.Crowds {
		if c.Queue == queue && c.Tenant == tenant {
			return c, true
		}
	}
	return crowd{}, false
}

// has reports whether a message of a queue is a crowd's.
func (t *crowdTable) has(queue, subject string, seq uint64) bool {
	if t == nil || len(t.Crowds) == 0 {
		return false
	}
	c, ok := t.of(queue, tenantToken(subject))
	return ok && c.holds(seq)
}

// knows reports whether a crowd is in the table, open or not.
func (t *crowdTable) knows(c crowd) bool { return slices.ContainsFunc(t.Crowds, c.same) }

var (
	errCrowded  = errors.New("there are as many crowds as there may be")
	errIsACrowd = errors.New("the tenant's work is a crowd already")
	errNoCrowd  = errors.New("there is no such crowd any more")
)

// with is the table with one more crowd.
func (t *crowdTable) with(queue, tenant string, from uint64) (crowdTable, error) {
	if _, there := t.of(queue, tenant); there {
		return *t, errIsACrowd
	}
	taken := make(map[int]bool, len(t.Crowds))
	for _, c := range t.Crowds {
		taken[c.Slot] = true
	}
	// The slot that was left last is taken last: who has not heard yet may be at its consumer.
	for i := range schemas.CrowdSlots {
		slot := (int(t.rev%schemas.CrowdSlots) + i) % schemas.CrowdSlots
		if !taken[slot] {
			more := crowd{Slot: slot, Tenant: tenant, Queue: queue, From: from}
			return crowdTable{Crowds: append(slices.Clone(t.Crowds), more), rev: t.rev}, nil
		}
	}
	return *t, errCrowded
}

// until is the table with an end for a crowd.
func (t *crowdTable) until(c crowd, until uint64) (crowdTable, error) {
	i := slices.IndexFunc(t.Crowds, c.same)
	if i < 0 || t.Crowds[i].Until != 0 {
		return *t, errNoCrowd
	}
	next := crowdTable{Crowds: slices.Clone(t.Crowds), rev: t.rev}
	next.Crowds[i].Until = max(until, c.From)
	return next, nil
}

// without is the table without a crowd that has an end.
func (t *crowdTable) without(c crowd) (crowdTable, error) {
	i := slices.IndexFunc(t.Crowds, c.same)
	if i < 0 || t.Crowds[i].Until == 0 {
		return *t, errNoCrowd
	}
	return crowdTable{Crowds: slices.Delete(slices.Clone(t.Crowds), i, i+1), rev: t.rev}, nil
}

// tenantToken is the tenant in a subject of the log, as it stands there.
func tenantToken(subject string) string {
	for range 4 {
		_, rest, ok := strings.Cut(subject, ".")
		if !ok {
			return ""
		}
		subject = rest
	}
	tenant, _, _ := strings.Cut(subject, ".")
	return tenant
}

// consumer is the crowd's consumer on its stream: the queue's own, for one tenant.
func (c crowd) consumer(queue jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:           schemas.CrowdQueue(c.Slot),
		FilterSubjects:    []string{c.filter(filterOf(queue))},
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       c.From,
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           queue.AckWait,
		MaxDeliver:        -1,
		MaxAckPending:     queue.MaxAckPending,
		InactiveThreshold: crowdForgotten,
	}
}

// filter is a queue's filter for one tenant alone.
func (c crowd) filter(queue string) string {
	parts := strings.Split(queue, ".")
	parts[4] = c.Tenant
	return strings.Join(parts, ".")
}

// is reports whether a consumer is this crowd's.
func (c crowd) is(found, queue jetstream.ConsumerConfig) bool {
	return found.OptStartSeq == c.From && filterOf(found) == c.filter(filterOf(queue))
}

// filterOf is the one filter of a queue.
func filterOf(c jetstream.ConsumerConfig) string {
	if c.FilterSubject == "" && len(c.FilterSubjects) == 1 {
		return c.FilterSubjects[0]
	}
	return c.FilterSubject
}
