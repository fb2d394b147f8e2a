package tasks_test

import (
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
