package rules

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestStartCopies everything that is stored, over many pages.
func TestStartCopies(t *testing.T) {
	t.Parallel()
	s := newShelf()
	writer := node(t, s, Config{})
	want := map[string]string{}
	for i := range 3 * page / 2 {
		tenant := "t." + strconv.Itoa(i)
		one := writer.put(t, tenant, doc(rule("a")), 0)
		two := writer.put(t, tenant, doc(rule("b")), one.Revision)
		want[tenant] = two.Etag
	}
	var changed atomic.Int32
	k := New(s, Config{Changed: func(string) { changed.Add(1) }})
	_, _, err := k.InForce("t.0")
	require.Error(t, err, "whether there are rules is not known")
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	for tenant, etag := range want {
		require.Equal(t, etag, k.force(t, tenant))
	}
	require.EqualValues(t, len(want), changed.Load(), "only the newest of each is compiled")
	require.Empty(t, k.force(t, "nobody"))
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := New(s, Config{})
	k.Stop()
	s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
	require.ErrorIs(t, k.Start(t.Context()), fault.ErrUnavailable)
	s.Set(func(s *bucket.Bucket) { s.Down = nil })
	for range 2 * page {
		s.Set(func(s *bucket.Bucket) { s.Store("t"+strconv.Itoa(int(s.Last)), nil) })
	}
	first := true
	s.Set(func(s *bucket.Bucket) {
		s.Paging = func(int) error {
			defer func() { first = false }()
			if !first {
				return fault.ErrUnavailable
			}
			return nil
		}
	})
	require.ErrorIs(t, k.Start(t.Context()), fault.ErrUnavailable)
	require.Empty(t, s.Watchers)
	_, _, err := k.InForce("t")
	require.Error(t, err, "half a copy is none")
	s.Set(func(s *bucket.Bucket) { s.Paging = nil })
	require.NoError(t, k.Start(t.Context()))
	_, _, err = k.InForce("t")
	require.NoError(t, err)
	k.Stop()
	k.Stop()
	require.Empty(t, s.Watchers)
}

// TestFollows what other nodes write, at once.
func TestFollows(t *testing.T) {
	t.Parallel()
	s := newShelf()
	here := node(t, s, Config{})
	changed := make(chan string, 10)
	there := node(t, s, Config{Changed: func(tenant string) { changed <- tenant }})
	one := here.put(t, "acme.inc:1", doc(rule("a")), 0)
	require.Equal(t, "acme.inc:1", <-changed)
	require.Equal(t, one.Etag, there.force(t, "acme.inc:1"))
	_, replaced, err := there.InForce("acme.inc:1")
	require.NoError(t, err)
	two := here.put(t, "acme.inc:1", schemas.RuleSet{Rules: one.Doc.Rules}, one.Revision)
	<-replaced
	require.Equal(t, two.Etag, there.force(t, "acme.inc:1"))
	// Nobody's key hurts nobody.
	s.Set(func(s *bucket.Bucket) { s.Store("a b", []byte("x")); s.Store("%41", []byte("x")) })
	require.Equal(t, two.Etag, there.force(t, "acme.inc:1"))
}

// TestCheckFindsWhatTheWatchMissed, in its time; and at once when it says so.
func TestCheckFindsWhatTheWatchMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		log, logged := lines()
		here, there := node(t, s, Config{}), node(t, s, Config{Check: time.Second, Logger: log})
		defer here.Stop()
		defer there.Stop()
		s.Set(func(s *bucket.Bucket) { s.Deaf = true })
		one := here.put(t, "t", doc(rule("a")), 0)
		require.Empty(t, there.force(t, "t"))
		pass(time.Second)
		require.Equal(t, one.Etag, there.force(t, "t"))
		_, replaced, err := there.InForce("t")
		require.NoError(t, err)
		two := here.put(t, "t", doc(), one.Revision)
		s.Set(func(s *bucket.Bucket) {
			for _, w := range s.Watchers {
				w.Lost()
			}
		})
		synctest.Wait()
		<-replaced
		require.Equal(t, two.Etag, there.force(t, "t"))

		s.Set(func(s *bucket.Bucket) { s.Down = fault.ErrUnavailable })
		pass(5 * time.Second)
		require.Equal(t, two.Etag, there.force(t, "t"), "what is known stays in force")
		s.Set(func(s *bucket.Bucket) { s.Down = nil })
		pass(time.Second)
		require.Regexp(t, `(?s)^[^\n]*store_unreachable[^\n]*\n[^\n]*store_reachable[^\n]*\n$`, logged())
	})
}

// TestNewestIsInForce when it returns, whatever was heard.
func TestNewestIsInForce(t *testing.T) {
	t.Parallel()
	s := newShelf()
	here, there := node(t, s, Config{Check: time.Hour}), node(t, s, Config{Check: time.Hour})
	s.Set(func(s *bucket.Bucket) { s.Deaf = true })
	one := here.put(t, "t", doc(rule("a")), 0)
	require.Empty(t, there.force(t, "t"))
	newest, err := there.Newest(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, one, newest)
	require.Equal(t, one.Etag, there.force(t, "t"))
	two := here.put(t, "t", doc(rule("b")), one.Revision)
	next, err := there.After(t.Context(), "t", one.Revision)
	require.NoError(t, err)
	require.Equal(t, two, next)
	require.Equal(t, two.Etag, there.force(t, "t"))
}

// TestNeverBack: a late record of a key changes nothing.
func TestNeverBack(t *testing.T) {
	t.Parallel()
	s := newShelf()
	var changed atomic.Int32
	k := node(t, s, Config{Changed: func(string) { changed.Add(1) }})
	k.put(t, "t", doc(rule("a")), 0)
	two := k.put(t, "t", doc(rule("b")), 1)
	old := s.Records[0]
	s.Set(func(s *bucket.Bucket) { s.Watchers[0].Received(old); s.Watchers[0].Received(s.Records[1]) })
	require.Equal(t, two.Etag, k.force(t, "t"))
	require.EqualValues(t, 2, changed.Load())
}

// TestUnreadableSetStopsCalls until it can be read again, and nobody writes over
// it.
func TestUnreadableSetStopsCalls(t *testing.T) {
	t.Parallel()
	s := newShelf()
	log, logged := lines()
	changed := make(chan string, 10)
	k := node(t, s, Config{Logger: log, Changed: func(tenant string) { changed <- tenant }})
	one := k.put(t, "t", doc(rule("a")), 0)
	<-changed
	_, replaced, err := k.InForce("t")
	require.NoError(t, err)
	s.Set(func(s *bucket.Bucket) { s.Store("t", []byte(`{"v":2,"canary":"9d3f"}`)) })
	<-replaced
	require.Equal(t, "t", <-changed)
	require.Contains(t, logged(), "err_kind=version", "before any call asks for it")
	set, _, err := k.InForce("t")
	require.ErrorIs(t, err, ErrUnreadable)
	require.Nil(t, set)
	_, err = k.Newest(t.Context(), "t")
	require.ErrorIs(t, err, ErrUnreadable)
	_, err = k.After(t.Context(), "t", one.Revision)
	require.ErrorIs(t, err, ErrUnreadable)
	require.Empty(t, k.force(t, "u"), "other tenants go on")
	require.Contains(t, logged(), "tenant=t")
	require.NotContains(t, logged(), "9d3f")
	other := k.put(t, "t", doc(rule("b")), 2)
	require.Equal(t, other.Etag, k.force(t, "t"), "who knows its revision has it replaced")

	again := node(t, s, Config{})
	require.Equal(t, other.Etag, again.force(t, "t"))
}

// TestStormOfWrites: readers see sets that were written, in their order, and none
// is missing in the end.
func TestStormOfWrites(t *testing.T) {
	t.Parallel()
	s := newShelf()
	here, there := node(t, s, Config{}), node(t, s, Config{Check: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var last uint64
			for ctx.Err() == nil {
				set, replaced, err := there.InForce("t")
				if err != nil || (set == nil) != (replaced == nil) {
					t.Error("half a set")
					return
				}
				if set == nil {
					continue
				}
				now, ok := Revision(set.Etag())
				if !ok || now < last {
					t.Error("a set went back")
					return
				}
				last = now
			}
		})
	}
	var last Snapshot
	for i := range 200 {
		last = here.put(t, "t", doc(rule("r"+strconv.Itoa(i))), last.Revision)
	}
	poll.Until(t, func() bool { return there.force(t, "t") == last.Etag })
	cancel()
	readers.Wait()
}
