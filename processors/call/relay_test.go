package call_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// stubborn is a log that answers with one error after the other; the last one stays.
type stubborn struct {
	answers  []error
	canceled bool // an event that it takes finds the request to stop before it
	events   []schemas.Event
}

func (s *stubborn) Append(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.events = append(s.events, ev)
	err := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if err == nil {
		st.CancelRequested = s.canceled
	}
	return err
}

// TestRelay: an event is written or known not to be, whatever the log does meanwhile.
func TestRelay(t *testing.T) {
	t.Parallel()
	away := fault.ErrUnavailable
	type testCase struct {
		answers  []error
		canceled bool
		ends     time.Duration // of the call; 0: it does not
		deadline bool
		want     schemas.Code // empty: it is written
		tries    int
	}
	table.Bubble(t, map[string]testCase{
		"at once":                       {answers: []error{nil}, tries: 1},
		"the log was away for a moment": {answers: []error{away, away, nil}, tries: 3},
		"the action is to stop":         {answers: []error{nil}, canceled: true, want: schemas.Canceled, tries: 1},
		"the call is over":              {answers: []error{nil}, ends: -1, tries: 1},
		"stopped, and the log away":     {answers: []error{away}, ends: time.Second, want: schemas.Canceled, tries: 5},
		"its time, and the log away":    {answers: []error{away}, ends: time.Second, deadline: true, want: schemas.UpstreamTimeout, tries: 5},
		"the log stays away":            {answers: []error{away}, want: schemas.Interrupted, tries: 51},
		"somebody was first":            {answers: []error{fault.ErrFenced}, want: schemas.Interrupted, tries: 1},
		"it is too large":               {answers: []error{fault.ErrTooLarge}, want: schemas.UpstreamTooLarge, tries: 1},
	}, func(t *testing.T, tt testCase) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		switch {
		case tt.deadline:
			ctx, cancel = context.WithTimeout(ctx, tt.ends-time.Millisecond)
			defer cancel()
		case tt.ends > 0:
			time.AfterFunc(tt.ends-time.Millisecond, cancel)
		case tt.ends < 0:
			cancel()
		}
		log := &stubborn{answers: tt.answers, canceled: tt.canceled}
		err := call.Relay(ctx, log, &ledger.State{}, schemas.Event{Type: schemas.EventDelta})
		require.Len(t, log.events, tt.tries)
		for _, ev := range log.events {
			assert.Equal(t, log.events[0], ev, "a repeat is the same record")
			assert.False(t, ev.Time.IsZero())
		}
		if tt.want == "" {
			require.NoError(t, err)
			return
		}
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, []any{tt.want, true}, []any{failed.Code, failed.Sent})
		assert.Equal(t, tt.canceled, errors.Is(err, call.ErrStopped))
	})
}

// TestPause ends with what it waits for, and before.
func TestPause(t *testing.T) {
	t.Parallel()
	type testCase struct {
		stop, drain, dead bool
		deadline          time.Duration
		took              time.Duration
		want              error
	}
	table.Bubble(t, map[string]testCase{
		"its time":        {took: time.Minute},
		"a stop":          {stop: true, took: time.Second},
		"a drain":         {drain: true, took: time.Second, want: call.ErrDraining},
		"the worker ends": {dead: true, took: time.Second, want: context.Canceled},
		"the deadline":    {deadline: 10 * time.Second, took: 10 * time.Second},
		"behind it":       {deadline: -time.Second},
	}, func(t *testing.T, tt testCase) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop, draining := harness.NewStop(t), make(chan struct{})
		time.AfterFunc(time.Second, func() {
			switch {
			case tt.stop:
				stop.Pull()
			case tt.drain:
				close(draining)
			case tt.dead:
				cancel()
			}
		})
		st := &ledger.State{}
		if tt.deadline != 0 {
			st.Action.Deadline = time.Now().Add(tt.deadline)
		}
		start := time.Now()
		err := call.Pause(ctx, st, time.Minute, stop, draining)
		require.ErrorIs(t, err, tt.want)
		assert.Equal(t, tt.took, time.Since(start))
		canceled, over := call.Over(st, stop, time.Now())
		assert.Equal(t, []bool{tt.stop, tt.stop || tt.deadline != 0}, []bool{canceled, over})
		time.Sleep(time.Second) // so that the timer is done
	})
}
