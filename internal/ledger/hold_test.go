package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestHold: a result that is held is in the state at once, and on the log within the end of the
// action, or as an event of its own before anything else.
func TestHold(t *testing.T) {
	t.Parallel()
	answer := &schemas.Answer{Status: 200, Hash: "h", JSON: true, Body: []byte(`{"a":1}`), Snippet: "s"}
	answered := schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 200, Answer: answer}}
	settled := func(a *schemas.Answer) schemas.Event {
		return schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded, Answer: a}}
	}
	for name, tt := range map[string]struct {
		do   func(l *ledger.Ledger, st *ledger.State) error
		want []schemas.EventType
		in   bool // the answer is in the action's result alone
	}{
		"it ends":                   {func(l *ledger.Ledger, st *ledger.State) error { return l.Append(t.Context(), st, settled(answer)) }, types("settled"), true},
		"it ends with another":      {func(l *ledger.Ledger, st *ledger.State) error { return l.Append(t.Context(), st, settled(nil)) }, types("settled"), false},
		"it is written down":        {func(_ *ledger.Ledger, st *ledger.State) error { return st.Flush(t.Context()) }, types("attempted"), false},
		"something else comes next": {func(l *ledger.Ledger, st *ledger.State) error { return l.Append(t.Context(), st, waiting) }, types("attempted", "waiting"), false},
		"another is held": {func(l *ledger.Ledger, st *ledger.State) error {
			if err := l.Append(t.Context(), st, tried(2)); err != nil {
				return err
			}
			return l.Hold(t.Context(), st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 2}})
		}, types("attempted", "attempt"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := setup(memlog.Hooks{})
			st := claim(t, l, action("f"))
			require.NoError(t, l.Append(t.Context(), st, tried(1)))
			require.NoError(t, l.Hold(t.Context(), st, answered))
			require.Nil(t, st.Open())
			var order []string
			require.True(t, st.With(func(context.Context) (func() error, error) {
				order = append(order, "begun")
				return func() error { order = append(order, "waited for"); return nil }, nil
			}))
			require.NoError(t, tt.do(l, st))
			assert.Equal(t, []string{"begun", "waited for"}, order)

			found := load(t, l, st.Ref)
			got := make([]schemas.EventType, 0, 2)
			for _, ev := range found.Events[2:] {
				got = append(got, ev.Type)
			}
			assert.Equal(t, tt.want, got)
			result := found.Attempts[0].Result
			require.NotNil(t, result)
			assert.Equal(t, tt.in, result.InResult)
			assert.Equal(t, answer.Hash, result.Answer.Hash)
			assert.Equal(t, tt.in, string(result.Answer.Body) == "null")
			assert.Equal(t, found.Seq, st.Seq)
			assert.Equal(t, found.N, st.N)
		})
	}
}

// TestHoldThatComesToNothing: whoever writes it is told that another has written, and what goes
// with it is waited for all the same.
func TestHoldThatComesToNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		fenced     bool
		send, wait error
		want       error
	}{
		"fenced":               {fenced: true, want: fault.ErrFenced},
		"fenced, and not left": {fenced: true, wait: broken, want: fault.ErrFenced},
		"not left":             {wait: broken, want: broken},
		"not sent":             {send: broken, want: broken},
	} {
		for _, end := range []bool{true, false} {
			l, _ := setup(memlog.Hooks{})
			st := claim(t, l, action("f"))
			require.NoError(t, l.Append(t.Context(), st, tried(1)))
			other := load(t, l, st.Ref)
			require.NoError(t, l.Hold(t.Context(), st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1}}))
			waited := false
			st.With(func(context.Context) (func() error, error) {
				return func() error { waited = true; return tt.wait }, tt.send
			})
			if tt.fenced {
				require.NoError(t, l.Append(t.Context(), other, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1}}))
			}
			next := waiting
			if end {
				next = schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}
			}
			require.ErrorIs(t, l.Append(t.Context(), st, next), tt.want, "%s, %v", name, end)
			assert.Equal(t, tt.send == nil, waited, name)
			found := load(t, l, st.Ref)
			require.Nil(t, found.Open(), "%s: the result is on the log", name)
		}
	}
	l, _ := setup(memlog.Hooks{})
	st := claim(t, l, action("f"))
	assert.False(t, st.With(nil), "nothing is held")
}

func tried(number int) schemas.Event {
	return schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: number}}
}

func types(names ...schemas.EventType) []schemas.EventType { return names }
