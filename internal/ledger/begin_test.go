package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

var _ ledger.Sender = sender{}

// sender is a log whose appends reach it when they are waited for, or before.
type sender struct {
	*memlog.Log
	early bool
}

func (s sender) Send(ctx context.Context, m schemas.Append) func(context.Context) (uint64, error) {
	if !s.early {
		return func(ctx context.Context) (uint64, error) { return s.Append(ctx, m) }
	}
	seq, err := s.Append(ctx, m)
	return func(context.Context) (uint64, error) { return seq, err }
}

// TestBegin: an event that was begun stands before the next one, and is in the state
// once somebody has waited.
func TestBegin(t *testing.T) {
	t.Parallel()
	plain, _ := setup(memlog.Hooks{}) // without a Sender it is Append
	alone, _, err := plain.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	require.NoError(t, plain.Begin(t.Context(), alone, begun))
	assert.True(t, alone.Started)
	for name, early := range map[string]bool{"early": true, "late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := memlog.New(layout, time.Now, memlog.Hooks{})
			l := ledger.New(sender{log, early}, layout, nil)
			st, _, err := l.Claim(t.Context(), action("f"))
			require.NoError(t, err)
			require.NoError(t, l.Begin(t.Context(), st, begun))
			assert.False(t, st.Started)
			require.NoError(t, l.Append(t.Context(), st, attempt))
			assert.True(t, st.Started)
			require.NoError(t, st.Await(t.Context()), "there is nothing to wait for")
			require.NoError(t, l.Begin(t.Context(), st, result))
			require.NoError(t, l.Begin(t.Context(), st, ended), "it waits for the one before")
			require.NoError(t, st.Await(t.Context()))

			found, err := l.Load(t.Context(), st.Ref)
			require.NoError(t, err)
			assert.Equal(t, found.Events, st.Events)
			assert.Equal(t, found.N, st.N)
			assert.Equal(t, found.Seq, st.Seq)
		})
	}
}

// TestBeginFenced: whoever comes to wait for it, or to write behind it, is told that
// another has written.
func TestBeginFenced(t *testing.T) {
	t.Parallel()
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	l := ledger.New(sender{log, false}, layout, nil)
	_, _, err := l.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	for name, wait := range map[string]func(*ledger.State) error{
		"await":  func(st *ledger.State) error { return st.Await(t.Context()) },
		"append": func(st *ledger.State) error { return l.Append(t.Context(), st, attempt) },
		"begin":  func(st *ledger.State) error { return l.Begin(t.Context(), st, attempt) },
	} {
		st, err := l.Find(t.Context(), "t", "a")
		require.NoError(t, err)
		other, n := *st, st.N
		require.NoError(t, l.Begin(t.Context(), st, begun))
		require.NoError(t, l.Append(t.Context(), &other, begun))
		require.ErrorIs(t, wait(st), fault.ErrFenced, name)
		assert.Equal(t, n, st.N, name)
	}
}

// TestBeginUnheard: an acknowledgement that is lost is looked for on the log, and what is
// not there is written again.
func TestBeginUnheard(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lose := false
			fail := func() error {
				if !lose {
					return nil
				}
				lose = false
				return fault.ErrUnavailable
			}
			hooks := memlog.Hooks{After: func(schemas.Append, uint64) error { return fail() }}
			if !kept {
				hooks = memlog.Hooks{Before: func(schemas.Append) error { return fail() }}
			}
			l := ledger.New(sender{memlog.New(layout, time.Now, hooks), true}, layout, nil)
			st, _, err := l.Claim(t.Context(), action("f"))
			require.NoError(t, err)
			lose = true
			require.NoError(t, l.Begin(t.Context(), st, begun))
			require.NoError(t, l.Append(t.Context(), st, attempt))
			found, err := l.Load(t.Context(), st.Ref)
			require.NoError(t, err)
			require.Len(t, found.Events, 3)
		})
	}
}
