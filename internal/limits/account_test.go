package limits

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// count is a value that tests change.
type count struct{ N int }

func counts(s *bucket.Bucket) *Accounts[count] {
	return &Accounts[count]{
		Bucket: s, Readable: func(_ string, c count) bool { return c.N >= 0 }, Clone: func(c count) count { return c }, Within: 10 * time.Second, Now: time.Now,
	}
}

func add(t *testing.T, a *Account[count]) {
	t.Helper()
	err := a.Change(t.Context(), func(c *count, _ time.Time) bool {
		c.N++
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

// TestChangesAreStoredTogether: while one write is under way, all changes that come wait for the next.
func TestChangesAreStoredTogether(t *testing.T) {
	t.Parallel()
	const many = 50
	s := bucket.New()
	a := counts(s).Open("k", count{}, nil)
	under, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.Before = func(string) (bool, error) {
		once.Do(func() { close(under); <-release })
		return true, nil
	}
	var all sync.WaitGroup
	all.Go(func() { add(t, a) })
	<-under
	for range many {
		all.Go(func() { add(t, a) })
	}
	poll.Until(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.waiting) == many
	})
	close(release)
	all.Wait()
	require.Equal(t, many+1, a.Value().N)
	require.Equal(t, 2, s.Puts)
}

// TestLosersPause once they have lost more than one race for an account.
func TestLosersPause(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]int{"one": 1, "many": 30}, func(t *testing.T, lost int) {
		s, n := bucket.New(), 0
		s.Before = func(key string) (bool, error) {
			if n++; n <= lost { // another process is faster
				s.Overwrite(key, `{"N":0}`)
			}
			return true, nil
		}
		start := time.Now()
		add(t, counts(s).Open("k", count{}, nil))
		require.Equal(t, lost+1, n)
		took := time.Since(start)
		require.Equal(t, lost > 1, took > 0)
		require.LessOrEqual(t, took, time.Duration(lost)*maxPause)
	})
}

// TestUnreadableValues are written over, unless their account says that they stay.
func TestUnreadableValues(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("of another version")
	for _, value := range []string{"x", `{"N":-1}`} {
		s := bucket.New()
		s.Overwrite("k", value)
		kind := counts(s)
		kind.Unreadable = unreadable
		a := kind.Open("k", count{}, nil)
		_, _, err := a.Seen(t.Context(), time.Time{})
		require.ErrorIs(t, err, unreadable)
		require.ErrorIs(t, a.Change(context.Background(), func(*count, time.Time) bool { return true }), unreadable)
		require.Zero(t, s.Puts)
		a = counts(s).Open("k", count{5}, nil)
		add(t, a)
		require.JSONEq(t, `{"N":6}`, string(s.All()[0].Data))
	}
}
