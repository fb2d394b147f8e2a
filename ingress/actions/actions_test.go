package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

type world struct {
	*actions.Control
	ledger *ledger.Ledger
	log    *memlog.Log
	accept *accept.Acceptor
	nudged []schemas.Ref
	stop   func(ref schemas.Ref) // nil: nobody hears of it

	mu      sync.Mutex
	before  func(schemas.Append) error
	barrier error
}

func now() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func setup(t *testing.T) *world {
	t.Helper()
	return setupWith(t, false)
}

func setupWith(t *testing.T, noEnds bool) *world {
	t.Helper()
	w := &world{}
	layout := schemas.Layout{Partitions: 2, Lanes: 8}
	w.log = memlog.New(layout, now, memlog.Hooks{Before: func(m schemas.Append) error {
		w.mu.Lock()
		f := w.before
		w.mu.Unlock()
		if f == nil {
			return nil
		}
		return f(m)
	}})
	w.ledger = ledger.New(w.log, layout, now)
	w.accept = accept.New(w.ledger, accept.Config{Now: now})
	w.Control = actions.New(w.ledger, actions.Config{
		Barrier: func(context.Context) error { return w.barrier },
		Nudge:   func(ref schemas.Ref) { w.nudged = append(w.nudged, ref) },
		Stop: func(ref schemas.Ref) {
			if w.stop != nil {
				w.stop(ref)
			}
		},
		NoEnds: noEnds, StoreTimeout: 2 * time.Second,
	})
	return w
}

func (w *world) plant(f func(schemas.Append) error) { w.mu.Lock(); defer w.mu.Unlock(); w.before = f }

// put accepts an action and writes events after it.
func (w *world) put(t *testing.T, id string, kind schemas.Kind, events ...schemas.Event) schemas.Ref {
	t.Helper()
	payload := json.RawMessage(`{"method":"POST","url":"http://h/"}`)
	if kind == schemas.KindPush {
		payload = json.RawMessage(`{"repo":"r","ref":"refs/heads/b","old":"0","new":"1","task_id":"t","lease":1,"branch":"b","report":true,"side_band":true}`)
	}
	if kind == schemas.KindRule {
		payload = json.RawMessage(`{"operation":"global.off","request_id":"r","caller":"open","if_match":"e"}`)
	}
	out, err := w.accept.Accept(t.Context(), accept.Request{
		Name: accept.Name{ID: id, Source: schemas.IDRequest}, Tenant: "t", Kind: kind, Payload: payload,
	})
	require.NoError(t, err)
	w.write(t, out.Ref, events...)
	return out.Ref
}

func (w *world) write(t *testing.T, ref schemas.Ref, events ...schemas.Event) {
	t.Helper()
	for _, ev := range events {
		st := w.load(t, ref)
		require.NoError(t, w.ledger.Append(t.Context(), st, ev))
	}
}

func started() schemas.Event {
	return schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}
}

func settled(o schemas.Outcome) schemas.Event {
	return schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: o}}
}

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	var public *fault.Error
	require.ErrorAs(t, err, &public)
	return public.Code
}

func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	for _, kind := range schemas.Kinds() {
		if kind == schemas.KindTask {
			continue // see TestATaskIsAskedToStop
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			ref := w.put(t, "x", kind)
			s := w.cancel(t)
			require.Equal(t, "canceled", s.Status)
			require.False(t, s.CancelRequested)
			require.Empty(t, w.nudged, "nobody runs it")
			st := w.load(t, ref)
			require.Equal(t, schemas.OutcomeCanceled, st.Settled.Outcome)
			require.Equal(t, schemas.Canceled, st.Settled.Code)
			require.Equal(t, kind != schemas.KindPlan && kind != schemas.KindRepo, st.Settled.Result != nil)
			if kind == schemas.KindRun {
				var result schemas.RunResult
				require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
				require.Equal(t, string(schemas.TaskFailed), result.Error.Code)
				require.JSONEq(t, `{"code":"CANCELED"}`, string(result.Error.Details))
			}
			if kind == schemas.KindChat {
				require.JSONEq(t, `{"error":{"status":499,"message":"`+st.Settled.Message+`"}}`, string(st.Settled.Result))
			}
			if kind == schemas.KindRule {
				require.JSONEq(t, `{"operation":"global.off","request_id":"r","error":{"code":"INTERNAL_ERROR","message":"`+st.Settled.Message+`","detail":"CANCELED"}}`, string(st.Settled.Result))
			}
			if kind == schemas.KindPush {
				var result schemas.PushResult
				require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
				require.Equal(t, schemas.PushResult{Repo: "r", Ref: "refs/heads/b", Old: "0", New: "1", TaskID: "t", Reason: st.Settled.Message, Report: true, SideBand: true}, result)
			}
			require.Equal(t, schemas.Conflict, code(t, errOf(w.Cancel(t.Context(), "t", "x"))))
		})
	}
}

// TestWhereAnotherEndsActions: one that nobody has begun is asked to stop, and its worker
// hears of it.
func TestWhereAnotherEndsActions(t *testing.T) {
	t.Parallel()
	w := setupWith(t, true)
	ref := w.put(t, "x", schemas.KindHTTP)
	for range 2 {
		s := w.cancel(t)
		require.True(t, s.CancelRequested)
		require.Equal(t, "accepted", s.Status)
	}
	require.Equal(t, []schemas.Ref{ref, ref}, w.nudged)
	st := w.load(t, ref)
	require.Nil(t, st.Settled)
	require.Equal(t, 2, st.N, "it is asked once")
}

// TestATaskIsAskedToStop: what was never begun, too, for its worker tells of its end.
func TestATaskIsAskedToStop(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(w *world) (actions.Status, error){
		"as an action": func(w *world) (actions.Status, error) { return w.Cancel(t.Context(), "t", "x") },
		"as a task":    func(w *world) (actions.Status, error) { return w.CancelTask(t.Context(), "t", "x") },
	} {
		for _, events := range [][]schemas.Event{nil, {started()}} {
			w := setup(t)
			ref := w.put(t, "x", schemas.KindTask, events...)
			for range 2 {
				s, err := cancel(w)
				require.NoError(t, err, name)
				require.True(t, s.CancelRequested)
			}
			require.Equal(t, []schemas.Ref{ref, ref}, w.nudged, "its worker hears of it")
			st := w.load(t, ref)
			require.Nil(t, st.Settled)
			require.Equal(t, len(events)+2, st.N, "and is asked once")
		}
		w := setup(t)
		w.put(t, "x", schemas.KindTask, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{
			What: schemas.TaskReported, Status: schemas.TaskStatusCompleted, Report: &schemas.TaskReport{Completed: true},
		}})
		_, err := cancel(w)
		require.Equal(t, schemas.Conflict, code(t, err), "nothing undoes what its agent has said")
		require.ErrorContains(t, err, "Completed")
		require.Empty(t, w.nudged)
		w.write(t, schemas.Ref{Tenant: "t", Kind: schemas.KindTask, ID: "x"}, settled(schemas.OutcomeSucceeded))
		_, err = cancel(w)
		require.Equal(t, schemas.Conflict, code(t, err))
	}
	w := setup(t)
	w.put(t, "y", schemas.KindHTTP)
	for _, id := range []string{"y", "z", ""} {
		s, err := w.CancelTask(t.Context(), "t", id)
		require.Equal(t, schemas.NotFound, code(t, err))
		require.ErrorContains(t, err, "no task")
		require.Empty(t, s)
	}
	st, err := w.ledger.Find(t.Context(), "t", "y")
	require.NoError(t, err)
	require.Equal(t, 1, st.N)
}

// TestACancelOfATaskWakesItsWorker in the one write: whoever dies behind it has done all
// that is to be done. Others are nudged only, for a worker is at them already.
func TestACancelOfATaskWakesItsWorker(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindTask, schemas.KindHTTP} {
		w := setup(t)
		ref := w.put(t, "x", kind, started())
		_ = w.cancel(t)
		rec, err := w.log.Last(t.Context(), schemas.LogStream(w.ledger.Layout().Partition("t", "x")), w.ledger.Layout().All(ref))
		require.NoError(t, err)
		require.Equal(t, w.ledger.Layout().Subject(ref, schemas.TailSignal), rec.Subject)
		st := w.load(t, ref)
		require.Nil(t, st.Damaged)
		require.True(t, st.CancelRequested)
	}
}

func TestCancelOfARunningAction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP, started())
	for range 2 {
		s := w.cancel(t)
		require.True(t, s.CancelRequested)
		require.Equal(t, "started", s.Status)
	}
	require.Equal(t, []schemas.Ref{ref, ref}, w.nudged, "a repeat nudges again")
	st := w.load(t, ref)
	require.Equal(t, 3, st.N, "and writes nothing")
	require.Nil(t, st.Settled)
}

func TestCancelOfASettledAction(t *testing.T) {
	t.Parallel()
	for _, o := range schemas.Outcomes() {
		w := setup(t)
		w.put(t, "x", schemas.KindHTTP, started(), settled(o))
		s, err := w.Cancel(t.Context(), "t", "x")
		require.Equal(t, schemas.Conflict, code(t, err))
		require.Equal(t, string(o), s.Status)
		require.ErrorContains(t, err, string(o))
	}
}

func TestCancelOfNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(t, "x", schemas.KindHTTP)
	for _, id := range []string{"y", "", "a*b", "../etc", "a b", ">"} {
		require.Equal(t, schemas.NotFound, code(t, errOf(w.Cancel(t.Context(), "t", id))), id)
	}
	require.Equal(t, schemas.NotFound, code(t, errOf(w.Cancel(t.Context(), "other", "x"))), "another tenant's action is nothing")
}

func TestCancelLosesTheRaceToTheStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP)
	once := sync.Once{}
	w.plant(func(m schemas.Append) error {
		if _, tail, err := schemas.ParseSubject(m.Subject); err == nil && tail == schemas.TailSettled {
			once.Do(func() { w.plant(nil); w.write(t, ref, started()) })
		}
		return nil
	})
	s := w.cancel(t)
	require.True(t, s.CancelRequested, "it was running by the time")
	st := w.load(t, ref)
	require.Nil(t, st.Settled)
}

func TestCancelGivesUpOnAnActionThatNeverRests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP, started())
	busy := false
	w.plant(func(schemas.Append) error {
		if !busy {
			busy = true
			w.write(t, ref, schemas.Event{Type: schemas.EventProgress})
			busy = false
		}
		return nil
	})
	require.Equal(t, schemas.Unavailable, code(t, errOf(w.Cancel(t.Context(), "t", "x"))))
}

// TestCancelIsNotStarved by a worker that writes all the time: the log is not read again,
// and the worker hears of it before.
func TestCancelIsNotStarved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindChat, started())
	worker := w.load(t, ref)
	told, first := 0, 50
	w.stop = func(r schemas.Ref) {
		require.Equal(t, ref, r)
		require.Equal(t, 50, first, "before the first try")
		told++
	}
	w.plant(func(m schemas.Append) error {
		if ev, err := ledger.Decode(m.Data); err == nil && ev.Type == schemas.EventCancel && first > 0 {
			first--
			require.NoError(t, w.ledger.Append(t.Context(), worker, schemas.Event{Type: schemas.EventDelta}))
		}
		return nil
	})
	s := w.cancel(t)
	require.True(t, s.CancelRequested)
	require.Zero(t, first)
	require.Equal(t, 1, told)
	require.Equal(t, []schemas.Ref{ref}, w.nudged, "and once it is written")
}

// TestTheWorkerAnswersACancel that it has heard of before it was written, whether its end
// is looked for before or is found by the writing.
func TestTheWorkerAnswersACancel(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindChat, schemas.KindHTTP} {
		for outcome, want := range map[schemas.Outcome]schemas.Code{schemas.OutcomeCanceled: "", schemas.OutcomeSucceeded: schemas.Conflict} {
			w := setup(t)
			ref := w.put(t, "x", kind, started())
			w.stop = func(schemas.Ref) { w.write(t, ref, settled(outcome)) }
			s, err := w.Cancel(t.Context(), "t", "x")
			require.Equal(t, string(outcome), s.Status)
			require.False(t, s.CancelRequested)
			require.Empty(t, w.nudged)
			if want == "" {
				require.NoError(t, err, kind)
			} else {
				require.Equal(t, want, code(t, err), kind)
			}
			require.Equal(t, schemas.Conflict, code(t, errOf(w.Cancel(t.Context(), "t", "x"))), "that was another's")
		}
	}
}

func TestUnknownFateOfAChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		code schemas.Code
	}{
		"unavailable": {fault.ErrUnavailable, schemas.Unavailable},
		"full":        {fault.ErrFull, schemas.LogFull},
		"other":       {errors.New("private"), schemas.Unavailable},
	} {
		w := setup(t)
		w.put(t, "x", schemas.KindHTTP)
		w.plant(func(schemas.Append) error { return tc.err })
		require.Equal(t, tc.code, code(t, errOf(w.Cancel(t.Context(), "t", "x"))), name)
	}
	w := setup(t)
	w.put(t, "x", schemas.KindHTTP)
	w.barrier = errors.New("private")
	s, err := w.Cancel(t.Context(), "t", "x")
	require.Equal(t, schemas.Unavailable, code(t, err))
	require.Equal(t, "x", s.ID)
}

func TestReadResolution(t *testing.T) {
	t.Parallel()
	r, err := actions.ReadResolution([]byte(`{"effect":"applied","note":"seen in the ledger"}`))
	require.NoError(t, err)
	require.Equal(t, schemas.Resolution{Effect: "applied", Note: "seen in the ledger"}, r)
	for _, body := range []string{
		`{}`, `{"effect":"maybe"}`, `{"effect":5}`, `{"effect":"applied","by":"me"}`,
		`{"effect":"applied","note":"` + strings.Repeat("n", 2001) + `"}`, `{"Effect":"applied"}`,
	} {
		require.NoError(t, strict.Check([]byte(body), strict.Limits{}))
		require.Equal(t, schemas.ValidationError, code(t, errOf(actions.ReadResolution([]byte(body)))), body[:min(len(body), 40)])
	}
	require.Equal(t, schemas.InvalidRequest, code(t, errOf(actions.ReadResolution([]byte(`[]`)))), "not an object")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP, started(), settled(schemas.OutcomeUnknown))
	word := schemas.Resolution{Effect: actions.Applied, Note: "n", By: "anna"}
	s, err := w.Resolve(t.Context(), "t", "x", word)
	require.NoError(t, err)
	require.Equal(t, "applied", s.Resolution)
	require.Equal(t, "outcome_unknown", s.Status, "a resolution changes no outcome")
	_, err = w.Resolve(t.Context(), "t", "x", schemas.Resolution{Effect: actions.Applied})
	require.NoError(t, err, "the same word again")
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", "x", schemas.Resolution{Effect: actions.NotApplied}))))
	st := w.load(t, ref)
	require.Equal(t, word, *st.Resolution)
	require.Equal(t, 4, st.N)
}

func TestResolveOnlyWhatIsUnknown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP)
	word := schemas.Resolution{Effect: actions.Applied}
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", "x", word))))
	w.write(t, ref, started(), settled(schemas.OutcomeFailed))
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", "x", word))))
	require.Equal(t, schemas.NotFound, code(t, errOf(w.Resolve(t.Context(), "t", "y", word))))
}

func TestOneWordOfMany(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindHTTP, started(), settled(schemas.OutcomeUnknown))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			effect := actions.Applied
			if i%2 == 0 {
				effect = actions.NotApplied
			}
			_, _ = w.Resolve(context.Background(), "t", "x", schemas.Resolution{Effect: effect})
		})
	}
	wg.Wait()
	st := w.load(t, ref)
	require.Equal(t, 4, st.N)
}

// errOf is the error of a call whose value is of no interest.
func errOf[T any](_ T, err error) error { return err }

func (w *world) load(t *testing.T, ref schemas.Ref) *ledger.State {
	t.Helper()
	st, err := w.ledger.Load(t.Context(), ref)
	require.NoError(t, err)
	return st
}

// cancel cancels the action x, which must be possible.
func (w *world) cancel(t *testing.T) actions.Status {
	t.Helper()
	s, err := w.Cancel(t.Context(), "t", "x")
	require.NoError(t, err)
	return s
}

func (w *world) redrive(t *testing.T, by grant.Asker, seq uint64) accept.Accepted {
	t.Helper()
	out, err := w.redriver().Redrive(t.Context(), by, seq)
	require.NoError(t, err)
	return out
}
