package tasks_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// TestALookChangesNothing, and is refused as a request that would be.
func TestALookChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.queue(t, "a")
	v, err := w.Look(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, ref, v.Ref)
	require.Equal(t, schemas.TaskStatusQueued, v.Task.Status)
	require.Equal(t, "a", v.Identity().Task())
	require.Empty(t, w.whats(t, ref), "nobody has taken it")

	pooled, own := w.file(t, "pooled")
	_, leased := w.take(t, "pool-1")
	before := len(w.leases.all())
	v, err = w.Look(t.Context(), "pool-1")
	require.NoError(t, err)
	require.Equal(t, pooled, v.Ref)
	require.NoError(t, errOf(w.Look(t.Context(), leased)))
	require.Len(t, w.leases.all(), before, "nor is its holder heard of")

	w.write(t, ref, settled(schemas.OutcomeCanceled))
	for name, text := range map[string]string{"of an ended task": token, "of a leased task": own, "nothing": "", "another secret": w.Secret().Text(ref, 0)} {
		require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Look(t.Context(), text))), name)
	}
}

func TestWhoMayNotEnterHearsTheSame(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	_, before := w.file(t, "before")
	_, leased := w.take(t, "pool-1")
	require.NotEmpty(t, leased)
	_, over := w.file(t, "over")
	w.write(t, schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "over"}, settled(schemas.OutcomeCanceled))
	_, asked := w.file(t, "asked")
	_, err := w.control.CancelTask(t.Context(), "t", "asked")
	require.NoError(t, err)

	secret := w.Secret()
	// The text of the token that is in force, rewritten for other leases: an underscore may be in its secret.
	rewritten := func(lease int) string {
		const size = 43 // of 32 bytes
		other := secret.Text(ref, lease)
		return other[:len(other)-size] + leased[len(leased)-size:]
	}
	require.Equal(t, leased, rewritten(1))
	answers := map[string]bool{}
	for name, text := range map[string]string{
		"nothing":             "",
		"another secret":      secret.Text(ref, 0),
		"an unknown task":     secret.Text(schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "none"}, 0),
		"an unknown tenant":   secret.Text(schemas.Ref{Tenant: "u", Kind: schemas.KindTask, ID: "a"}, 0),
		"another lease":       secret.Text(ref, 1),
		"a lease before":      rewritten(0),
		"a lease to come":     rewritten(2),
		"more behind it":      token + "x",
		"cut off":             token[:len(token)-1],
		"in capitals":         strings.ToUpper(token),
		"of a leased task":    token,
		"of an ended task":    over,
		"of a task to cancel": asked,
	} {
		_, err := w.Send(t.Context(), text)
		require.Equal(t, schemas.Unauthorized, code(t, err), name)
		answers[err.Error()] = true
		require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Grant(t.Context(), text))), name)
	}
	delete(answers, "UNAUTHORIZED: who are you") // of what is no task's token
	require.Len(t, answers, 1, "nothing tells them apart")
	require.NoError(t, errOf(w.Send(t.Context(), before)))
}

func TestWithoutTheLogNobodyKnows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	for _, ask := range []func() error{
		func() error { _, err := w.Send(t.Context(), token); return err },
		func() error { _, err := w.Grant(t.Context(), token); return err },
		func() error { _, _, err := w.AuthorizeOrLease(t.Context(), token); return err },
		func() error { _, err := w.Release(t.Context(), token); return err },
		func() error { return report(t, w, token, done("d")) },
		func() error { _, err := ask(t, w, token, "q", ""); return err },
		func() error { _, err := w.Output(t.Context(), token, piece(0, "x")); return err },
	} {
		w.set(func() { w.reads = fault.ErrUnavailable })
		require.Equal(t, schemas.Unavailable, code(t, ask()))
		w.set(func() { w.reads = nil })
	}
	require.Empty(t, w.whats(t, ref))
	for _, plant := range []func(){
		func() { w.before = errors.New("private") },
		func() { w.barrier = errors.New("private") },
	} {
		w.set(plant)
		_, err := w.Send(t.Context(), token)
		require.Equal(t, schemas.Unavailable, code(t, err))
		require.NotContains(t, err.Error(), "private")
		w.set(func() { w.before, w.barrier = nil, nil })
	}
	w.set(func() { w.before = fault.ErrFull })
	require.Equal(t, schemas.LogFull, code(t, report(t, w, token, done("d"))))
	w.set(func() { w.before = fault.ErrTooLarge })
	require.Equal(t, schemas.PayloadTooLarge, code(t, report(t, w, token, done("d"))))
	w.set(func() { w.before, w.after = nil, fault.ErrUnavailable })
	require.NoError(t, report(t, w, token, done("d")), "an acknowledgement that was lost is found")
	w.set(func() { w.after, w.barrier = nil, errors.New("private") })
	require.Equal(t, schemas.Unavailable, code(t, report(t, w, token, done("d"))), "a repeat says nothing before the first is durable")
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReported}, w.whats(t, ref))
}

func TestATaskThatCannotBeReadLetsNobodyIn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	_, err := w.log.Append(t.Context(), schemas.Append{Subject: w.ledger.Layout().Subject(ref, schemas.SectionWake), Data: []byte("{")})
	require.NoError(t, err)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), token))))
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Answer(t.Context(), "t", "a", schemas.AnswerRequest{}, ""))))
}

// TestClocksThatJump: what is over by the clock is over, and only for as long as the
// clock says so; what stands on the log stays.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, token := w.file(t, "a")
	w.pass(time.Hour)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), token))), "at its deadline it has ended")
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, token, done("d"))))
	require.Equal(t, schemas.NotFound, code(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-1"))), "nothing is leased that is over")
	w.pass(-2 * time.Hour)
	_, leased := w.take(t, "pool-1")
	for range 3 {
		w.pass(-time.Hour)
		require.NoError(t, errOf(w.Send(t.Context(), leased)), "a clock that is set back loses no lease")
	}
	require.Len(t, w.leases.all(), 3, "and each time it is written down again")
	w.pass(24 * time.Hour)
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, leased, done("d"))))
}

func TestGrants(t *testing.T) {
	t.Parallel()
	w := setup(t)
	change := func(o *schemas.TaskOrder) { o.Branch, o.BaseRef, o.ForcePush = "mine", "dev", true }
	_, own := w.file(t, "own", change)
	g, err := w.Grant(t.Context(), own)
	require.NoError(t, err)
	want := task.Grant{
		Tenant: "t", TaskID: "own", Repo: "r", Branch: "mine", Base: "dev", Opened: true, Force: true, Principal: "me", Entries: []string{"e"},
	}
	require.Len(t, g.Key, 16)
	g.Key = ""
	require.Equal(t, want, g)
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed}, w.whats(t, schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "own"}), "git takes the task like any other request")

	for token, want := range map[string]task.Grant{
		"reader": {Tenant: "t", Principal: "r", Entries: []string{"e"}},
		"writer": {Tenant: "t", Principal: "w"},
		"admin":  {Tenant: "t", Principal: "a"},
	} {
		g, err := w.Grant(t.Context(), token)
		require.NoError(t, err, token)
		require.Equal(t, want, g, token)
	}
	for token, want := range map[string]schemas.Code{
		"evidence": schemas.Forbidden, "pool-1": schemas.TaskNotRunning, "nobody": schemas.Unauthorized, "": schemas.Unauthorized,
	} {
		g, err := w.Grant(t.Context(), token)
		require.Equal(t, want, code(t, err), token)
		require.Zero(t, g)
	}

	w.file(t, "pooled", change)
	_, leased := w.take(t, "pool-1")
	want.TaskID, want.Lease, want.Holder = "pooled", 1, "p1"
	for _, token := range []string{"pool-1", leased} {
		g, err = w.Grant(t.Context(), token)
		require.NoError(t, err)
		require.Len(t, g.Key, 16)
		g.Key = ""
		require.Equal(t, want, g)
	}
	open := tasks.NewService(w.ledger, w.cache, w.leases, tasks.Config{Now: w.clock})
	_, err = open.Grant(t.Context(), "reader")
	require.Equal(t, schemas.Unauthorized, code(t, err), "where there are no tokens but those of tasks")
	_, err = open.Grant(t.Context(), leased)
	require.NoError(t, err)
}

func done(text string) schemas.TaskReport {
	return schemas.TaskReport{Completed: true, Description: text}
}

func failed(text string) schemas.TaskReport {
	return schemas.TaskReport{Description: text, Reason: schemas.ReasonTaskIssues}
}

func report(tb testing.TB, w *world, token string, r schemas.TaskReport) error {
	tb.Helper()
	_, err := w.Report(tb.Context(), token, func() (schemas.TaskReport, error) { return r, nil })
	return err
}

func TestTheFirstReportCounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.queue(t, "a")
	for range 3 {
		v, err := w.Send(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, ref, v.Ref)
		require.Zero(t, v.Lease)
		require.Equal(t, schemas.TaskStatusRunning, v.Task.Status)
	}
	claimed, _ := w.fold(t, ref)
	require.True(t, claimed.Own)
	require.Empty(t, w.leases.all(), "its own token is never lost")
	require.NoError(t, report(t, w, token, done("d")))
	require.NoError(t, report(t, w, token, done("d")), "the same again is no error")
	for _, r := range []schemas.TaskReport{done("e"), failed("d"), {Description: "d"}} {
		err := report(t, w, token, r)
		require.Equal(t, schemas.TaskNotRunning, code(t, err))
		require.ErrorContains(t, err, "Task is not running")
	}
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), token))), "its token stops working at once")
	require.Equal(t, schemas.Unauthorized, code(t, errOf(ask(t, w, token, "q", ""))))
	require.Equal(t, schemas.Unauthorized, code(t, report(t, w, w.Secret().Text(ref, 0), done("d"))), "another's says nothing of it")
	for _, settle := range []bool{false, true} {
		if settle {
			w.write(t, ref, settled(schemas.OutcomeSucceeded))
		}
		v, _ := w.take(t, token)
		require.Equal(t, schemas.TaskStatusCompleted, v.Task.Status)
		require.Equal(t, schemas.Unauthorized, code(t, errOf2(w.AuthorizeOrLease(t.Context(), w.Secret().Text(ref, 0)))), "another's may not")
		require.True(t, w.Knows(t.Context(), token))
		require.False(t, w.Knows(t.Context(), w.Secret().Text(ref, 0)))
		require.False(t, w.Knows(t.Context(), "pool-1"))
	}
	require.NoError(t, report(t, w, token, done("d")), "also once it is settled")
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReported}, w.whats(t, ref))
	s, st := w.fold(t, ref)
	require.Equal(t, schemas.TaskStatusCompleted, s.Status)
	require.Equal(t, schemas.TaskStatusCompleted, st.Events[2].Task.Status)
	require.Equal(t, schemas.TaskStatusRunning, st.Events[1].Task.Status)

	_, err := w.control.CancelTask(t.Context(), "t", "a")
	require.Equal(t, schemas.Conflict, code(t, err))
}

// TestWhatABodySaysIsLookedAtLast: nobody learns from it what is wrong with it who may not send it.
func TestWhatABodySaysIsLookedAtLast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, token := w.file(t, "a")
	read := false
	bad := fault.New(schemas.ValidationError, "bad")
	try := func(token string) (error, error) {
		read = false
		_, err := w.Report(t.Context(), token, func() (schemas.TaskReport, error) { read = true; return schemas.TaskReport{}, bad })
		_, _, also := w.Ask(t.Context(), token, func() (string, string, error) { read = true; return "", "", bad })
		return err, also
	}
	for _, token := range []string{"", w.Secret().Text(ref, 0), "pool-1", "reader"} {
		_, _ = try(token)
		require.False(t, read, token)
	}
	one, two := try(token)
	require.Equal(t, bad, one)
	require.Equal(t, bad, two)
	require.Empty(t, w.whats(t, ref), "and a bad one does nothing")
}

func TestATaskTokenHasARate(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *tasks.Config) { c.Rate = "3/s" })
	_, token := w.file(t, "a")
	_, other := w.file(t, "b")
	for range 3 {
		require.NoError(t, errOf(w.Send(t.Context(), token)))
	}
	require.Equal(t, schemas.RateLimited, code(t, errOf(w.Send(t.Context(), token))))
	require.Equal(t, schemas.RateLimited, code(t, report(t, w, token, done("d"))))
	require.NoError(t, errOf(w.Send(t.Context(), other)), "each has its own")
	w.pass(time.Second)
	require.NoError(t, report(t, w, token, done("d")))

	closed := setup(t, func(c *tasks.Config) { c.Rate = "many" })
	_, token = closed.file(t, "a")
	_, _ = closed.Send(t.Context(), token)
	_, err := closed.Send(t.Context(), token)
	require.Equal(t, schemas.RateLimited, code(t, err), "a rate that was not checked lets nothing pass")
}

// TestSomebodyElseWasFirst: what was decided from a state that has moved on is decided again.
func TestSomebodyElseWasFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, _ := w.file(t, "a")
	_, token := w.take(t, "pool-1")
	first := func(e schemas.TaskEvent) {
		w.set(func() { w.between = func(schemas.Append) { w.write(t, ref, status(e)) } })
	}
	first(schemas.TaskEvent{What: schemas.TaskPushed, Head: "h"})
	n, err := ask(t, w, token, "q", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	first(schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: 2, Text: "r"}})
	n, err = ask(t, w, token, "q2", "")
	require.NoError(t, err)
	require.Equal(t, 3, n, "the number is another's by now")
	first(schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: 4, Text: "q3"}})
	n, err = ask(t, w, token, "q3", "")
	require.NoError(t, err)
	require.Equal(t, 4, n, "and so is the question")
	first(schemas.TaskEvent{What: schemas.TaskLost, Lease: 1})
	require.Equal(t, schemas.Unauthorized, code(t, report(t, w, token, done("d"))), "the lease was lost just then")
	s, _ := w.fold(t, ref)
	require.Len(t, s.Inquiries, 4)
	require.Nil(t, s.Report)

	busy := true
	var again func(schemas.Append)
	again = func(schemas.Append) {
		if busy {
			busy = false
			w.write(t, ref, status(schemas.TaskEvent{What: schemas.TaskPushed, Head: "h"}))
			busy = true
		}
		w.set(func() { w.between = again })
	}
	w.set(func() { w.between = again })
	refused := errOf(w.Answer(t.Context(), "t", "a", schemas.AnswerRequest{Inquiry: 1, Answer: "x"}, ""))
	require.Equal(t, schemas.Unavailable, code(t, refused), "a task that never rests")
}

// TestSecretsThatNeverWere are refused without a look at their task once there were many.
func TestSecretsThatNeverWere(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *tasks.Config) { c.Rate = "3/s" })
	ref, token := w.file(t, "a")
	_, other := w.file(t, "b")
	require.NoError(t, errOf(w.Send(t.Context(), token)))
	made := func() string { return w.Secret().Text(ref, 0) }
	tries := []func() error{
		func() error { _, err := w.Send(t.Context(), made()); return err },
		func() error { return report(t, w, made(), done("d")) },
		func() error { _, err := w.Release(t.Context(), made()); return err },
	}
	for _, try := range tries {
		require.Equal(t, schemas.Unauthorized, code(t, try()))
	}
	gone := schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "never"}
	tries = append(tries, func() error { _, err := w.Send(t.Context(), w.Secret().Text(gone, 3)); return err })
	w.set(func() { w.reads = errors.New("it looks") })
	var rich *fault.Error
	for _, try := range tries {
		err := try()
		require.Equal(t, schemas.RateLimited, code(t, err))
		require.ErrorAs(t, err, &rich)
		require.InDelta(t, float64(time.Second)/3, float64(rich.RetryAfter), float64(time.Millisecond))
	}
	w.set(func() { w.reads = nil })
	require.NoError(t, errOf(w.Send(t.Context(), token)), "who is known is counted for itself")
	require.Equal(t, schemas.RateLimited, code(t, errOf(w.Send(t.Context(), other))), "who is not waits its turn")
	w.pass(rich.RetryAfter)
	require.NoError(t, errOf(w.Send(t.Context(), other)))
	require.Equal(t, schemas.Unauthorized, code(t, tries[0]()), "and who was found to be right used nothing up")
	require.Equal(t, schemas.RateLimited, code(t, tries[0]()))
}

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

	w.pass(time.Minute)
	asks("may I?", "", 4) // by now its answer has come, and it is another question

	asks("may I?", "k1", 5)
	asks("may I?", "k2", 6) // a key tells it from others
	asks("may I?", "k1", 5)
	require.Equal(t, schemas.IdempotencyMismatch, code(t, errOf(ask(t, w, token, "another", "k1"))))

	s, st := w.fold(t, ref)
	require.Len(t, s.Inquiries, 6)
	require.Equal(t, "anna", s.Inquiries[0].By)
	require.Equal(t, "yes", *s.Inquiries[0].Answer)
	require.Equal(t, schemas.TaskClaimed, st.Events[1].Task.What, "asking takes the task, too")

	require.NoError(t, report(t, w, token, done("d")))
	require.Equal(t, schemas.Conflict, code(t, answer(4, "late")))
	require.NoError(t, answer(1, "yes"), "what was answered stays so")
	for _, id := range []string{"none", "", "a*", ">"} {
		require.Equal(t, schemas.NotFound, code(t, errOf(w.Answer(t.Context(), "t", id, schemas.AnswerRequest{Answer: "x"}, ""))))
	}
	refused := errOf(w.Answer(t.Context(), "other", "a", schemas.AnswerRequest{Answer: "x"}, ""))
	require.Equal(t, schemas.NotFound, code(t, refused), "another tenant's task is none")
}

// TestTooMany: what an agent and people do to a task is bounded.
func TestTooMany(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		most  int
		event func(n int) schemas.TaskEvent
		more  func(w *world, token string) error
	}{
		"questions": {schemas.MaxTaskInquiries, func(n int) schemas.TaskEvent {
			return schemas.TaskEvent{What: schemas.TaskAsked, Inquiry: &schemas.TaskInquiry{N: n, Text: "q", Key: strconv.Itoa(n)}}
		}, func(w *world, token string) error {
			require.NoError(t, errOf(ask(t, w, token, "q", "1")), "a repeat is none too many")
			return errOf(ask(t, w, token, "one more", ""))
		}},
		"tokens": {schemas.MaxTaskReissues, func(int) schemas.TaskEvent {
			return schemas.TaskEvent{What: schemas.TaskReissued, TokenHash: "00"}
		}, func(w *world, _ string) error { return errOf2(w.Reissue(t.Context(), "t", "a", task.Bounds{})) }},
		"subtokens": {schemas.MaxTaskSubtokens, func(n int) schemas.TaskEvent {
			return schemas.TaskEvent{What: schemas.TaskSubtoken, Status: schemas.TaskStatusQueued, TokenHash: task.New("", "", 0, [32]byte{}).Hash(), Subtoken: &schemas.Subtoken{N: n}}
		}, func(w *world, token string) error {
			return errOf2(w.Delegate(t.Context(), token, func() (schemas.SubtokenRequest, error) { return schemas.SubtokenRequest{}, nil }))
		}},
	} {
		w := setup(t)
		ref, token := w.file(t, "a")
		events := make([]schemas.Event, tc.most)
		for i := range events {
			e := tc.event(i + 1)
			events[i] = schemas.Event{Type: schemas.EventSignal, Task: &e}
		}
		w.write(t, ref, events...)
		err := tc.more(w, token)
		require.Equal(t, schemas.Conflict, code(t, err), name)
		require.ErrorContains(t, err, strconv.Itoa(tc.most), name)
	}
}

func TestAnotherToken(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, first := w.file(t, "a")
	require.NoError(t, errOf(w.Send(t.Context(), first)))
	got, second, err := w.Reissue(t.Context(), "t", "a", task.Bounds{})
	require.NoError(t, err)
	require.Equal(t, ref, got)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), first))), "the one before is dead")
	require.NoError(t, errOf(w.Send(t.Context(), second)))

	for _, entries := range [][]string{{"x"}, {"x", "y"}} {
		refused := errOf2(w.Reissue(t.Context(), "t", "a", task.Bounds{Entries: entries}))
		require.Equal(t, schemas.Forbidden, code(t, refused), "it would give more than the asker has")
	}
	_, third, err := w.Reissue(t.Context(), "t", "a", task.Bounds{Entries: []string{"x", "e"}})
	require.NoError(t, err)
	require.Equal(t, schemas.Unauthorized, code(t, report(t, w, second, done("d"))))
	require.NoError(t, report(t, w, third, done("d")))
	require.Equal(t, schemas.Conflict, code(t, errOf2(w.Reissue(t.Context(), "t", "a", task.Bounds{}))), "it has ended")

	w.file(t, "b")
	_, token := w.take(t, "pool-1")
	require.NoError(t, errOf(w.Release(t.Context(), token)))
	require.Equal(t, schemas.Conflict, code(t, errOf2(w.Reissue(t.Context(), "t", "b", task.Bounds{}))), "it is the pool's for good")
	require.Equal(t, schemas.NotFound, code(t, errOf2(w.Reissue(t.Context(), "other", "b", task.Bounds{}))))
}
