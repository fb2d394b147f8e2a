package tasks_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/tasks"
	"weir/internal/activetasks"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

func TestAPoolTakesTheOldest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, own := w.file(t, "a")
	w.pass(time.Second)
	w.file(t, "b")
	v, token := w.take(t, "pool-1")
	require.Equal(t, "a", v.Ref.ID)
	require.Equal(t, 1, v.Lease)
	require.Equal(t, schemas.TaskStatusRunning, v.Task.Status)
	for range 2 {
		again, none := w.take(t, "pool-1")
		require.Empty(t, none, "its token is shown once")
		require.Equal(t, v.Ref, again.Ref, "what it has it keeps")
		again, none = w.take(t, token)
		require.Empty(t, none)
		require.Equal(t, v.Ref, again.Ref)
		require.Equal(t, 1, again.Lease)
	}
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), own))), "its own token is dead for good")
	other, _ := w.take(t, "pool-2")
	require.Equal(t, "b", other.Ref.ID)
	require.NoError(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-2")))

	require.Equal(t, schemas.NotFound, code(t, errOf2(w.AuthorizeOrLease(t.Context(), "stranger"))), "another tenant has none of them")
	require.Equal(t, schemas.Forbidden, code(t, errOf2(w.AuthorizeOrLease(t.Context(), "reader"))))

	require.NoError(t, report(t, w, "pool-1", done("d")), "the pool's token acts for what it has")
	require.NoError(t, report(t, w, "pool-1", done("d")), "the same again is the same")
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, "pool-1", done("e"))), "and has nothing then")
	require.NoError(t, report(t, w, token, done("d")), "but the lease's had it to the end")
	_, _, err := w.AuthorizeOrLease(t.Context(), "pool-1")
	require.Equal(t, schemas.NotFound, code(t, err))
	rich, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok)
	require.Equal(t, time.Second, rich.RetryAfter)
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReported}, w.whats(t, v.Ref))
}

// TestOneReportEndsOneTask: a repeat with the token of a pool's agent ends no other task of it.
func TestOneReportEndsOneTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a, _ := w.file(t, "a")
	w.pass(time.Second)
	b, _ := w.file(t, "b")
	_, leased := w.take(t, "pool-1")
	w.deaf.Store(true)
	_, other := w.await(t, worker)
	for name, err := range map[string]error{
		"report": report(t, w, "pool-1", done("d")), "question": errOf(ask(t, w, "pool-1", "q", "")), "release": errOf(w.Release(t.Context(), "pool-1")),
		"output": errOf(w.Output(t.Context(), "pool-1", piece(0, "x"))),
	} {
		require.Equal(t, schemas.Conflict, code(t, err), name)
		require.ErrorContains(t, err, "the lease's own token", name)
	}
	require.NoError(t, report(t, w, leased, done("d")))
	require.NoError(t, report(t, w, "pool-1", done("d")), "it holds one")
	require.NoError(t, report(t, w, other, done("d")), "which this has ended")
	for _, ref := range []schemas.Ref{a, b} {
		w.write(t, ref, settled(schemas.OutcomeSucceeded))
		require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReported}, w.whats(t, ref))
	}
	w.deaf.Store(false)
	require.NoError(t, report(t, w, "pool-1", done("d")), "also once it is settled")
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, "pool-1", failed("d"))))
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, "pool-2", done("d"))), "another has reported nothing")
	w.file(t, "c")
	_, _ = w.take(t, "pool-1")
	require.NoError(t, report(t, w, "pool-1", done("d")), "what it leased afterwards has a report of its own")
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReported}, w.whats(t, schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "c"}))

	w.believes(lying{{Ref: schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "gone"}, Lease: 1, Holder: "p1"}})
	require.Equal(t, schemas.TaskNotRunning, code(t, report(t, w, "pool-1", done("d"))), "history has dropped it")
}

// TestTheCacheMayBeLate: the log decides, whatever the cache shows.
func TestTheCacheMayBeLate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.file(t, "a")
	w.deaf.Store(true)
	ref, _ := w.file(t, "b")
	w.write(t, schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "a"}, settled(schemas.OutcomeCanceled))
	v, _ := w.take(t, "pool-1")
	require.Equal(t, ref, v.Ref, "what has ended is passed over, and what is new is found")

	w.write(t, ref, status(schemas.TaskEvent{What: schemas.TaskLost, Lease: 1}))
	v, token := w.take(t, "pool-1")
	require.Equal(t, 2, v.Lease, "what it has lost it leases anew")
	require.NotEmpty(t, token)

	w.set(func() { w.reads = fault.ErrUnavailable })
	require.Equal(t, schemas.Unavailable, code(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-2"))))
}

func TestGivingBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref, own := w.file(t, "a")
	_, token := w.take(t, "pool-1")
	got, err := w.Release(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, ref, got)
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Release(t.Context(), token))), "the token is dead")
	require.Equal(t, schemas.Unauthorized, code(t, errOf(w.Send(t.Context(), own))), "and its own stays so")
	s, _ := w.fold(t, ref)
	require.Equal(t, schemas.TaskStatusQueued, s.Status)
	require.NoError(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-2")))
	require.NoError(t, errOf(w.Release(t.Context(), "pool-2")), "the pool's own token will do")
	require.Equal(t, schemas.TaskNotRunning, code(t, errOf(w.Release(t.Context(), "pool-2"))))

	ref, own = w.file(t, "b", pool(schemas.PoolNone))
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Release(t.Context(), own))))
	require.Empty(t, w.whats(t, ref))
}

// TestOneLease has many agents race for one task.
func TestOneLease(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *tasks.Config) {
		c.Verify = func(token string) (schemas.Token, error) {
			return schemas.Token{ID: token, Tenant: "t", Scopes: []string{schemas.ScopeTasksWork}}, nil
		}
	})
	ref, own := w.file(t, "a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []string
	start := make(chan struct{})
	for i := range 50 {
		wg.Go(func() {
			<-start
			if i == 0 {
				if _, err := w.Send(context.Background(), own); err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, "own")
				}
				return
			}
			v, token, err := w.AuthorizeOrLease(context.Background(), "agent-"+strconv.Itoa(i))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, token)
				require.Equal(t, 1, v.Lease)
			} else {
				require.Equal(t, schemas.NotFound, code(t, err))
			}
		})
	}
	close(start)
	wg.Wait()
	require.Len(t, won, 1)
	require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed}, w.whats(t, ref))
	_, err := w.Send(t.Context(), own)
	require.Equal(t, won[0] == "own", err == nil)
}

var worker = schemas.Token{Tenant: "t", ID: "p1", Pools: []string{schemas.PoolDefault}}

func TestWaitingForALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		begun := time.Now()
		_, token, err := w.Await(t.Context(), worker, 30*time.Second)
		require.NoError(t, err)
		require.Empty(t, token)
		require.Equal(t, 30*time.Second, time.Since(begun))

		got := make(chan string, 1)
		await := func(ctx context.Context) {
			go func() {
				_, token, err := w.Await(ctx, worker, time.Hour)
				if err != nil {
					token = err.Error()
				}
				got <- token
			}()
			synctest.Wait()
		}
		await(t.Context())
		w.file(t, "other", pool("other"))
		synctest.Wait()
		require.Empty(t, got, "a change that is none of its business")
		w.file(t, "a")
		require.NoError(t, errOf(w.Send(t.Context(), <-got)))

		// Who has gone gets nothing: the task is back at once.
		ctx, cancel := context.WithCancel(t.Context())
		await(ctx)
		cancel()
		require.Empty(t, <-got)
		ref, _ := w.file(t, "b")
		await(ctx)
		require.Empty(t, <-got)
		require.Equal(t, []schemas.TaskWhat{schemas.TaskClaimed, schemas.TaskReleased}, w.whats(t, ref))
		_, token = w.await(t, worker)
		require.NotEmpty(t, token)

		await(t.Context())
		close(w.drain)
		require.Empty(t, <-got, "nor does anybody wait at a node that goes down")
	})
}

func TestKeepingALease(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, time.Minute, w.Lease())
	ref, _ := w.file(t, "a:b")
	_, token := w.take(t, "pool-1")
	enter := func() {
		require.NoError(t, errOf(w.Send(t.Context(), token)))
	}
	for range 10 {
		enter()
	}
	key := schemas.EscapeToken("t") + "." + schemas.EscapeToken("a:b")
	require.Equal(t, key+".1", task.LeaseKey(ref, 1))
	require.Equal(t, []string{key + `.1 {"lease":1}`}, w.leases.all(), "once in a while")
	for range 4 {
		w.pass(5 * time.Second)
		enter()
		w.Touch(t.Context(), ref, 1)
	}
	require.Len(t, w.leases.all(), 2)
	w.pass(15 * time.Second)
	w.leases.broken = errors.New("away")
	enter()
	w.leases.broken = nil
	enter()
	require.Len(t, w.leases.all(), 3, "what was not written is written with the next")
	w.Touch(t.Context(), ref, 2)
	w.Touch(t.Context(), ref, 0)
	w.Touch(t.Context(), ref, 1) // a straggler: it neither writes over the newer lease's word nor makes that due again
	w.Touch(t.Context(), ref, 2)
	require.Equal(t, []string{key + `.2 {"lease":2}`}, w.leases.all()[3:], "another lease is another word, in a place of its own")
}

// TestTheCacheMayBeWrong: what it shows is not leased for being shown.
func TestTheCacheMayBeWrong(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other, _ := w.file(t, "y", pool("y"))
	taken, token := w.file(t, "own")
	require.NoError(t, errOf(w.Send(t.Context(), token)))
	leased, _ := w.file(t, "leased", pool("x"))
	_, _ = w.await(t, schemas.Token{Tenant: "t", ID: "p2", Pools: []string{"x"}})
	none := schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "none"}
	var wrong lying
	for _, ref := range []schemas.Ref{other, taken, leased, none} {
		wrong = append(wrong, activetasks.Entry{Ref: ref, Pool: "x", Leasable: true})
	}
	w.believes(wrong)
	_, token, err := w.AuthorizeOrLease(t.Context(), "pool-x")
	require.Equal(t, schemas.NotFound, code(t, err))
	require.Empty(t, token)
	require.Empty(t, w.whats(t, other))
	require.Len(t, w.whats(t, taken), 1)
	require.Len(t, w.whats(t, leased), 1)
	w.believes(lying{{Ref: leased, Lease: 1, Holder: "p1", Leased: true}})
	require.Equal(t, schemas.TaskNotRunning, code(t, errOf(w.Send(t.Context(), "pool-1"))), "nor held")
}

// TestTwoRequestsOfOneToken come just so that each would lease a task of its own.
func TestTwoRequestsOfOneToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		w.file(t, "a")
		w.file(t, "b")
		second := make(chan string, 1)
		w.set(func() {
			w.between = func(schemas.Append) {
				go func() {
					v, _, err := w.AuthorizeOrLease(t.Context(), "pool-1")
					if err != nil {
						v.Ref.ID = err.Error()
					}
					second <- v.Ref.ID
				}()
				synctest.Wait()
			}
		})
		v, _ := w.take(t, "pool-1")
		require.Equal(t, v.Ref.ID, <-second)

		// Who waits for its turn may go.
		ctx, cancel := context.WithCancel(t.Context())
		w.file(t, "c")
		w.set(func() {
			w.between = func(schemas.Append) {
				go func() {
					_, _, err := w.AuthorizeOrLease(ctx, "pool-2")
					second <- string(problem.Of(err).Code)
				}()
				synctest.Wait()
				cancel()
				synctest.Wait()
			}
		})
		require.NoError(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-2")))
		require.Equal(t, string(schemas.Unavailable), <-second)
	})
}

// TestEntriesOfAWorker: who may use some entries of the policy only gets no task that may
// use others, and is not kept from those behind it.
func TestEntriesOfAWorker(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 20 { // more than are looked at for one lease
		w.file(t, "e"+strconv.Itoa(i))
		w.pass(time.Second)
	}
	w.entries = nil
	w.file(t, "all")
	require.Equal(t, schemas.NotFound, code(t, errOf2(w.AuthorizeOrLease(t.Context(), "pool-f"))), "as if there were none")
	limited := schemas.Token{Tenant: "t", ID: "pf", Entries: []string{"f"}}
	_, token := w.await(t, limited)
	require.Empty(t, token)
	w.entries = []string{"f"}
	mine, _ := w.file(t, "mine")
	v, _ := w.take(t, "pool-f")
	require.Equal(t, mine, v.Ref)
	v, _ = w.take(t, "pool-e")
	require.Equal(t, "e0", v.Ref.ID)
	v, token = w.await(t, schemas.Token{Tenant: "t", ID: "p9"})
	require.NotEmpty(t, token)
	require.Equal(t, "e1", v.Ref.ID, "who may use all entries has all tasks")

	w.believes(w.cache.Leasable("t", func(activetasks.Entry) bool { return true }, 100))
	_, token = w.await(t, limited)
	require.Empty(t, token, "the task's own events decide")
}

// TestHold keeps a lease that nobody calls with, until it is let go.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *tasks.Config) { c.Now = time.Now })
		g := task.Grant{Tenant: "t", TaskID: "a", Lease: 2}
		release := w.Hold(g)
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		pass(15*time.Second - time.Nanosecond)
		require.Empty(t, w.leases.all(), "whoever came in was heard of just now")
		pass(time.Nanosecond)
		require.Equal(t, []string{`t.a.2 {"lease":2}`}, w.leases.all())
		pass(9 * time.Minute)
		require.Len(t, w.leases.all(), 37, "as often as calls would")
		again := w.Hold(g)
		pass(time.Minute)
		require.Len(t, w.leases.all(), 41, "two requests are no more than one")
		release()
		pass(time.Minute)
		require.Len(t, w.leases.all(), 45)
		again()
		pass(time.Hour)
		require.Len(t, w.leases.all(), 45)
		for _, none := range []task.Grant{{Tenant: "t", TaskID: "a"}, {Tenant: "t", Lease: 1}} {
			release := w.Hold(none)
			pass(time.Minute)
			release()
		}
		require.Len(t, w.leases.all(), 45, "who holds no lease keeps none")
	})
}

// A pool's agent leases no task that may use models which it may not, and holds what
// it has leased by whatever it shows.
func TestModelsOfALease(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.file(t, "all")
	w.models = []string{"a/1", "b"}
	w.file(t, "other")
	w.models = []string{"a/1"}
	mine, _ := w.file(t, "mine")
	_, ok, err := w.Holds(t.Context(), "t", "p9")
	require.NoError(t, err)
	require.False(t, ok)
	v, token := w.await(t, schemas.Token{Tenant: "t", ID: "p9", Models: []string{"a/*"}})
	require.NotEmpty(t, token)
	require.Equal(t, mine, v.Ref)
	require.Equal(t, []string{"a/1"}, v.Identity().Models)
	_, token = w.await(t, schemas.Token{Tenant: "t", ID: "p9", Models: []string{"a/*"}})
	require.Empty(t, token)

	v, ok, err = w.Holds(t.Context(), "t", "p9")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, mine, v.Ref)
	require.Equal(t, 1, v.Lease)
	_, ok, err = w.Holds(t.Context(), "other", "p9")
	require.NoError(t, err)
	require.False(t, ok)

	refused := errOf2(w.Reissue(t.Context(), "t", "other", task.Bounds{Models: []string{"a/*"}}))
	require.Equal(t, schemas.Forbidden, code(t, refused), "it would give more than the asker has")
	require.NoError(t, errOf2(w.Reissue(t.Context(), "t", "other", task.Bounds{Models: []string{"a/*", "b"}})))
}
