package broker

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// accepted is a tenant's new action.
func accepted(tenant, id string) schemas.Append {
	r := schemas.Ref{Tenant: tenant, Kind: schemas.KindHTTP, ID: id}
	return schemas.Append{Subject: layout.Subject(r, schemas.TailAccepted), Data: []byte(id), Guarded: true, Guard: layout.AnyKind(tenant, id)}
}

// queue stores count actions of a tenant, several at a time.
func (n *node) queue(t *testing.T, tenant string, from, count int) {
	t.Helper()
	const lanes = 64
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			for i := from + lane; i < from+count; i += lanes {
				m := accepted(tenant, "x"+strconv.Itoa(i))
				_, err := n.Append(t.Context(), m)
				for errors.Is(err, fault.ErrUnavailable) { // the disk is slow, and whether it is stored is seen by the guard
					_, err = n.Append(t.Context(), m)
				}
				if err != nil && !errors.Is(err, fault.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// handled is what was handled, in order.
type handled struct {
	mu     sync.Mutex
	first  map[string]map[string]int // by tenant and id: how many actions were handled before it
	others int
	// hurry ends the time that a call takes.
	hurry chan struct{}
}

func newHandled() *handled {
	return &handled{first: make(map[string]map[string]int), hurry: make(chan struct{})}
}

func (h *handled) add(m *message.Message) {
	rec, _ := RecordOf(m)
	r, _, _ := schemas.ParseSubject(rec.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first[r.Tenant] == nil {
		h.first[r.Tenant] = make(map[string]int)
	}
	if _, again := h.first[r.Tenant][r.ID]; !again {
		h.first[r.Tenant][r.ID] = h.others
		h.others++
	}
}

// of is how many of a tenant's actions were handled.
func (h *handled) of(tenant string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.first[tenant])
}

// before is how many actions were handled before one.
func (h *handled) before(tenant, id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first[tenant][id]
}

// callTime is how long a target takes to answer.
const callTime = 200 * time.Millisecond

// run handles all that comes, each message as long as a call takes.
func (h *handled) run(out <-chan *message.Message) {
	for m := range out {
		go func() {
			await(h.hurry, callTime)
			h.add(m)
			m.Ack()
		}()
	}
}

// TestOthersDoNotWaitBehindACrowd queues 4,000 actions of one tenant while nobody works, then
// one of another's: it is worked on long before the crowd has been, nothing is lost, and what
// the crowd was has become the queue's again.
func TestOthersDoNotWaitBehindACrowd(t *testing.T) {
	t.Parallel()
	const many, after = 4_000, 256
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
	n.queue(t, "a", 0, many)
	n.put(t, accepted("b", "first"))
	_, out := n.subscribe(t, SubscriberConfig{Slots: 8, CrowdAfter: after})
	h := newHandled()
	go h.run(out)
	poll.Until(t, func() bool { return h.of("b") == 1 })
	require.Less(t, h.before("b", "first"), many/4, "b's first action waits for a part of a's at most")
	close(h.hurry)
	poll.Until(t, func() bool { return h.of("a") == many }, "nothing is lost")
	require.NotZero(t, n.metrics.read(func(c *counts) int { return c.passed }))

	// It is handed back, and the queue is the tenant's way again.
	poll.Until(t, func() bool { return len(n.crowds(t)) == 0 })
	poll.Until(t, func() bool { return n.metrics.read(func(c *counts) int { return c.crowds }) == 0 })
	n.put(t, accepted("a", "later"))
	poll.Until(t, func() bool { return h.of("a") == many+1 })
	n.settled(t)
}

// crowds is the record of the first partition.
func (n *node) crowds(t *testing.T) []crowd {
	t.Helper()
	k := (&Subscriber{b: n.Broker}).newCrowds(schemas.LogStream(0))
	table, err := k.fresh(t.Context())
	require.NoError(t, err)
	return table.Crowds
}

func (c *counts) read(get func(*counts) int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return get(c)
}

// TestCrowdsOutliveTheirNodes: the record is all that a crowd needs. Each node dies at
// another step of the hand-over, the server may have lost the consumer, or has another
// crowd's in its place, and the next node goes on from what was written.
func TestCrowdsOutliveTheirNodes(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]struct {
		record string
		spoil  func(t *testing.T, n *node)
	}{
		"the record alone": {`{"crowds":[{"slot":0,"tenant":"a","queue":"http","from":%d}]}`, nil},
		"an end":           {`{"crowds":[{"slot":0,"tenant":"a","queue":"http","from":%d,"until":200}]}`, nil},
		"another's consumer": {`{"crowds":[{"slot":0,"tenant":"a","queue":"http","from":%d}]}`, func(t *testing.T, n *node) {
			t.Helper()
			c := crowd{Tenant: "z", Queue: "http", From: 5}
			_, err := n.js.CreateOrUpdateConsumer(t.Context(), schemas.LogStream(0), c.consumer(n.workConsumer(0, schemas.KindHTTP, schemas.TailAccepted)))
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{})
			n.queue(t, "a", 0, 300)
			n.put(t, accepted("b", "first"))
			k := (&Subscriber{b: n.Broker}).newCrowds(schemas.LogStream(0))
			_, err := k.bucket.Put(t.Context(), k.key, fmt.Appendf(nil, left.record, 31), 0)
			require.NoError(t, err)
			if left.spoil != nil {
				left.spoil(t, n)
			}
			_, out := n.subscribe(t, SubscriberConfig{Slots: 8, CrowdAfter: 1 << 20})
			h := newHandled()
			close(h.hurry)
			go h.run(out)
			poll.Until(t, func() bool { return h.of("a") == 300 && h.of("b") == 1 })
			poll.Until(t, func() bool { return len(n.crowds(t)) == 0 })
			n.settled(t)
		})
	}
}

// TestTwoNodesHandOverAtOnce: two nodes work on one log, find the same tenants heavy at the
// same time, and one of them leaves in the middle of it. Everything is handled.
func TestTwoNodesHandOverAtOnce(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{Durability: schemas.DurabilityProcess}, Config{AckWait: 2 * time.Second})
	const each = 500
	tenants := []string{"a", "b", "c", "d", "e"}
	for i := 0; i < each; i += 100 {
		for _, tenant := range tenants {
			n.queue(t, tenant, i, 100)
		}
	}
	h := newHandled()
	first, out1 := n.subscribe(t, SubscriberConfig{Slots: 8, CrowdAfter: 64, DrainTimeout: 10 * time.Second})
	_, out2 := n.subscribe(t, SubscriberConfig{Slots: 8, CrowdAfter: 64})
	go h.run(out1)
	go h.run(out2)
	poll.Until(t, func() bool { return len(n.crowds(t)) == schemas.CrowdSlots }, "there are as many as there may be")
	seen := map[string]bool{}
	for _, c := range n.crowds(t) {
		require.False(t, seen[c.Tenant], "one crowd a tenant")
		seen[c.Tenant] = true
	}
	close(h.hurry)
	require.NoError(t, first.Close())
	for _, tenant := range tenants {
		poll.Until(t, func() bool { return h.of(tenant) == each }, tenant)
	}
	poll.Until(t, func() bool { return len(n.crowds(t)) == 0 })
}
