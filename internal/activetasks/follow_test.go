package activetasks

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

func nothing(schemas.Record) bool { return true }

// TestCatchUp knows everything that was on the log, though the feed says nothing, and late news of what has ended bring
// nothing back.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{Check: time.Hour})
	var late []schemas.Record
	p.set(func(p *paper) { p.deaf = func(r schemas.Record) bool { late = append(late, r); return true } })
	var want []string
	for i := range page + 20 {
		id := "task" + strconv.Itoa(i)
		p.open(id)
		want = append(want, id)
	}
	require.Empty(t, b.queue("t"))
	require.Equal(t, want, b.caughtUp(t).queue("t"))
	p.lease("task3", 1, "k")
	e, held := b.caughtUp(t).Held("t", "k")
	require.True(t, held)
	require.Equal(t, "task3", e.Ref.ID)
	p.settle("task3")
	b.caughtUp(t)
	require.Len(t, b.tasks, page+19)
	for _, r := range late {
		b.hear(r)
	}
	require.Len(t, b.tasks, page+19)
}

// TestCheckFindsWhatTheFeedMissed in its time, and says when it cannot.
func TestCheckFindsWhatTheFeedMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		p := newPaper(t)
		p.deaf = nothing
		b := p.start(Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		defer b.Stop()
		p.open("one")
		pass(2*time.Second - time.Millisecond)
		require.Empty(t, b.queue("t"))
		pass(time.Millisecond)
		require.Equal(t, []string{"one"}, b.queue("t"))

		p.set(func(p *paper) { p.down = fault.ErrUnavailable })
		require.ErrorIs(t, b.CatchUp(t.Context()), fault.ErrUnavailable)
		pass(10 * time.Second)
		require.Equal(t, []string{"one"}, b.queue("t"), "what is known is shown")
		p.set(func(p *paper) { p.down = nil })
		pass(2 * time.Second)
		require.Regexp(t, `(?s)^[^\n]*store_unreachable[^\n]*\n[^\n]*store_reachable[^\n]*\n$`, logged.String())
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// aside files a task whose order lies aside, and returns where.
func (p *paper) aside(id, text string) (name string) {
	p.tb.Helper()
	name, err := p.PutBlob(p.tb.Context(), "t", []byte(text))
	require.NoError(p.tb, err)
	p.accept(id, schemas.Action{PayloadBlob: name})
	p.opened(id)
	return name
}

// TestOrdersAside are read from where they lie.
func TestOrdersAside(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	p.aside("before", `{"description":"long","pool":"ci"}`)
	b := p.start(Config{})
	require.Equal(t, []string{"before"}, b.queue("t", "ci"))
	p.aside("after", `{"pool":"ci"}`)
	p.aside("none", `{"pool":"none"}`)
	p.aside("bad", `{"pool":`)
	p.accept("gone", schemas.Action{PayloadBlob: strings.Repeat("0", 64)})
	p.opened("gone")
	p.aside("ended", `{"pool":"ci"}`)
	p.settle("ended")
	require.Equal(t, []string{"before", "after"}, b.caughtUp(t).queue("t"))
	require.Empty(t, b.aside)
	require.Len(t, b.tasks, 3)

	changed := b.Changed("t")
	p.aside("last", `{"pool":"default"}`)
	b.caughtUp(t)
	require.True(t, shut(changed))
	require.Equal(t, []string{"last"}, b.queue("t", "default"))
}

// TestTheLogIsWalkedOnce: what others have written is not looked through again and again
// for a task.
func TestTheLogIsWalkedOnce(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{Check: time.Hour})
	p.open("one")
	part := layout.Partition("t", "one")
	stream := schemas.LogStream(part)
	noise := func() uint64 {
		for i := range 10 {
			r := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "call" + strconv.Itoa(i)}
			subject := strings.Replace(layout.Subject(r, schemas.SectionWake), "weir.log."+strconv.Itoa(layout.Partition("t", r.ID)), "weir.log."+strconv.Itoa(part), 1)
			_, err := p.Append(t.Context(), schemas.Append{Subject: subject})
			require.NoError(t, err)
		}
		_, last, err := p.Log.Bounds(t.Context(), stream)
		require.NoError(t, err)
		return last
	}
	first := noise()
	b.caughtUp(t)
	p.set(func(p *paper) { p.walks = nil })
	b.caughtUp(t)
	require.Empty(t, p.walks, "nothing was written since")
	noise()
	b.caughtUp(t)
	require.Equal(t, []uint64{first + 1}, p.walks, "from the end of what was read, whoever wrote that")
	p.set(func(p *paper) { p.deaf = nothing })
	p.lease("one", 1, "k")
	require.Empty(t, b.caughtUp(t).queue("t"))
}

// TestAPartitionWithoutALeader keeps no other from being read.
func TestAPartitionWithoutALeader(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{Check: time.Hour})
	p.set(func(p *paper) { p.deaf = nothing })
	for part := range layout.Partitions {
		p.set(func(p *paper) { p.silent = schemas.LogStream(part) })
		id := ""
		for i := 0; id == "" || layout.Partition("t", id) == part; i++ {
			id = "task" + strconv.Itoa(part) + "." + strconv.Itoa(i)
		}
		p.open(id)
		require.ErrorIs(t, b.CatchUp(t.Context()), fault.ErrUnavailable)
		require.Contains(t, b.queue("t"), id)
	}
}

// TestTheLogIsShorterThanItWas: a leader that has not seen all that was read, or a log that
// was lost. What is written from there on is read.
func TestTheLogIsShorterThanItWas(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{Check: time.Hour})
	p.open("one")
	b.caughtUp(t)
	p.set(func(p *paper) { p.behind, p.deaf = 2, nothing })
	require.ErrorIs(t, b.CatchUp(t.Context()), fault.ErrUnavailable, "nobody knows what was stored")
	p.set(func(p *paper) { p.behind = 0 })
	p.open("two")
	require.ElementsMatch(t, []string{"one", "two"}, b.caughtUp(t).queue("t"))
}

// TestWhatNobodyCanRead hides a task, or what became of it, and harms no other.
func TestWhatNobodyCanRead(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		p := newPaper(t)
		b := p.start(Config{Check: time.Hour})
		if deaf {
			p.set(func(p *paper) { p.deaf = nothing })
		}
		p.spoilt("never", schemas.SectionAccepted, "{")
		p.opened("never")
		p.accept("no order", schemas.Action{Payload: []byte(`[]`)})
		p.opened("no order")
		p.open("one", "two", "three")
		p.spoilt("one", schemas.SectionWake, "{")
		p.lease("one", 1, "k")
		p.spoilt("two", schemas.SectionEvent, broken)
		p.spoilt("three", schemas.SectionWake, `{"v":1,"n":2,"type":"started"}`) // not what its subject says
		p.spoilt("three", schemas.SectionEvent, broken)
		_, err := p.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref("three"), schemas.SectionWake)})
		require.NoError(t, err)
		_, err = p.Append(t.Context(), schemas.Append{Subject: "weir.log.0.accepted.t.task.%", Data: []byte(`{"v":1}`)})
		require.NoError(t, err)
		require.Empty(t, b.caughtUp(t).queue("t"))
		e, held := b.Held("t", "k")
		require.True(t, held, "an event behind one that cannot be read still counts")
		require.Equal(t, "one", e.Ref.ID)
		require.Len(t, b.tasks, 1)
	}
}

// TestHistoryDropsATask that nobody has ended: nobody can any more.
func TestHistoryDropsATask(t *testing.T) {
	t.Parallel()
	p := newPaper(t)
	b := p.start(Config{Check: time.Hour})
	p.open("old", "held")
	p.lease("held", 1, "k")
	over, forget := b.Over(ref("held"), 1)
	defer forget()
	for part := range layout.Partitions {
		_, last, err := p.Log.Bounds(t.Context(), schemas.LogStream(part))
		require.NoError(t, err)
		p.Purge(schemas.LogStream(part), last+1)
	}
	p.open("new")
	require.Equal(t, []string{"new"}, b.caughtUp(t).queue("t"))
	_, held := b.Held("t", "k")
	require.False(t, held)
	require.True(t, shut(over))
	require.Len(t, b.tasks, 1)
}

// TestWhateverTheFeedLoses, a board that has caught up shows what one shows that has
// just read it all.
func TestWhateverTheFeedLoses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			p := newPaper(t)
			b := p.start(Config{Check: 10 * time.Millisecond})
			p.set(func(p *paper) { p.deaf = func(schemas.Record) bool { return rnd.IntN(4) == 0 } })
			step(t, p, rnd, 150)
			b.caughtUp(t)
			want := p.start(Config{Check: time.Hour})
			for _, tenant := range []string{"t", "u"} {
				require.Equal(t, want.Leasable(tenant, of(), 1000), b.Leasable(tenant, of(), 1000))
				for holder := range 3 {
					k := strconv.Itoa(holder)
					e, ok := want.Held(tenant, k)
					e2, ok2 := b.Held(tenant, k)
					require.Equal(t, e, e2)
					require.Equal(t, ok, ok2)
				}
			}
			require.Len(t, b.tasks, len(want.tasks))
		})
	}
}

// step does something to some tasks, sensible or not.
func step(t *testing.T, p *paper, rnd *rand.Rand, times int) {
	t.Helper()
	settled := map[string]bool{}
	for range times {
		id := []string{"t/", "u/"}[rnd.IntN(2)] + strconv.Itoa(rnd.IntN(8))
		n, k := 1+rnd.IntN(3), strconv.Itoa(rnd.IntN(3))
		p.mu.Lock()
		known := p.files[ref(id)] != nil
		p.mu.Unlock()
		if settled[id] {
			continue
		}
		if !known {
			p.file(id, []string{"default", "ci", "none"}[rnd.IntN(3)])
			continue
		}
		switch rnd.IntN(12) {
		case 0, 1, 2:
			p.tell(id, schemas.TaskEvent{What: schemas.TaskOpened})
		case 3, 4, 5:
			p.lease(id, n, k)
		case 6, 7:
			p.lose(id, n)
		case 8:
			p.tell(id, schemas.TaskEvent{What: schemas.TaskClaimed})
		case 9:
			p.spoilt(id, []schemas.Section{schemas.SectionEvent, schemas.SectionWake}[rnd.IntN(2)], "{")
		case 10:
			p.write(id, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`{}`)})
		case 11:
			p.settle(id)
			settled[id] = true
		}
	}
}
