package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestFollowFromEveryPosition(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a, other := n.claim("a"), n.claim("b")
	other.whole(3)
	a.whole(200) // more than one read brings
	a.append(schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}})
	all := a.seqs()
	for i, after := range append([]uint64{0}, all...) {
		got, err := drain(t.Context(), n.follow(after))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(all[i:]), fmt.Sprint(got), "after %d", after)
	}
}

func TestFollowJoinsAtAnyMoment(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got [][]uint64
	join := func() {
		r := n.follow(0)
		wg.Go(func() {
			defer r.Close()
			seqs, err := drain(context.Background(), r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got = append(got, seqs)
			}
		})
	}
	join()
	a.start()
	join()
	a.attempt()
	for range 30 {
		join()
		a.progress(`1`)
	}
	join()
	a.settle(`1`)
	join()
	wg.Wait()
	require.Len(t, got, 34)
	for _, seqs := range got {
		require.Equal(t, a.seqs(), seqs)
	}
}

func TestGapIsFilledFromTheLog(t *testing.T) {
	t.Parallel()
	for name, resumed := range map[string]bool{"in the middle": false, "where it was resumed": true} {
		n := newNode(t, stream.Config{})
		a := n.claim("a")
		a.start()
		after, want := uint64(0), 0
		if resumed {
			a.wake() // the newest record tells no ordinal
			after, want = a.st.Seq, 2
		}
		r := n.follow(after)
		n.dropping(func(rec schemas.Record) bool { return strings.Contains(string(rec.Data), `"gap"`) })
		a.progress(`"gap"`)
		a.progress(`"gap"`)
		a.progress(`"seen"`)
		a.settle(`1`)
		got, err := drain(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, a.seqs()[want:], got, name)
	}
}

func TestLostAndOverflowReadTheLog(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]stream.Config{
		"events": {},
		"bytes":  {},
		"held":   {HeldEvents: 2, Barrier: func(context.Context) error { return nil }},
		"lost":   {},
	} {
		n := newNode(t, cfg)
		a := n.claim("a")
		r := n.follow(0)
		a.start()
		if name == "lost" {
			n.dropping(everything)
		}
		data := `"x"`
		if name == "bytes" {
			data = `"` + strings.Repeat("x", 16<<10) + `"`
		}
		for range 300 {
			a.progress(data)
		}
		a.settle(`1`)
		if name == "lost" {
			n.log.Lose()
		}
		got, err := drain(t.Context(), r)
		require.NoError(t, err, name)
		require.Equal(t, a.seqs(), got, name)
	}
}

func TestReaderOutlivesALogThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		r := n.follow(0)
		n.dropping(everything)
		a.whole(1)
		away := fault.ErrUnavailable
		n.fail.Store(&away)
		n.log.Lose()
		go func() {
			<-time.After(3 * time.Second)
			n.fail.Store(nil)
		}()
		got, err := drain(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, a.seqs(), got)
	})
}

func TestBarrierBatchesAndKeepsOrder(t *testing.T) {
	t.Parallel()
	g := newGate()
	n := newNode(t, stream.Config{Barrier: g.pass})
	free := n.claim("free")
	held := n.claim("held")
	// Both are followed from their first event, whose reading passes a barrier.
	got := make(chan *stream.Reader, 2)
	for _, id := range []string{"free", "held"} {
		go func() {
			r, err := n.feed.Follow(context.Background(), ref(id), 0)
			if err == nil {
				got <- r
			}
		}()
		<-g.began
		g.open <- struct{}{}
	}
	readers := map[string]*stream.Reader{}
	for range 2 {
		r := <-got
		defer r.Close()
		items, err := r.Next(t.Context(), nil)
		require.NoError(t, err)
		readers[items[0].Ref.ID] = r
	}
	held.start()
	<-g.began // a sync runs: what comes now waits for the next one
	held.attempt()
	held.progress(`"must not overtake"`)
	held.attempted()
	free.progress(`"needs no barrier"`)

	items, err := readers["free"].Next(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, schemas.EventProgress, items[0].Event.Type)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = readers["held"].Next(ctx, nil)
	require.ErrorIs(t, err, context.Canceled, "nothing of the held action may be shown")

	g.open <- struct{}{}
	items, err = readers["held"].Next(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, items, 1)
	<-g.began
	g.open <- struct{}{}
	var types []schemas.EventType
	for len(types) < 3 {
		items, err = readers["held"].Next(t.Context(), nil)
		require.NoError(t, err)
		for _, it := range items {
			types = append(types, it.Event.Type)
		}
	}
	require.Equal(t, []schemas.EventType{schemas.EventAttempt, schemas.EventProgress, schemas.EventAttempted}, types)
	require.EqualValues(t, 4, g.calls.Load(), "three queued events share one barrier")
}

// TestTheFirstOfAnAnswerPassesABarrier, as it comes and from the log; what is behind it needs none.
func TestTheFirstOfAnAnswerPassesABarrier(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]bool{"as it comes": true, "from the log": false} {
		g := newGate()
		close(g.open)
		n := newNode(t, stream.Config{Barrier: g.pass})
		a := n.claim("a")
		var r *stream.Reader
		if live {
			r = n.follow(a.st.Seq)
		}
		read := func(barriers int64, first bool) {
			t.Helper()
			before := g.calls.Load()
			after := a.st.Seq
			if a.delta(first); !live {
				r = n.follow(after)
			}
			items, err := r.Next(t.Context(), nil)
			require.NoError(t, err)
			require.Equal(t, []any{1, first, barriers}, []any{len(items), items[0].Event.First, g.calls.Load() - before}, name)
			if !live {
				r.Close()
			}
		}
		read(1, true)
		for range 10 {
			read(0, false)
		}
	}
}

// TestWhatIsNotReservedPassesABarrier: an event that needs none by itself waits for one
// all the same while its place could become another's; so does a position.
func TestWhatIsNotReservedPassesABarrier(t *testing.T) {
	t.Parallel()
	g := newGate()
	close(g.open)
	var reserved atomic.Uint64
	n := newNode(t, stream.Config{Barrier: g.pass, Reserved: func(_ string, seq uint64) bool { return seq <= reserved.Load() }})
	a := n.claim("a")
	r := n.follow(0)
	_, err := r.Next(t.Context(), nil)
	require.NoError(t, err)
	passed := func(barriers int64) {
		t.Helper()
		before := g.calls.Load()
		a.progress(`1`)
		items, err := r.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 1)
		require.Equal(t, barriers, g.calls.Load()-before)
	}
	passed(1)
	reserved.Store(r.Position() + 1)
	passed(0)
	passed(1)

	before := g.calls.Load()
	other, err := n.feed.Follow(t.Context(), ref("a"), r.Position())
	require.NoError(t, err)
	other.Close()
	require.Equal(t, before, g.calls.Load(), "what is known to be durable costs nothing")
	a.wake() // shown to nobody, but its place is
	other, err = n.feed.Follow(t.Context(), ref("a"), 0)
	require.NoError(t, err)
	require.Greater(t, other.Position(), r.Position())
	other.Close()
	require.Equal(t, before+1, g.calls.Load())
}

func TestPositionsThatCannotBeResumed(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.whole(3)
	seqs := a.seqs()
	last := seqs[len(seqs)-1]
	name := schemas.LogStream(layout.Partition("acme", "a"))

	_, err := n.feed.Follow(t.Context(), ref("a"), last+1)
	require.ErrorIs(t, err, stream.ErrBeyond)
	_, err = n.feed.Follow(t.Context(), ref("nobody"), 0)
	require.ErrorIs(t, err, fault.ErrNotFound)
	require.True(t, n.follow(last).Ended())

	n.log.Purge(name, seqs[2])
	gone := func(err error, earliest string) {
		t.Helper()
		require.ErrorIs(t, err, fault.ErrGone)
		require.Equal(t, earliest, problem.Of(err).EarliestID)
	}
	for _, after := range []uint64{0, seqs[0]} {
		_, err = n.feed.Follow(t.Context(), ref("a"), after)
		gone(err, strconv.FormatUint(seqs[2], 10))
	}
	for _, after := range []uint64{seqs[2] - 1, seqs[2], seqs[1]} {
		_, err := drain(t.Context(), n.follow(after))
		require.NoError(t, err, "after %d", after)
	}
	n.log.Purge(name, last+1)
	_, err = n.feed.Follow(t.Context(), ref("a"), seqs[0])
	gone(err, "")
	_, err = n.feed.Follow(t.Context(), ref("a"), 0)
	require.ErrorIs(t, err, fault.ErrNotFound)
	require.Zero(t, n.feed.Watching()-4, "the readers that opened, and no other")
}

func TestRecordsOfAnotherVersionKeepTheirPlace(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	live := n.follow(0)
	put := func(data string) {
		_, err := n.log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref("a"), schemas.SectionEvent), Data: []byte(data)})
		require.NoError(t, err)
	}
	put(`{"v":2,"n":2,"type":"teleported","time":"2026-01-02T03:04:05Z","secret":1}`)
	put(`{"v":2,"n":3,"type":"bad\nevent: x","time":"2026-01-02T03:04:05Z"}`)
	put(`garbage`)
	_, err := n.log.Append(t.Context(), schemas.Append{
		Subject: layout.Subject(ref("a"), schemas.SectionEvent),
		Data:    []byte(`{"v":1,"n":5,"type":"settled","time":"2026-01-02T03:04:05Z","settled":{"outcome":"failed","attempts":0}}`),
	})
	require.NoError(t, err)
	for _, r := range []*stream.Reader{live, n.follow(0)} {
		var types []string
		for it, err := range r.All(t.Context()) {
			require.NoError(t, err)
			types = append(types, string(it.Event.Type))
			require.NotContains(t, string(it.JSON()), "secret")
			require.Equal(t, 4, strings.Count(string(it.Frame()), "\n"))
		}
		require.Equal(t, []string{"accepted", "teleported", "unknown", "unknown", "settled"}, types)
	}
	_ = a
}

func TestHistoryThatRunsAwayEndsTheReader(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	r := n.follow(0)
	_, err := r.Next(t.Context(), nil)
	require.NoError(t, err)
	n.dropping(everything)
	a.whole(3)
	n.log.Purge(schemas.LogStream(layout.Partition("acme", "a")), a.seqs()[2])
	n.log.Lose()
	_, err = drain(t.Context(), r)
	require.ErrorIs(t, err, fault.ErrGone)
}

// TestALongHistoryTakesFewReads: for each read the log counts what is left behind
// it, so that many of the same size would take a time that grows with the square.
func TestALongHistoryTakesFewReads(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	for range 5000 {
		a.progress(`1`)
	}
	a.settle(`1`)
	want := a.seqs()
	before := n.reads.Load()
	r := n.follow(0)
	require.EqualValues(t, 1, n.reads.Load()-before, "the first events are there at once")
	first, err := r.Next(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, first, 64)
	rest, err := drain(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, want[64:], rest)
	require.LessOrEqual(t, n.reads.Load()-before, int64(6))
}

// TestLargeEventsComeOneByOne: what a reader holds is bounded by bytes.
func TestLargeEventsComeOneByOne(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	big := `"` + strings.Repeat("x", 300_000) + `"`
	for range 20 {
		a.progress(big)
	}
	r := n.follow(0)
	seen := 0
	for r.Pending() {
		items, err := r.Next(t.Context(), nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(items), 3)
		seen += len(items)
	}
	require.Equal(t, 21, seen)
}

// lateLog answers reads of a history as a replica does that has not seen the
// newest writes: for a number of reads, nothing after a sequence is there. That a
// record is the newest is the leader's word.
type lateLog struct {
	*memlog.Log
	after uint64
	reads atomic.Int64
}

func (l *lateLog) Page(ctx context.Context, name, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	records, more, err := l.Log.Page(ctx, name, filter, from, limit, size)
	if l.reads.Add(-1) < 0 {
		return records, more, err
	}
	for i, r := range records {
		if r.Seq > l.after {
			return records[:i], false, err
		}
	}
	return records, more, err
}

// A stream that is read from a replica that is late begins, goes on and ends all
// the same, and no client receives an early end.
func TestLateReplica(t *testing.T) {
	t.Parallel()
	type testCase struct {
		shown, resume int
		within        time.Duration
	}
	table.Bubble(t, map[string]testCase{
		"not there yet":          {0, 0, time.Second},
		"the beginning is there": {2, 0, 20 * time.Second}, // found by the look that a silent stream takes now and then
		"resumed where it ends":  {3, 3, time.Second},
		"resumed past it":        {2, 4, time.Second},
		"only the end is hidden": {7, 7, time.Second},
	}, func(t *testing.T, c testCase) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		a.whole(3)
		seqs := a.seqs()
		log := &lateLog{Log: n.log}
		log.reads.Store(3)
		if c.shown > 0 {
			log.after = seqs[c.shown-1]
		}
		feed, err := stream.Open(log, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		defer feed.Close()
		after := uint64(0)
		if c.resume > 0 {
			after = seqs[c.resume-1]
		}
		begun := time.Now()
		reader, err := feed.Follow(t.Context(), ref("a"), after)
		require.NoError(t, err)
		defer reader.Close()
		require.False(t, reader.Ended())
		got, err := drain(t.Context(), reader)
		require.NoError(t, err)
		require.Equal(t, seqs[c.resume:], got)
		require.Less(t, time.Since(begun), c.within)
	})
}

// droppedLog is a late replica whose leader does not have what it does not show.
type droppedLog struct{ *lateLog }

func (droppedLog) Next(context.Context, string, string, uint64) (schemas.Record, error) {
	return schemas.Record{}, fault.ErrNotFound
}

// What is known to have been there, and is not shown any more, is not waited for
// for ever.
func TestReplicaThatNeverCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		defer n.feed.Close()
		a := n.claim("a")
		a.start()
		log := &lateLog{Log: n.log, after: a.seqs()[0]}
		log.reads.Store(1 << 40)
		feed, err := stream.Open(droppedLog{log}, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		defer feed.Close()
		reader, err := feed.Follow(t.Context(), ref("a"), log.after)
		require.NoError(t, err)
		defer reader.Close()
		require.True(t, reader.Pending())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = reader.Next(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, int64(1<<40)-log.reads.Load(), int64(1000), "it asks and asks")
	})
}

// TestFanOutAllocatesOnlyThePerViewerBuffer pins what a viewer adds: the event
// is decoded and rendered once, whoever watches.
//
//nolint:paralleltest // other tests' allocations would be counted
func TestFanOutAllocatesOnlyThePerViewerBuffer(t *testing.T) {
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	const viewers = 200
	readers := make([]*stream.Reader, viewers)
	for i := range readers {
		readers[i] = n.follow(a.st.Seq)
	}
	step := func() {
		a.progress(`1`)
		for _, r := range readers {
			items, err := r.Next(context.Background(), nil)
			if err != nil || len(items) != 1 || !strings.HasPrefix(string(items[0].Frame()[:4]), "id: ") {
				t.Fatal("no event")
			}
		}
	}
	step()
	perViewer := testing.AllocsPerRun(20, step) / viewers
	require.Less(t, perViewer, 1.5)
}

// An idle stream begins at once, also where a replica is late with a record that nobody is shown.
func TestALateNotification(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.start()
	a.wake()
	log := &lateLog{Log: n.log, after: a.seqs()[1]}
	log.reads.Store(1 << 40)
	feed, err := stream.Open(log, n, stream.Config{Layout: layout, HTTP: stream.HTTP{KeepAlive: time.Hour}})
	require.NoError(t, err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { feed.Serve(w, r, "acme", "a") }))
	t.Cleanup(srv.Close)
	t.Cleanup(feed.Close)
	require.Equal(t, http.StatusOK, get(t, srv.URL, "Last-Event-ID", a.ids()[1]).StatusCode)
}

// A reader that is shown nothing of a frame does not write its comments into what others share.
func TestNothingOfASharedFrame(t *testing.T) {
	t.Parallel()
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	a.start()
	a.delta(true)
	n.feed.By(stream.HTTP{KeepAlive: time.Millisecond})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.feed.AnswerAs(w, r, stream.Dialect{
			Ref: ref("a"),
			Frame: func(context.Context, *stream.Item) ([]byte, error) {
				return append(make([]byte, 0, 64), "data: 1\n\n"...), nil
			},
			Pick:   func(frame []byte) []byte { return frame[len(frame):] },
			Answer: true, Ended: []byte{},
		})
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(n.feed.Close)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			lines := bufio.NewReader(get(t, srv.URL).Body)
			for range 8 {
				line, _ := lines.ReadString('\n')
				assert.True(t, line == "\n" || strings.HasPrefix(line, ":"), "%q", line)
			}
		})
	}
	wg.Wait()
}

// awayLog does not answer.
type awayLog struct {
	*memlog.Log
	page, newest atomic.Bool
}

func (l *awayLog) Page(ctx context.Context, name, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	if l.page.Load() {
		return nil, false, fault.ErrUnavailable
	}
	return l.Log.Page(ctx, name, filter, from, limit, size)
}

func (l *awayLog) Newest(ctx context.Context, name, filter string) (schemas.Record, error) {
	if l.newest.Load() {
		return schemas.Record{}, fault.ErrUnavailable
	}
	return l.Log.Newest(ctx, name, filter)
}

// A log that does not answer neither holds up a drain, nor makes a position wrong.
func TestTheLogIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, stream.Config{})
		a := n.claim("a")
		a.whole(1)
		a.wake()
		open := n.claim("b")
		open.start()
		log := &awayLog{Log: n.log}
		feed, err := stream.Open(log, n, stream.Config{Layout: layout})
		require.NoError(t, err)
		defer feed.Close()
		each := func(id string, after uint64) error {
			return feed.Each(t.Context(), ref(id), after, nil, func(*stream.Item) (bool, error) { return true, nil })
		}
		log.newest.Store(true)
		seqs := a.seqs()
		require.ErrorIs(t, each("a", seqs[len(seqs)-1]+1), fault.ErrUnavailable)
		log.newest.Store(false)
		ended := make(chan error)
		go func() { ended <- each("b", 0) }()
		synctest.Wait()
		log.page.Store(true)
		log.newest.Store(true)
		feed.EndWaits()
		require.ErrorIs(t, <-ended, stream.ErrClosed)
	})
}
