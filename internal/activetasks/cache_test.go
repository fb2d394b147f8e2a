package activetasks

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	folding "weir/internal/task"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestLeasable(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	p.open("one", "u/other")
	b := p.start(Config{})
	require.Equal(t, []string{"one"}, b.queue("t"), "what was there before it began")
	p.open("two", "three")
	p.file("new", schemas.PoolDefault)
	p.file("pooled", "ci")
	p.opened("pooled")
	p.file("own", schemas.PoolNone)
	p.opened("own")
	p.open("claimed")
	p.tell("claimed", schemas.TaskEvent{What: schemas.TaskClaimed})
	p.open("canceled")
	p.write("canceled", schemas.Event{Type: schemas.EventCancel})
	require.Equal(t, []string{"one", "two", "three", "pooled"}, b.queue("t"), "as the feed tells it")
	require.Equal(t, []string{"pooled"}, b.queue("t", "ci", "other"))
	require.Equal(t, []string{"one", "two", "three"}, b.queue("t", schemas.PoolDefault))
	require.Empty(t, b.queue("t", schemas.PoolNone))
	require.Empty(t, b.queue("nobody"))
	require.Equal(t, []string{"other"}, b.queue("u"), "each tenant's own")
	require.Len(t, b.Leasable("t", of(), 2), 2)
	require.Empty(t, b.Leasable("t", of(), 0))
	p.opened("new")
	require.Equal(t, []string{"one", "two", "three", "new", "pooled"}, b.queue("t"), "by when they came")

	e := b.Leasable("t", of("ci"), 1)[0]
	require.Equal(t, ref("pooled"), e.Ref)
	require.Equal(t, "ci", e.Pool)
	require.True(t, e.Leasable)
	require.Equal(t, 8*time.Hour, e.Deadline.Sub(e.Accepted))
	require.Zero(t, e.Lease)

	again := p.start(Config{})
	require.Equal(t, b.queue("t"), again.queue("t"), "and as the log does")
}

// TestPastDeadlines: what has passed its deadline is not leasable, nor held, though no worker has
// ended it yet.
func TestPastDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPaper(t)
		b := p.start(Config{Check: time.Hour})
		defer b.Stop()
		p.open("one", "two")
		p.lease("one", 1, "k")
		for after, open := range []bool{true, false} {
			_, held := b.Held("t", "k")
			require.Equal(t, open, held, after)
			require.Equal(t, open, len(b.queue("t")) == 1, after)
			pass(8 * time.Hour)
		}
	})
}

func TestALeaseAndItsEnd(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	p.open("one", "two", "three", "u/one")
	_, held := b.Held("t", "k1")
	require.False(t, held)
	p.lease("two", 1, "k1")
	p.lease("one", 1, "k1")
	p.lease("three", 1, "k2")
	e, held := b.Held("t", "k1")
	require.True(t, held)
	require.Equal(t, Entry{Ref: ref("one"), Accepted: e.Accepted, Deadline: e.Deadline, Pool: schemas.PoolDefault, Lease: 1, Holder: "k1", Leased: true}, e, "the oldest")
	for _, who := range [][2]string{{"u", "k1"}, {"t", ""}, {"t", "k3"}, {"nobody", "k1"}} {
		_, held = b.Held(who[0], who[1])
		require.False(t, held, who)
	}
	require.Empty(t, b.queue("t"))
	p.lease("one", 2, "k3") // too late: it is not queued
	_, held = b.Held("t", "k3")
	require.False(t, held)
	p.lose("one", 1)
	require.Equal(t, []string{"one"}, b.queue("t"))
	e, _ = b.Held("t", "k1")
	require.Equal(t, "two", e.Ref.ID)
	p.lease("one", 2, "k2")
	e, _ = b.Held("t", "k2")
	require.Equal(t, "one", e.Ref.ID)
	require.Equal(t, 2, e.Lease)
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReleased, Lease: 2})
	e, _ = b.Held("t", "k2")
	require.Equal(t, "three", e.Ref.ID)
	p.report("two")
	_, held = b.Held("t", "k1")
	require.False(t, held, "a task that has ended is nobody's")
	for _, id := range []string{"one", "two", "three", "u/one"} {
		p.settle(id)
	}
	require.Empty(t, b.tasks)
	require.Empty(t, b.lists)
}

func TestChanged(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	changed, other := b.Changed("t"), b.Changed("u")
	require.Equal(t, changed, b.Changed("t"))
	p.file("one", schemas.PoolDefault)
	require.False(t, shut(changed), "it cannot be leased yet")
	p.opened("one")
	require.True(t, shut(changed))
	require.False(t, shut(other))
	changed = b.Changed("t")
	p.lease("one", 1, "k")
	require.False(t, shut(changed))
	p.lose("one", 1)
	require.True(t, shut(changed))
	changed = b.Changed("t")
	p.write("one", schemas.Event{Type: schemas.EventCancel})
	p.settle("one")
	require.False(t, shut(changed))
}

func TestOver(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(p *paper, id string){
		"reported": (*paper).report, "settled": (*paper).settle,
		"canceled": func(p *paper, id string) { p.write(id, schemas.Event{Type: schemas.EventCancel}) },
		"damaged":  func(p *paper, id string) { p.spoilt(id, schemas.SectionEvent, broken) },
	}, func(t *testing.T, end func(p *paper, id string)) {
		p := newPaper(t)
		b := p.start(Config{})
		p.open("own", "pool")
		p.tell("own", schemas.TaskEvent{What: schemas.TaskClaimed})
		p.lease("pool", 1, "k")
		own, forget := b.Over(ref("own"), 0)
		defer forget()
		pool, forget := b.Over(ref("pool"), 1)
		defer forget()
		p.tell("own", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: "y"})
		p.tell("pool", schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: 1, Text: "?"}})
		p.tell("pool", schemas.TaskEvent{What: schemas.TaskPushed, Head: "h", Push: "p"})
		require.False(t, shut(own))
		require.False(t, shut(pool))
		end(p, "own")
		b.caughtUp(t) // what cannot be read is not taken from the feed
		require.True(t, shut(own))
		require.False(t, shut(pool))
		end(p, "pool")
		b.caughtUp(t)
		require.True(t, shut(pool))
		require.Empty(t, b.watch)
	})
}

// TestLost: the holder of a task's token loses it by another token, and by the end of the task.
func TestLost(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	p.open("one", "two")
	first := folding.Token{Tenant: "t", ID: "one"}
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: first.Hash()})
	lost, forget := b.Lost(first)
	defer forget()
	p.tell("one", schemas.TaskEvent{What: schemas.TaskClaimed})
	require.False(t, shut(lost))
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: "y"})
	require.True(t, shut(lost))
	late, forget := b.Lost(first)
	defer forget()
	require.True(t, shut(late))
	second := folding.Token{Tenant: "t", ID: "two"}
	p.tell("two", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: second.Hash()})
	ended, forget := b.Lost(second)
	defer forget()
	p.report("two")
	require.True(t, shut(ended))
}

// TestASubtokenIsLost with the token that it was made with, and is not before the board has heard of it.
func TestASubtokenIsLost(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	p.open("one")
	own, child := folding.Token{Tenant: "t", ID: "one"}, folding.New("t", "one", 0, [32]byte{1})
	child.Subtoken = 1
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: own.Hash()})
	lost, forget := b.Lost(child)
	defer forget()
	require.False(t, shut(lost), "another node made it")
	p.tell("one", schemas.TaskEvent{What: schemas.TaskSubtoken, TokenHash: child.Hash(), Subtoken: &schemas.Subtoken{N: 1}})
	require.False(t, shut(lost))
	forged, forget := b.Lost(folding.Token{Tenant: "t", ID: "one", Subtoken: 1})
	defer forget()
	require.True(t, shut(forged))
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: "y"})
	require.True(t, shut(lost))
}

func TestOverWithALease(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	p.open("one")
	own, forget := b.Over(ref("one"), 0)
	defer forget()
	first, forget := b.Over(ref("one"), 1) // another node gave it out: its news are on their way
	defer forget()
	third, forget := b.Over(ref("one"), 3)
	defer forget()
	require.False(t, shut(first))
	p.lease("one", 1, "k")
	require.True(t, shut(own), "the own token is dead")
	require.False(t, shut(first))
	p.lose("one", 1)
	require.True(t, shut(first))
	p.lease("one", 2, "k")
	second, forget := b.Over(ref("one"), 2)
	old, none := b.Over(ref("one"), 1)
	none()
	require.True(t, shut(old), "known already")
	require.False(t, shut(third))
	forget()
	forget()
	p.report("one")
	require.False(t, shut(second), "forgotten")
	require.True(t, shut(third))

	early, forget := b.Over(ref("two"), 0)
	defer forget()
	p.open("two")
	require.False(t, shut(early), "what nobody has heard of may still come")
	p.settle("two")
	require.True(t, shut(early))
}

// TestTextsAreNotKept: an order, a question and an answer may have hundreds of
// kilobytes each.
func TestTextsAreNotKept(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{})
	long := strings.Repeat("x", 1000)
	p.order("one", schemas.TaskOrder{Description: long, Repo: "r", Pool: schemas.PoolDefault, Metadata: map[string]string{"a": long}})
	p.opened("one")
	p.lease("one", 1, "k")
	p.tell("one", schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: 1, Text: long}})
	p.tell("one", schemas.TaskEvent{What: schemas.TaskAnswered, Inquiry: &schemas.TaskInquiry{N: 1, Text: long}})
	s := b.tasks[ref("one")].state
	require.Equal(t, schemas.TaskOrder{Pool: schemas.PoolDefault}, s.Order)
	require.Empty(t, s.Inquiries)
	p.tell("one", schemas.TaskEvent{What: schemas.TaskReported, Report: &schemas.TaskReport{Description: long, Reason: long}})
	require.Equal(t, &schemas.TaskReport{}, s.Report)
	require.Equal(t, schemas.TaskStatusFailed, s.Status)
}
