package index_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/egress/index"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// step of a program: what to do, and to which of the actions that are there.
type step struct {
	do, which int
	kind      schemas.Kind
	entry     string
	outcome   schemas.Outcome
	code      schemas.Code
}

func programs() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		return step{
			do: rapid.IntRange(0, 12).Draw(r, "do"), which: rapid.IntRange(0, 1000).Draw(r, "which"),
			kind:    rapid.SampledFrom(schemas.Kinds()).Draw(r, "kind"),
			entry:   rapid.SampledFrom([]string{"", "github", "gitlab"}).Draw(r, "entry"),
			outcome: rapid.SampledFrom(schemas.Outcomes()).Draw(r, "outcome"),
			code:    rapid.SampledFrom([]schemas.Code{"", schemas.DenyHost}).Draw(r, "code"),
		}
	}), 20, 120)
}

// TestEqualsAFold: after any program, and whenever it was read, the index says what the
// events of each action say.
func TestEqualsAFold(t *testing.T) {
	t.Parallel()
	for seed := range 12 {
		s := open(t)
		states := s.run(programs().Example(seed))
		s.equal(states)
		s.x.Close() // and built at once
		require.NoError(t, index.Discard(s.path))
		s.start()
		s.equal(states)
		s.x.Close()
	}
}

func (s *shop) run(program []step) (states []*ledger.State) {
	s.t.Helper()
	for n, op := range program {
		var st *ledger.State
		if len(states) > 0 {
			st = states[op.which%len(states)]
		}
		switch {
		case op.do < 5:
			states = append(states, s.claim("acme", op.kind, fmt.Sprintf("a-%d", n)))
		case op.do < 11 && (st == nil || st.Settled != nil):
		case op.do < 8:
			s.attempt(st, op.entry)
		case op.do < 11:
			s.settle(st, op.outcome, op.code)
		case op.do == 11:
			s.restart()
		default:
			s.page("acme", "limit=1")
		}
	}
	return states
}

// equal compares every row, and what is counted, with the actions' own events.
func (s *shop) equal(states []*ledger.State) {
	s.t.Helper()
	var want, got []string
	by, perEntry := map[string]uint64{}, map[string]uint64{}
	for _, st := range states {
		st, err := s.led.Load(context.Background(), st.Ref)
		require.NoError(s.t, err)
		var code schemas.Code
		var entry, settled string
		name := index.StatusOpen
		if end := st.Settled; end != nil {
			code, name = end.Code, string(end.Outcome)
			if n := len(st.Attempts); n > 0 {
				entry = st.Attempts[n-1].LastWord().Entry
			}
			settled = "settled"
			perEntry[entry]++
		}
		by[name]++
		want = append(want, fmt.Sprint(st.ID, st.Kind, st.Status(), code, entry, settled, st.Action.Deadline.UnixNano()))
	}
	for cursor := ""; ; {
		page := s.page("acme", "limit=9"+cursor)
		for _, it := range page.Items {
			settled := ""
			if !it.Settled.IsZero() {
				settled = "settled"
			}
			got = append(got, fmt.Sprint(it.ID, it.Kind, it.Status, it.Code, it.Entry, settled, it.Deadline.UnixNano()))
		}
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + page.Next
	}
	slices.Reverse(want)
	require.Equal(s.t, want, got)
	count := s.page("acme", "count=true").Count
	require.Equal(s.t, by, count.By)
	require.EqualValues(s.t, len(states), count.Total)
	for _, since := range []string{"1h", "24h"} {
		stats := s.stats("acme", "by=entry&since="+since)
		require.EqualValues(s.t, len(states), stats.Total.Accepted)
		require.Equal(s.t, by[index.StatusOpen], stats.Open.Count)
		sums := map[string]uint64{}
		for _, g := range stats.Groups {
			sums[g.Name] = g.Settled
		}
		require.Equal(s.t, perEntry, sums)
		delete(by, index.StatusOpen)
		require.Equal(s.t, by, stats.Total.Outcomes)
		by[index.StatusOpen] = stats.Open.Count
		if by[index.StatusOpen] == 0 {
			delete(by, index.StatusOpen)
		}
	}
}

// TestASilentPartition holds no answer up: what the others hold is told, and that
// something is missing.
func TestASilentPartition(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	silent := ""
	s := open(t)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i))
	}
	s.x.Close()
	mute := muted{Log: s.log, of: func() string { mu.Lock(); defer mu.Unlock(); return silent }}
	s.x = index.New(mute, s.led, always{}, index.Config{Layout: layout, Path: s.path, Wait: 15 * time.Second})
	t.Cleanup(s.x.Close)
	silent = schemas.LogStream(1)
	page := s.page("acme", "limit=1000")
	require.NotZero(t, page.Behind)
	require.NotEmpty(t, page.Items)
	require.Less(t, len(page.Items), 30)
	mu.Lock()
	silent = ""
	mu.Unlock()
	page = s.page("acme", "limit=1000")
	require.Zero(t, page.Behind)
	require.Len(t, page.Items, 30)
	mu.Lock()
	silent = schemas.LogStream(1)
	mu.Unlock()
	page = s.page("acme", "limit=1000") // where they stand is not known now; that they are there is
	require.NotZero(t, page.Behind)
	require.Len(t, page.Items, 30)
}

// muted is a log of which one partition does not answer.
type muted struct {
	*memlog.Log
	of func() string
}

func (m muted) wait(ctx context.Context, stream string) error {
	if stream != m.of() {
		return nil
	}
	<-ctx.Done()
	return errors.Join(fault.ErrUnavailable, context.Cause(ctx))
}

func (m muted) Bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	if err := m.wait(ctx, stream); err != nil {
		return 0, 0, err
	}
	return m.Log.Bounds(ctx, stream)
}

func (m muted) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	if err := m.wait(ctx, stream); err != nil {
		return schemas.Record{}, err
	}
	return m.Log.Last(ctx, stream, filter)
}

// TestALateReplica: what a replica does not show yet is waited for, and not passed over.
func TestALateReplica(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.x.Close()
	slow := &tardy{Log: s.log}
	s.x = index.New(slow, s.led, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
	t.Cleanup(s.x.Close)
	for i := range 20 {
		s.settle(s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i)), schemas.OutcomeSucceeded, "")
	}
	require.Len(t, s.ids("status=succeeded"), 20)
	require.Positive(t, slow.hidden)
}

// tardy shows the newest record of a page only to those who ask three times.
type tardy struct {
	*memlog.Log

	mu     sync.Mutex
	asked  int
	hidden int
}

func (l *tardy) Page(ctx context.Context, stream, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	records, more, err := l.Log.Page(ctx, stream, filter, from, limit, size)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked++; l.asked%3 != 0 && len(records) > 0 && !more && strings.HasSuffix(filter, "d") {
		l.hidden++
		records = records[:len(records)-1]
	}
	return records, more, err
}

// TestReadsOnByItself: somebody who never asks costs little, and who asks first finds
// the index made.
func TestReadsOnByItself(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 100 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i))
	}
	s.x.Close()
	caught := make(chan struct{})
	var once sync.Once
	s.x = index.New(s.log, s.led, stored(func() { once.Do(func() { close(caught) }) }), index.Config{Layout: layout, Path: s.path, Every: time.Millisecond, Wait: time.Minute})
	t.Cleanup(s.x.Close)
	s.x.Start()
	s.x.Start()
	select {
	case <-caught:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was read")
	}
	require.Len(t, s.ids(""), 100)
}

// stored hears that a batch is about to be kept.
type stored func()

func (s stored) Durable(context.Context, string, uint64) error {
	s()
	return nil
}
