package janitor_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/bucket"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/processors/janitor"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var layout = harness.Layout()

// stored is what a test looks at of a place.
type stored struct {
	Worker string `json:"worker"`
	Open   []any  `json:"open"`
}

// yard is a log in memory and what janitors nudge on it.
type yard struct {
	t      *testing.T
	log    *memlog.Log
	led    *ledger.Ledger
	places *bucket.Bucket

	mu               sync.Mutex
	nudged, requeued map[string][]time.Duration // by action, since the beginning
	begun            time.Time
	fail             error
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, nudged: map[string][]time.Duration{}, requeued: map[string][]time.Duration{}, begun: time.Now(), places: bucket.New()}
	y.log = memlog.New(layout, time.Now, memlog.Hooks{})
	y.led = ledger.New(y.log, layout, nil)
	return y
}

func (y *yard) Notify(ctx context.Context, ref schemas.Ref) error {
	return y.note(ctx, y.nudged, ref, y.led.Notify)
}

func (y *yard) Requeue(ctx context.Context, ref schemas.Ref) error {
	return y.note(ctx, y.requeued, ref, y.led.Requeue)
}

func (y *yard) note(ctx context.Context, in map[string][]time.Duration, ref schemas.Ref, write func(context.Context, schemas.Ref) error) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.fail != nil {
		return y.fail
	}
	in[ref.ID] = append(in[ref.ID], time.Since(y.begun).Round(time.Second))
	return write(ctx, ref)
}

func (y *yard) place() stored {
	y.t.Helper()
	r, err := y.places.Get(y.t.Context(), "0")
	require.NoError(y.t, err)
	return fixture.Decode[stored](y.t, r.Data)
}

// accept is for an action that a worker has begun.
func (y *yard) accept(id string, within time.Duration) *ledger.State {
	y.t.Helper()
	st := y.claim(id, within)
	harness.Append(y.t, y.led, st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{}})
	return st
}

func (y *yard) claim(id string, within time.Duration) *ledger.State {
	y.t.Helper()
	return harness.Claim(y.t, y.led, schemas.Action{ID: id, Kind: schemas.KindHTTP, Deadline: time.Now().Add(within)}, nil)
}

func (y *yard) settle(st *ledger.State) {
	y.t.Helper()
	harness.Append(y.t, y.led, st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeExpired}})
}

// janitor runs one until the test ends it.
func (y *yard) janitor(worker string, edit func(*janitor.Config)) *janitor.Janitor {
	cfg := janitor.Config{Layout: layout, Worker: worker}
	if edit != nil {
		edit(&cfg)
	}
	j := janitor.New(y.log, y.places, y, cfg)
	j.Start(y.t.Context())
	return j
}

// heard is what was nudged so far, and when.
func (y *yard) heard() map[string][]time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	return maps.Clone(y.nudged)
}

// after lets time pass, and all that falls due in it.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func alone(c *janitor.Config) { c.Alone = true }

// TestOverdueIsNudged: what has not ended a while behind its deadline, again and again until
// it has; nothing else is.
func TestOverdueIsNudged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		y.settle(y.accept("ended", time.Second))
		lost := y.accept("lost", 30*time.Second)
		late := y.accept("late", 10*time.Minute)
		y.accept("long", 24*time.Hour)
		j := y.janitor("one", alone)
		after(7 * time.Minute)
		require.Equal(t, map[string][]time.Duration{"lost": {45 * time.Second, 345 * time.Second}}, y.heard())
		y.settle(lost)
		after(5 * time.Minute)
		require.Len(t, y.heard()["late"], 1)
		y.settle(late)
		after(time.Hour)
		require.Len(t, y.heard()["late"], 1)
		require.Len(t, y.heard()["lost"], 2)
		require.NotContains(t, y.heard(), "long")
		j.Stop()
		require.Len(t, y.place().Open, 1)

		puts := y.places.Written() // a node that is alone, with nothing to do, writes nothing
		j = y.janitor("two", alone)
		after(time.Hour)
		require.LessOrEqual(t, y.places.Written(), puts+1)
		after(24 * time.Hour)
		require.NotEmpty(t, y.heard()["long"])
		j.Stop()
		j.Stop()
	})
}

// TestIdleIsNotified: workers are notified of an action within 10 s of when its next record must have been there, and
// again every 5 min. One that has not begun is queued once more, and waits for a slot like any other.
func TestIdleIsNotified(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		defer y.janitor("one", alone).Stop()
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		event := func(id string, ev schemas.Event) {
			harness.Append(t, y.led, y.claim(id, time.Hour), ev)
		}
		y.claim("accepted", time.Hour)
		y.claim("deadline first", 0)
		y.accept("begun", time.Hour)
		y.settle(y.claim("ended", time.Hour))
		event("waits", schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay, Until: in(time.Minute)}})
		event("waits for a person", schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitAgent}})
		event("attempt", schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, ExpiresAt: in(2 * time.Minute)}})
		after(9 * time.Minute)
		within := func(at []time.Duration, since time.Duration) {
			require.NotEmpty(t, at)
			require.Greater(t, at[0], since)
			require.LessOrEqual(t, at[0], since+10*time.Second)
			for _, again := range at[1:] {
				require.InDelta(t, 5*time.Minute, again-at[0], float64(10*time.Second))
			}
		}
		within(y.requeued["accepted"], 0)
		require.Len(t, y.requeued["accepted"], 1, "it is in an overflow queue now")
		within(y.nudged["waits"], time.Minute)
		require.Len(t, y.nudged["waits"], 2)
		within(y.nudged["attempt"], 2*time.Minute)
		require.Len(t, y.requeued, 1)
		require.Len(t, y.nudged, 3)
		require.NotEmpty(t, y.nudged["deadline first"])
	})
}

// TestWithinAMinute: whenever the holder dies, and however soon the deadline is, what has no
// end is nudged less than a minute behind it.
func TestWithinAMinute(t *testing.T) {
	t.Parallel()
	for _, deadline := range []time.Duration{0, 5 * time.Second, time.Minute} {
		for dies := time.Duration(0); dies <= deadline+30*time.Second; dies += 3 * time.Second {
			synctest.Test(t, func(t *testing.T) {
				y := newYard(t)
				one := y.janitor("one", nil)
				defer one.Stop()
				after(time.Second)
				two := y.janitor("two", nil)
				defer two.Stop()
				y.accept("a", deadline)
				after(dies)
				one.Stop()
				after(deadline + 3*time.Minute)
				heard := y.heard()["a"]
				require.NotEmpty(t, heard, "%s, dies %s", deadline, dies)
				require.Less(t, heard[0], time.Second+deadline+time.Minute, "%s, dies %s", deadline, dies)
			})
		}
	}
}

// TestALogAheadOfItsTime: what a server stored whose clock was ahead, and what lies behind it,
// is looked at all the same.
func TestALogAheadOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		var ahead time.Duration
		y.log = memlog.New(layout, func() time.Time { return time.Now().Add(ahead) }, memlog.Hooks{})
		y.led = ledger.New(y.log, layout, nil)
		j := y.janitor("one", alone)
		after(time.Second)
		ahead = time.Hour
		y.accept("ahead", 30*time.Second)
		ahead = 0
		y.accept("behind it", 30*time.Second)
		after(4 * time.Minute)
		require.Len(t, y.heard(), 2)
		j.Stop()
	})
}

// TestMoreThanIsKeptInMind: none is forgotten, and few are nudged at a time.
func TestMoreThanIsKeptInMind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		states := map[string]*ledger.State{}
		for i := range 40 {
			id := fmt.Sprintf("a%d", i)
			states[id] = y.accept(id, time.Duration(i%4)*10*time.Minute)
		}
		j := y.janitor("one", func(c *janitor.Config) { c.Alone, c.Most = true, 7 })
		defer j.Stop()
		for range 60 {
			after(2 * time.Minute)
			require.LessOrEqual(t, len(y.place().Open), 7)
			for id := range y.heard() { // a worker settles what it is nudged for
				if st := states[id]; st.Settled == nil {
					y.settle(st)
				}
			}
		}
		require.Len(t, y.heard(), 40)
		for id, at := range y.heard() {
			require.Len(t, at, 1, id)
		}
		after(10 * time.Minute)
		require.Empty(t, y.place().Open)
	})
}

// TestOneHoldsAPartition: the others wait until it has been silent for a while.
func TestOneHoldsAPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		y.accept("a", time.Second)
		one := y.janitor("one", nil)
		after(time.Second)
		two := y.janitor("two", nil)
		defer two.Stop()
		after(3 * time.Minute)
		require.Equal(t, "one", y.place().Worker)
		require.Len(t, y.heard()["a"], 1, "one of the two")
		one.Stop()
		after(2 * time.Minute)
		require.Equal(t, "two", y.place().Worker)
		y.accept("b", time.Second)
		after(2 * time.Minute)
		require.Len(t, y.heard()["b"], 1)
	})
}

// TestTheLogIsAway, or does not take a nudge: a later round does what this one could not.
func TestTheLogIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t)
		y.accept("a", time.Second)
		y.fail = fault.ErrUnavailable
		j := y.janitor("one", alone)
		defer j.Stop()
		after(3 * time.Minute)
		require.Empty(t, y.heard())
		y.mu.Lock()
		y.fail = nil
		y.mu.Unlock()
		after(time.Minute)
		require.Len(t, y.heard()["a"], 1)
	})
}

// TestAPositionBeyondTheLog, or one that cannot be read: the walk begins anew.
func TestAPositionBeyondTheLog(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string]string{"beyond": `{"worker":"x","seq":1000000}`, "unreadable": `?`}, func(t *testing.T, value string) {
		y := newYard(t)
		_, err := y.places.Put(t.Context(), "0", []byte(value), 0)
		require.NoError(t, err)
		y.accept("a", time.Second)
		j := y.janitor("one", nil)
		defer j.Stop()
		after(5 * time.Minute)
		require.Len(t, y.heard()["a"], 1)
	})
}
