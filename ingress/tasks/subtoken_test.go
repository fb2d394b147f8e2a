package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/task"
	"weir/schemas"
)

// delegate makes a subtoken.
func (w *world) delegate(tb testing.TB, token string, req schemas.SubtokenRequest) schemas.NewSubtoken {
	tb.Helper()
	_, made, err := w.Delegate(tb.Context(), token, func() (schemas.SubtokenRequest, error) { return req, nil })
	require.NoError(tb, err)
	return made
}

// TestSubtokenOfALease: it keeps the lease, and ends at its time and with the lease.
func TestSubtokenOfALease(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, _ := w.file(t, "a")
	_, leased := w.take(t, "pool-1")
	made := w.delegate(t, leased, schemas.SubtokenRequest{Entries: []string{"e"}, Models: []string{"m"}, TTL: "1m", Budget: &schemas.TaskBudget{USD: 1}})
	byPool := w.delegate(t, "pool-1", schemas.SubtokenRequest{})
	require.Equal(t, []int{1, 2}, []int{made.N, byPool.N})
	v, err := w.Send(t.Context(), made.Token)
	require.NoError(t, err)
	who := v.Identity()
	require.Equal(t, []any{ref, 1, []string{"e"}, []string{"m"}, w.clock().Add(time.Minute)}, []any{who.Holding.Task, who.Holding.Lease, who.Entries, who.Models, who.ExpiresAt.UTC()})
	require.Equal(t, []schemas.SubtokenBudget{{N: 1, TaskBudget: schemas.TaskBudget{USD: 1}}}, who.Holding.Subtokens)
	require.True(t, w.Knows(t.Context(), made.Token))

	heard := len(w.leases.all())
	w.pass(50 * time.Second)
	require.NoError(t, errOf(w.Send(t.Context(), made.Token)))
	require.Len(t, w.leases.all(), heard+1, "a call of a child is a call of its holder")

	holders := map[string]func(ctx context.Context, token string) error{
		"take":   func(ctx context.Context, token string) error { return errOf2(w.AuthorizeOrLease(ctx, token)) },
		"return": func(ctx context.Context, token string) error { return errOf(w.Release(ctx, token)) },
		"report": func(ctx context.Context, token string) error {
			return errOf(w.Report(ctx, token, func() (schemas.TaskReport, error) { return schemas.TaskReport{Completed: true}, nil }))
		},
		"ask": func(ctx context.Context, token string) error {
			return errOf2(w.Ask(ctx, token, func() (string, string, error) { return "?", "", nil }))
		},
		"output": func(ctx context.Context, token string) error { return errOf(w.Output(ctx, token, piece(0, "x"))) },
		"git":    func(ctx context.Context, token string) error { return errOf(w.Grant(ctx, token)) },
	}
	before := w.whats(t, ref)
	for name, do := range holders {
		require.Equal(t, schemas.Forbidden, code(t, do(t.Context(), byPool.Token)), name)
	}
	require.Equal(t, before, w.whats(t, ref), "nothing was written")

	w.pass(10 * time.Second)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), made.Token))), "its time is up")
	require.NoError(t, errOf(w.Look(t.Context(), byPool.Token)))
	require.NoError(t, errOf(w.Release(t.Context(), leased)))
	for name, do := range holders {
		require.Equal(t, schemas.Unauthorized, code(t, do(t.Context(), byPool.Token)), name)
	}
	_, again := w.take(t, "pool-1")
	require.NotEmpty(t, again)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), byPool.Token))), "the next lease has none of them")
	require.False(t, w.Knows(t.Context(), byPool.Token))
}

// TestRightsOfASubtoken: it reads or pushes to the repository only if that was asked for.
func TestRightsOfASubtoken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	for repo, readOnly := range map[string]bool{schemas.RepoRead: true, schemas.RepoWrite: false} {
		g, err := w.Grant(t.Context(), w.delegate(t, token, schemas.SubtokenRequest{Repo: repo, Entries: []string{"e"}}).Token)
		require.NoError(t, err)
		require.Equal(t, []any{ref.ID, readOnly, []string{"e"}}, []any{g.TaskID, g.ReadOnly, g.Entries}, repo)
	}
	require.Equal(t, schemas.Forbidden, code(t, errOf(w.Grant(t.Context(), w.delegate(t, token, schemas.SubtokenRequest{}).Token))))
}

// TestAsManySubtokens as a task may have.
func TestAsManySubtokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	state, _ := w.fold(t, ref)
	events := make([]schemas.Event, 0, schemas.MaxTaskSubtokens)
	for n := range schemas.MaxTaskSubtokens {
		e := status(schemas.TaskEvent{What: schemas.TaskSubtoken, Status: state.Status, TokenHash: task.New("", "", 0, [32]byte{}).Hash(), Subtoken: &schemas.Subtoken{N: n + 1}})
		e.Type = schemas.EventSignal
		events = append(events, e)
	}
	w.write(t, ref, events...)
	_, _, err := w.Delegate(t.Context(), token, func() (schemas.SubtokenRequest, error) { return schemas.SubtokenRequest{}, nil })
	require.Equal(t, schemas.Conflict, code(t, err))
}
