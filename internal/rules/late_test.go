package rules

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
)

// restored is a shelf whose keys have had three sets each, and the keeper that
// knows them. Then a backup is restored, in which they have one.
func restored(t *testing.T, cfg Config) (s *bucket.Bucket, k *Keeper, was map[string]Snapshot) {
	t.Helper()
	s, was = newShelf(), map[string]Snapshot{}
	k = node(t, s, cfg)
	for _, tenant := range []string{"t", "u"} {
		was[tenant] = k.put(t, tenant, doc(rule("a")), 0)
	}
	backup, last := slices.Clone(s.Records), s.Last
	for _, tenant := range []string{"t", "u", "late"} {
		two := k.put(t, tenant, doc(rule("b")), was[tenant].Revision)
		three := k.put(t, tenant, doc(rule("c")), two.Revision)
		require.Equal(t, three.Etag, k.force(t, tenant))
	}
	k.Notify()
	poll.Until(t, func() (whole bool) {
		s.Set(func(s *bucket.Bucket) { whole = s.Seen == s.Last })
		return whole
	})
	s.Set(func(s *bucket.Bucket) { s.Records, s.Last = backup, last })
	return s, k, was
}

// TestLeadersWordCounts also where it is older than what was heard: the store was
// restored from a backup. The sets of other tenants follow.
func TestLeadersWordCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, logged := lines()
		_, k, was := restored(t, Config{Check: time.Second, Logger: log})
		defer k.Stop()
		replaced := map[string]<-chan struct{}{}
		for _, tenant := range []string{"t", "u", "late"} {
			_, of, err := k.InForce(tenant)
			require.NoError(t, err)
			replaced[tenant] = of
		}
		require.Equal(t, was["t"].Revision+3, k.holds("t").revision)
		newest, err := k.Newest(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, was["t"], newest)
		require.Equal(t, was["t"].Etag, k.force(t, "t"))
		<-replaced["t"]
		require.Contains(t, logged(), "rule_set_rolled_back")
		synctest.Wait()
		require.Equal(t, was["u"].Etag, k.force(t, "u"))
		require.Empty(t, k.force(t, "late"), "the backup had none")
		<-replaced["u"]
		<-replaced["late"]
	})
}

// TestWriteToARestoredStore is in force here as well as there, although its number
// is below that of what was in force, or the same.
func TestWriteToARestoredStore(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]uint64{"below": 3, "the same": 4}, func(t *testing.T, number uint64) {
		s, k, was := restored(t, Config{Check: time.Hour})
		defer k.Stop()
		require.EqualValues(t, 4, k.holds("t").revision)
		other := node(t, s, Config{Check: time.Hour})
		defer other.Stop()
		s.Set(func(s *bucket.Bucket) { s.Last = number - 1 })
		next := other.put(t, "t", doc(rule("x")), was["t"].Revision)
		require.Equal(t, number, next.Revision)
		synctest.Wait()
		require.Equal(t, next.Etag, k.force(t, "t"))
	})
}

// TestLeaderIsAskedAgain where it gave no answer about a record that came late.
func TestLeaderIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k, was := restored(t, Config{Check: time.Second})
		defer k.Stop()
		held := k.force(t, "t")
		s.Set(func(s *bucket.Bucket) {
			s.Asked = func() error { return fault.ErrUnavailable }
			for _, w := range s.Watchers {
				w.Received(s.Records[0])
			}
		})
		pass(3 * time.Second)
		require.Equal(t, held, k.force(t, "t"), "what is known stays in force")
		s.Set(func(s *bucket.Bucket) { s.Asked = nil })
		pass(2 * time.Second)
		require.Equal(t, was["t"].Etag, k.force(t, "t"))
	})
}
