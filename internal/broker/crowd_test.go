package broker

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

func TestCrowdTable(t *testing.T) {
	t.Parallel()
	t0 := crowdTable{}
	t1, err := t0.with("http", "a", 10)
	require.NoError(t, err)
	require.Empty(t, t0.Crowds)
	a, ok := t1.of("http", "a")
	require.True(t, ok)
	_, err = t1.with("http", "a", 99)
	require.ErrorIs(t, err, errIsACrowd)

	subject := layout.Subject(schemas.Ref{Tenant: "a", Kind: schemas.KindHTTP, ID: "1"}, schemas.TailAccepted)
	other := layout.Subject(schemas.Ref{Tenant: "b", Kind: schemas.KindHTTP, ID: "1"}, schemas.TailAccepted)
	require.False(t, t1.has("http", subject, 9))
	require.True(t, t1.has("http", subject, 10))
	require.False(t, t1.has("http_wake", subject, 10), "it is another queue's")
	require.False(t, t1.has("http", other, 10))
	require.False(t, (*crowdTable)(nil).has("http", subject, 10))

	_, err = t1.without(a)
	require.ErrorIs(t, err, errNoCrowd, "one that has no end yet stays")
	t2, err := t1.until(a, 20)
	require.NoError(t, err)
	require.True(t, t2.has("http", subject, 19))
	require.False(t, t2.has("http", subject, 20))
	_, err = t2.until(a, 30)
	require.ErrorIs(t, err, errNoCrowd, "an end is written once")
	require.True(t, t2.knows(a))
	t3, err := t2.without(a)
	require.NoError(t, err)
	require.False(t, t3.knows(a))
	_, err = t3.until(a, 20)
	require.ErrorIs(t, err, errNoCrowd)
}

func TestCrowdsAreBounded(t *testing.T) {
	t.Parallel()
	table := crowdTable{rev: 7}
	var err error
	slots := map[int]bool{}
	for _, tenant := range []string{"a", "b", "c", "d"} {
		table, err = table.with("http", tenant, 1)
		require.NoError(t, err)
		c, _ := table.of("http", tenant)
		slots[c.Slot] = true
	}
	require.Len(t, slots, schemas.CrowdSlots)
	_, err = table.with("http", "e", 1)
	require.ErrorIs(t, err, errCrowded)
}

func TestCrowdRecord(t *testing.T) {
	t.Parallel()
	table, err := readCrowds(schemas.Record{})
	require.NoError(t, err)
	require.Empty(t, table.Crowds)
	table, err = readCrowds(schemas.Record{Seq: 3, Data: []byte(`{"crowds":[{"slot":1,"tenant":"a","queue":"http","from":5}]}`)})
	require.NoError(t, err)
	require.EqualValues(t, 3, table.rev)
	require.Equal(t, []crowd{{Slot: 1, Tenant: "a", Queue: "http", From: 5}}, table.Crowds)
	_, err = readCrowds(schemas.Record{Seq: 3, Data: []byte(`{`)})
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

func TestCrowdConsumer(t *testing.T) {
	t.Parallel()
	b := &Broker{cfg: Config{}.withDefaults()}
	queue := b.workConsumer(3, schemas.KindHTTP, schemas.TailWake)
	c := crowd{Slot: 2, Tenant: "a%2E", Queue: "http_wake", From: 9}
	own := c.consumer(queue)
	require.Equal(t, "crowd_2", own.Durable)
	require.Equal(t, []string{"weir.log.3.*.a%2E.http.*.wake"}, own.FilterSubjects)
	require.EqualValues(t, 9, own.OptStartSeq)
	require.True(t, c.is(own, queue))
	require.False(t, c.is(queue, queue))
	own.OptStartSeq++
	require.False(t, c.is(own, queue))
}

func TestSlotsTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCrew(4)
	require.Equal(t, 1, c.spare)
	queue := &feed{crew: c, running: &sync.WaitGroup{}, backlog: make([]*delivery, 3)}
	one := &feed{crew: c, running: &sync.WaitGroup{}, crowd: &crowd{}, backlog: make([]*delivery, 3)}
	two := &feed{crew: c, running: &sync.WaitGroup{}, crowd: &crowd{}, backlog: make([]*delivery, 3)}
	for _, f := range []*feed{queue, one, two} {
		for i := range f.backlog {
			f.backlog[i] = &delivery{}
		}
	}
	c.feeds = []*feed{queue, one, two}
	var order []*feed
	for {
		f, d := c.next()
		if d == nil {
			break
		}
		order = append(order, f)
	}
	require.Equal(t, []*feed{queue, one, two, queue, one, queue}, order, "crowds leave one slot of four to the queue")
	c.crowded--
	f, _ := c.next()
	require.Same(t, one, f)
	require.Zero(t, newCrew(1).spare, "the only slot is everybody's")
}

// TestHighPriorityHasMostTurns: seven of eight, where others wait. A crowd of it has no more
// than the others.
func TestHighPriorityHasMostTurns(t *testing.T) {
	t.Parallel()
	c := newCrew(1000)
	feed := func(high, crowded bool) *feed {
		f := &feed{crew: c, running: &sync.WaitGroup{}, high: high}
		if crowded {
			f.crowd = &crowd{}
		}
		for range 40 {
			f.backlog = append(f.backlog, &delivery{})
		}
		c.join(f)
		return f
	}
	normal, high, crowdOfHigh := feed(false, false), feed(true, false), feed(false, true)
	taken := map[string]int{}
	var order []string
	for {
		f, d := c.next()
		if d == nil {
			break
		}
		name := map[any]string{normal: "normal", high: "high", crowdOfHigh: "crowd"}[f]
		taken[name]++
		order = append(order, name)
	}
	require.Equal(t, []string{"high", "high", "high", "high", "high", "high", "high", "normal", "high"}, order[:9])
	require.Equal(t, "crowd", order[15], "the others take turns")
	require.Equal(t, map[string]int{"normal": 40, "high": 40, "crowd": 40}, taken)
	c.mu.Lock()
	c.leave(high)
	c.mu.Unlock()
	require.Len(t, c.feeds, 2)
}
