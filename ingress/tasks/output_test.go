package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// outputs are the pieces of output on the log, as followers of the task see them.
func (w *world) outputs(tb testing.TB, ref schemas.Ref) (all []schemas.TaskOutput) {
	tb.Helper()
	require.NoError(tb, w.ledger.Replay(tb.Context(), ref, func(ev schemas.Event) error {
		if u, ok := task.Update(ref.ID, ev); ok && u.What == schemas.TaskWhatOutput {
			require.Equal(tb, schemas.TaskStatusRunning, u.Status)
			all = append(all, schemas.TaskOutput{Lease: u.Lease, At: u.At, Text: u.Text})
		}
		return nil
	}))
	return all
}

func piece(at int64, text string) func() (schemas.OutputRequest, error) {
	return func() (schemas.OutputRequest, error) { return schemas.OutputRequest{At: at, Text: text}, nil }
}

// TestOutputIsStoredAndKeepsTheLease: an empty one only keeps it.
func TestOutputIsStoredAndKeepsTheLease(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, _ := w.file(t, "a")
	_, token := w.take(t, "pool-1")
	w.set(func() { // another writer comes between, once
		w.between = func(schemas.Append) {
			w.write(t, ref, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`{"text":"x"}`)})
		}
	})
	_, err := w.Output(t.Context(), token, piece(0, "one\n"))
	require.NoError(t, err)
	before := len(w.leases.all())
	w.pass(30 * time.Second)
	_, err = w.Output(t.Context(), token, piece(4, ""))
	require.NoError(t, err)
	require.Len(t, w.leases.all(), before+1, "its holder was heard of")
	_, err = w.Output(t.Context(), token, piece(9, "two\n"))
	require.NoError(t, err)
	require.Equal(t, []schemas.TaskOutput{{Text: "x"}, {Lease: 1, Text: "one\n"}, {Lease: 1, At: 9, Text: "two\n"}}, w.outputs(t, ref))
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed}, w.whats(t, ref), "the state is as before")
}

// TestAClaimWithOutputIsDurable: also if another writer comes between the two.
func TestAClaimWithOutputIsDurable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	between := func(schemas.Append) {
		w.write(t, ref, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`{"text":"x"}`)})
	}
	w.set(func() {
		w.barrier = errors.New("private")
		w.between = func(schemas.Append) { w.set(func() { w.between = between }) } // before the second
	})
	require.Equal(t, schemas.Unavailable, code(t, errOf(w.Output(t.Context(), token, piece(0, "one")))))
	require.Equal(t, []schemas.TaskOutput{{Text: "x"}, {Text: "one"}}, w.outputs(t, ref))
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed}, w.whats(t, ref))
}

// TestOutputAfterTheEnd says how the task ended, so that a runner knows whether its agent reported
// that.
func TestOutputAfterTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(w *world, ref schemas.Ref, token string) error
		reason schemas.TaskStatus
	}{
		"reported": {func(w *world, _ schemas.Ref, token string) error {
			return errOf(w.Report(t.Context(), token, func() (schemas.TaskReport, error) { return schemas.TaskReport{Completed: true}, nil }))
		}, schemas.TaskStatusCompleted},
		"a cancel that a worker has not seen yet": {func(w *world, _ schemas.Ref, _ string) error {
			return errOf(w.control.CancelTask(t.Context(), "t", "a"))
		}, schemas.TaskStatusRunning},
		"canceled": {func(w *world, ref schemas.Ref, _ string) error {
			w.write(t, ref, settled(schemas.OutcomeCanceled))
			return nil
		}, schemas.TaskStatusCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			ref, _ := w.file(t, "a")
			_, token := w.take(t, "pool-1")
			require.NoError(t, c.end(w, ref, token))
			for _, text := range []string{"", "late"} {
				_, err := w.Output(t.Context(), token, piece(0, text))
				p := problem.Of(err)
				require.Equal(t, schemas.TaskNotRunning, p.Code)
				require.Equal(t, string(c.reason), p.Reason)
			}
			require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Output(t.Context(), w.Secret().Text(ref, 1), piece(0, "x")))))
			require.Empty(t, w.outputs(t, ref))
		})
	}
}

func TestOutputHasLimits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, _ := w.file(t, "a")
	_, token := w.take(t, "pool-1")
	big := strings.Repeat("x", schemas.MaxTaskOutput-64)
	n := 0
	for ; ; n++ {
		_, err := w.Output(t.Context(), token, piece(0, big))
		if err != nil {
			require.Equal(t, schemas.Conflict, code(t, err))
			break
		}
	}
	require.Equal(t, schemas.MaxTaskLog/schemas.MaxTaskOutput, n)
	require.NoError(t, errOf(w.Output(t.Context(), token, piece(0, ""))), "the lease is kept")

	require.Len(t, w.outputs(t, ref), n)
}

func TestOutputThatIsNone(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                    "at /text: is missing",
		`{"text":1}`:            "at /text: must be a string",
		`{"text":"a","at":-1}`:  "at /at: must be the number of bytes of output before the text, from 0",
		`{"text":"a","at":"x"}`: "",
		`{"text":"a","more":1}`: "",
		`{"text":"` + strings.Repeat("x", schemas.MaxTaskOutput+1) + `"}`: "at /text: must be at most",
	} {
		_, err := tasks.ReadOutput([]byte(body))
		public, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok, body)
		require.Equal(t, schemas.ValidationError, public.Code)
		require.Contains(t, public.Message, want)
	}
}

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
