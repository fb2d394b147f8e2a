package processors_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/processors"
	"weir/schemas"
)

// patience is how long a message is given back for whose worker may live.
const patience = 10 * time.Second

// requireLater holds an error to say when its message comes again.
func requireLater(t *testing.T, err error, after time.Duration) {
	t.Helper()
	require.Error(t, err)
	ack, again := fault.Disposition(err)
	require.False(t, ack)
	require.Equal(t, after, again)
}

// TestTheSameMessageAgain while it is under way here rests until a heartbeat has replaced
// the delay. Any other of its action rests for a moment.
func TestTheSameMessageAgain(t *testing.T) {
	t.Parallel()
	h := newHouse()
	rec := h.accept(t, schemas.HTTPCall{Method: "GET", URL: "http://up.example/x"})
	p := h.worker(t, "w")
	performer := gated{begun: make(chan struct{}), end: make(chan error)}
	p.Performers = map[schemas.Kind]processors.Performer{schemas.KindHTTP: performer}
	done := make(chan error, 1)
	go func() { done <- p.Handle(t.Context(), rec, true) }()
	<-performer.begun
	requireLater(t, p.Handle(t.Context(), rec, false), patience)
	other := rec
	other.Seq++
	requireLater(t, p.Handle(t.Context(), other, true), 2*time.Second)
	performer.end <- fault.ErrUnavailable
	require.ErrorIs(t, <-done, fault.ErrUnavailable)
}

// TestTwoNodesAtOneMessage, both alive: the one that took the action over has it, and the
// one that finds that by the fence leaves it alone, safe as its call is.
func TestTwoNodesAtOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDormitory(t)
		n1, n2 := d.node(t, "n1", false), d.node(t, "n2", false)
		rec := d.store(t, "mine", "one", "GET")
		d.during = func() {
			d.mu.Lock()
			d.during = func() { time.Sleep(15 * time.Second) } // of n2's
			d.mu.Unlock()
			time.Sleep(10 * time.Second)
		}
		first := make(chan error, 1)
		go func() { first <- n1.Handle(t.Context(), rec, true) }()
		time.Sleep(5 * time.Second)
		require.NoError(t, n2.Handle(t.Context(), rec, false))
		requireLater(t, <-first, patience)
		st := d.state(t, "mine", "one")
		assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
		assert.Len(t, st.Attempts, 2)
		assert.Equal(t, 2, d.sent)
		require.NoError(t, n1.Handle(t.Context(), rec, false), "it has settled")
		assert.Equal(t, 2, d.sent)
	})
}

// TestAFirstDeliveryThatIsNone, as a consumer gives it that was made anew: whoever finds
// another node at the action's call gives that node's message back, whatever the call is.
// To acknowledge it would leave the action to its attempt's expiry if that node dies.
func TestAFirstDeliveryThatIsNone(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDormitory(t)
				rec := d.store(t, "mine", "one", method)
				d.during = func() { time.Sleep(20 * time.Second) }
				n1, first := d.node(t, "n1", false), make(chan error, 1)
				go func() { first <- n1.Handle(t.Context(), rec, true) }()
				time.Sleep(5 * time.Second)
				requireLater(t, d.node(t, "n2", false).Handle(t.Context(), rec, true), patience)
				assert.Empty(t, d.alarm.at)
				require.NoError(t, <-first)
				st := d.state(t, "mine", "one")
				assert.Equal(t, schemas.OutcomeSucceeded, st.Settled.Outcome)
				assert.Len(t, st.Attempts, 1)
				assert.Equal(t, 1, d.sent)
			})
		})
	}
}
