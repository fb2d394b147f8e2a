package tasks_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

func ask(tb testing.TB, w *world, token, text, key string) (int, error) {
	tb.Helper()
	_, n, err := w.Ask(tb.Context(), token, func() (string, string, error) { return text, key, nil })
	return n, err
}

func TestAskingAndAnswering(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.queue(t, "a")
	asks := func(text, key string, want int) {
		t.Helper()
		n, err := ask(t, w, token, text, key)
		require.NoError(t, err)
		require.Equal(t, want, n, text)
	}
	answer := func(n int, text string) error {
		_, err := w.Answer(t.Context(), "t", "a", schemas.AnswerRequest{Inquiry: n, Answer: text}, "anna")
		return err
	}
	require.Equal(t, schemas.Conflict, code(t, answer(0, "x")), "nothing was asked")
	asks("may I?", "", 1)
	asks("may I?", "", 1) // a repeat waits for the same answer
	asks("which one?", "", 2)
	asks("may I?", "", 1) // as long as it is open
	require.Equal(t, schemas.ValidationError, code(t, answer(0, "yes")), "which of the two")
	require.Equal(t, schemas.ValidationError, code(t, answer(3, "yes")))
	require.NoError(t, answer(1, "yes"))
	require.NoError(t, answer(1, "yes"), "the same again")
	require.Equal(t, schemas.Conflict, code(t, answer(1, "no")), "the first one counts")
	asks("may I?", "", 3) // it was answered, and others came since
	require.NoError(t, answer(3, ""))
	asks("may I?", "", 3) // cut off before the answer came
	require.NoError(t, answer(0, "this one"), "the only one that is open")
	require.Equal(t, schemas.Conflict, code(t, answer(0, "other")))
	require.NoError(t, answer(0, ""), "the newest has that answer")

	asks("may I?", "k1", 4)
	asks("may I?", "k2", 5) // a key tells it from others
	asks("may I?", "k1", 4)
	require.Equal(t, schemas.IdempotencyMismatch, code(t, errOf(ask(t, w, token, "another", "k1"))))

	s, st := w.fold(t, ref)
	require.Len(t, s.Inquiries, 5)
	require.Equal(t, "anna", s.Inquiries[0].By)
	require.Equal(t, "yes", *s.Inquiries[0].Answer)
	require.Equal(t, schemas.TaskClaimed, st.Events[1].Task.What, "asking takes the task, too")

	require.NoError(t, report(t, w, token, done("d")))
	require.Equal(t, schemas.Conflict, code(t, answer(4, "late")))
	require.NoError(t, answer(1, "yes"), "what was answered stays so")
	for _, id := range []string{"none", "", "a*", ">"} {
		require.Equal(t, schemas.NotFound, code(t, errOf(w.Answer(t.Context(), "t", id, schemas.AnswerRequest{Answer: "x"}, ""))))
	}
	require.Equal(t, schemas.NotFound, code(t, errOf(w.Answer(t.Context(), "other", "a", schemas.AnswerRequest{Answer: "x"}, ""))), "another tenant's task is none")
}

func TestAQuestionTooMany(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, token := w.file(t, "a")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, _, err := w.Ask(context.Background(), token, func() (string, string, error) { return strconv.Itoa(i / 2), strconv.Itoa(i), nil })
			if err != nil { // so many writers at once
				require.Equal(t, schemas.Unavailable, code(t, err))
			}
		})
	}
	wg.Wait()
	for i := range schemas.MaxTaskInquiries {
		_, err := ask(t, w, token, strconv.Itoa(i/2), strconv.Itoa(i))
		require.NoError(t, err)
	}
	require.Equal(t, schemas.Conflict, code(t, errOf(ask(t, w, token, "one more", ""))))
	n, err := ask(t, w, token, "0", "0")
	require.NoError(t, err, "a repeat is none too many")
	require.LessOrEqual(t, n, schemas.MaxTaskInquiries)
}

// TestATokenTooMany: what people do to a task is bounded as well.
func TestATokenTooMany(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, _ := w.file(t, "a")
	st, err := w.ledger.Load(t.Context(), ref)
	require.NoError(t, err)
	for range schemas.MaxTaskReissues {
		ev := schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: "00"}}
		require.NoError(t, w.ledger.Append(t.Context(), st, ev))
	}
	_, _, err = w.Reissue(t.Context(), "t", "a", nil, nil)
	require.Equal(t, schemas.Conflict, code(t, err))
	require.ErrorContains(t, err, "1000")
}

func TestAnotherToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, first := w.file(t, "a")
	require.NoError(t, errOf(w.Enter(t.Context(), first)))
	got, second, err := w.Reissue(t.Context(), "t", "a", nil, nil)
	require.NoError(t, err)
	require.Equal(t, ref, got)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Enter(t.Context(), first))), "the one before is dead")
	require.NoError(t, errOf(w.Enter(t.Context(), second)))

	for _, entries := range [][]string{{"x"}, {"x", "y"}} {
		require.Equal(t, schemas.Forbidden, code(t, errOf2(w.Reissue(t.Context(), "t", "a", entries, nil))), "it would give more than the asker has")
	}
	_, third, err := w.Reissue(t.Context(), "t", "a", []string{"x", "e"}, nil)
	require.NoError(t, err)
	require.Equal(t, schemas.Unauthorized, code(t, report(t, w, second, done("d"))))
	require.NoError(t, report(t, w, third, done("d")))
	require.Equal(t, schemas.Conflict, code(t, errOf2(w.Reissue(t.Context(), "t", "a", nil, nil))), "it has ended")

	w.file(t, "b")
	_, token := w.take(t, "pool-1")
	require.NoError(t, errOf(w.Release(t.Context(), token)))
	require.Equal(t, schemas.Conflict, code(t, errOf2(w.Reissue(t.Context(), "t", "b", nil, nil))), "it is the pool's for good")
	require.Equal(t, schemas.NotFound, code(t, errOf2(w.Reissue(t.Context(), "other", "b", nil, nil))))
}
