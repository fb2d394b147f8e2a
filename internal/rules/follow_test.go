package rules

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// TestStartCopies everything that is stored.
func TestStartCopies(t *testing.T) {
	t.Parallel()
	s := newShelf()
	writer := New(s, Config{Check: time.Hour})
	compiled := writer.opens()
	require.NoError(t, writer.Start(t.Context()))
	t.Cleanup(writer.Stop)
	want := map[string]string{}
	for i := range 12 {
		tenant := "t." + strconv.Itoa(i)
		one := writer.put(t, tenant, doc(rule("a")), 0)
		two := writer.put(t, tenant, doc(rule("b")), one.Revision)
		want[tenant] = two.Etag
	}
	k := New(s, Config{})
	opens := k.opens()
	_, _, err := k.InForce("t.0")
	require.Error(t, err, "whether there are rules is not known")
	require.NoError(t, k.Start(t.Context()))
	t.Cleanup(k.Stop)
	for tenant, etag := range want {
		require.Equal(t, []string{etag, etag}, []string{k.force(t, tenant), k.force(t, tenant)})
		require.Equal(t, 1, opens(tenant), "only the newest of each is compiled, and once")
		require.Equal(t, etag, writer.force(t, tenant))
		require.Equal(t, 2, compiled(tenant), "as it was written, and not again")
	}
	require.Empty(t, k.force(t, "nobody"))
}

// TestFollows what other nodes write, at once.
func TestFollows(t *testing.T) {
	t.Parallel()
	s := newShelf()
	here := node(t, s, Config{})
	there := node(t, s, Config{})
	one := here.put(t, "acme.inc:1", doc(rule("a")), 0)
	poll.Until(t, func() bool { return there.force(t, "acme.inc:1") == one.Etag })
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

// TestUnreadableSetStopsCalls until it can be read again, and nobody writes over
// it.
func TestUnreadableSetStopsCalls(t *testing.T) {
	t.Parallel()
	s := newShelf()
	log, logged := lines()
	k := node(t, s, Config{Logger: log})
	one := k.put(t, "t", doc(rule("a")), 0)
	_, replaced, err := k.InForce("t")
	require.NoError(t, err)
	s.Set(func(s *bucket.Bucket) { s.Store("t", []byte(`{"v":2,"canary":"9d3f"}`)) })
	<-replaced
	poll.Until(t, func() bool { return strings.Contains(logged(), "err_kind=version") }) // before any call asks for it
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
