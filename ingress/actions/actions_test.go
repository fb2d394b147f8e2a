package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/chat"
	"weir/ingress/executor"
	"weir/ingress/git"
	"weir/ingress/grant"
	"weir/ingress/passthrough"
	"weir/ingress/plans"
	"weir/ingress/rules"
	"weir/ingress/runs"
	"weir/ingress/strict"
	"weir/ingress/tasks"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

type world struct {
	*actions.Control
	ledger  *ledger.Ledger
	log     *memlog.Log
	accept  *accept.Acceptor
	stopped []schemas.Ref
	stop    func(ref schemas.Ref) // nil: nobody hears of it

	mu      sync.Mutex
	before  func(schemas.Append) error
	barrier error
}

func now() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

// keyed is a policy that permits every call, which may be repeated by its key.
type keyed struct{}

func (keyed) MaxTimeout() time.Duration { return time.Minute }

func (keyed) Evaluate(schemas.HTTPCall) (schemas.Decision, schemas.Class) {
	return schemas.Decision{Allowed: true}, schemas.ClassKeyed
}

// kinds are the surfaces as the program has them, as far as actions know them.
func kinds(k schemas.Kind) ingress.Surface {
	s := new(ingress.Server)
	all := []ingress.Surface{
		executor.Surface(s, executor.Config{Policy: func(grant.Caller) executor.Policy { return keyed{} }}),
		passthrough.New(s, passthrough.Config{}).Surface(),
		plans.Surface(s), runs.Surface(s, runs.Config{}), chat.Surface(s, chat.Config{}), git.Surface(s, git.Config{}, nil),
	}
	all = append(all, rules.Surfaces(s, rules.Config{})...)
	all = append(all, tasks.Surfaces(s, tasks.SurfaceConfig{})...)
	for _, one := range all {
		if one.Kind == k {
			return one
		}
	}
	return ingress.Surface{}
}

func setup(t *testing.T) *world {
	t.Helper()
	return setupWith(t, false)
}

func setupWith(t *testing.T, noEnds bool) *world {
	t.Helper()
	w := &world{}
	layout := schemas.Layout{Partitions: 2}
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
		Stop: func(ref schemas.Ref) {
			w.stopped = append(w.stopped, ref)
			if w.stop != nil {
				w.stop(ref)
			}
		},
		NoEnds: noEnds, StoreTimeout: 2 * time.Second, Kinds: kinds,
	})
	return w
}

func (w *world) plant(f func(schemas.Append) error) { w.mu.Lock(); defer w.mu.Unlock(); w.before = f }

// put accepts an action and writes events after it.
func (w *world) put(t *testing.T, id string, kind schemas.Kind, events ...schemas.Event) schemas.Ref {
	t.Helper()
	payload := json.RawMessage(`{"method":"POST","url":"http://h/"}`)
	if kind == schemas.KindPush {
		payload = json.RawMessage(`{"repo":"r","ref":"refs/heads/b","old":"0","new":"1","task_id":"t","lease":1,"branch":"b"}`)
	}
	if kind == schemas.KindRule {
		payload = json.RawMessage(`{"operation":"global.off","request_id":"r","caller":"open","if_match":"e"}`)
	}
	out, err := w.accept.Accept(t.Context(), accept.Request{
		Name: accept.Name{ID: id, Source: schemas.IDRequest}, Action: schemas.Action{Tenant: "t", Kind: kind, Payload: payload},
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
	results := map[schemas.Kind]string{ // a % stands for the message
		schemas.KindChat: `{"error":{"status":499,"message":"%"}}`,
		schemas.KindRule: `{"operation":"global.off","request_id":"r","error":{"code":"INTERNAL_ERROR","message":"%","detail":"CANCELED"}}`,
		schemas.KindPush: `{"repo":"r","ref":"refs/heads/b","old":"0","new":"1","task_id":"t","reason":"%"}`,
	}
	for _, kind := range schemas.Kinds() {
		if kind == schemas.KindTask {
			continue // see TestStopsThatAreAskedFor
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			ref := w.put(t, "x", kind)
			s := w.cancel(t)
			require.EqualValues(t, "canceled", s.Status)
			require.False(t, s.CancelRequested)
			require.Empty(t, w.stopped, "nobody runs it")
			st := w.load(t, ref)
			require.Equal(t, schemas.OutcomeCanceled, st.Settled.Outcome)
			require.Equal(t, schemas.Canceled, st.Settled.Code)
			require.Equal(t, kinds(kind).Canceled != nil, st.Settled.Result != nil)
			if want, ok := results[kind]; ok {
				require.JSONEq(t, strings.Replace(want, "%", st.Settled.Message, 1), string(st.Settled.Result))
			}
			if kind == schemas.KindRun {
				var result schemas.RunResult
				require.NoError(t, json.Unmarshal(st.Settled.Result, &result))
				require.Equal(t, string(schemas.TaskFailed), result.Error.Code)
				require.JSONEq(t, `{"code":"CANCELED"}`, string(result.Error.Details))
			}
			require.Equal(t, schemas.Conflict, code(t, errOf(w.Cancel(t.Context(), "t", "x"))))
		})
	}
}

// TestStopsThatAreAskedFor: what a worker has begun, or ends itself, is asked to stop once, in
// the one write that wakes it. Its worker is told before the write, where one is at it, and behind it; a repeat tells it again.
func TestStopsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind   schemas.Kind
		noEnds bool // another node ends actions
		events []schemas.Event
		status string
		told   int // by two cancels
	}{
		"running":              {schemas.KindHTTP, false, []schemas.Event{started()}, "started", 4},
		"another ends actions": {schemas.KindHTTP, true, nil, "accepted", 2},
		"a task":               {schemas.KindTask, false, nil, "accepted", 2},
		"a running task":       {schemas.KindTask, false, []schemas.Event{started()}, "started", 2},
	} {
		w := setupWith(t, tc.noEnds)
		ref := w.put(t, "x", tc.kind, tc.events...)
		cancels := []func() (schemas.ActionStatus, error){func() (schemas.ActionStatus, error) { return w.Cancel(t.Context(), "t", "x") }}
		if tc.kind == schemas.KindTask {
			cancels = append(cancels, func() (schemas.ActionStatus, error) { return w.CancelTask(t.Context(), "t", "x") })
		}
		for i := range 2 {
			s, err := cancels[i%len(cancels)]()
			require.NoError(t, err, name)
			require.True(t, s.CancelRequested, name)
			require.EqualValues(t, tc.status, s.Status, name)
		}
		require.Equal(t, slices.Repeat([]schemas.Ref{ref}, tc.told), w.stopped, name)
		rec, err := w.log.Last(t.Context(), schemas.LogStream(w.ledger.Layout().Partition("t", "x")), w.ledger.Layout().All(ref))
		require.NoError(t, err)
		require.Equal(t, w.ledger.Layout().Subject(ref, schemas.SectionWake), rec.Subject, name)
		st := w.load(t, ref)
		require.Nil(t, st.Settled, name)
		require.Nil(t, st.Damaged, name)
		require.True(t, st.CancelRequested, name)
		require.Equal(t, len(tc.events)+2, st.N, name)
	}
}

// TestATaskThatIsOver: nothing undoes what its agent has said; and no other kind is canceled as a task.
func TestATaskThatIsOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := w.put(t, "x", schemas.KindTask, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{
		What: schemas.TaskReported, Status: schemas.TaskStatusCompleted, Report: &schemas.TaskReport{Completed: true},
	}})
	other := w.put(t, "y", schemas.KindHTTP)
	for range 2 {
		for _, cancel := range []func(ctx context.Context, tenant, id string) (schemas.ActionStatus, error){w.Cancel, w.CancelTask} {
			_, err := cancel(t.Context(), "t", "x")
			require.Equal(t, schemas.Conflict, code(t, err))
			require.Empty(t, w.stopped)
		}
		if w.load(t, ref).Settled == nil {
			require.ErrorContains(t, errOf(w.Cancel(t.Context(), "t", "x")), "Completed")
			w.write(t, ref, settled(schemas.OutcomeSucceeded))
		}
	}
	for _, id := range []string{"y", "z", ""} {
		s, err := w.CancelTask(t.Context(), "t", id)
		require.Equal(t, schemas.NotFound, code(t, err))
		require.ErrorContains(t, err, "no task")
		require.Empty(t, s)
	}
	require.Equal(t, 1, w.load(t, other).N)
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
		if m.Ends() {
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
			require.EqualValues(t, outcome, s.Status)
			require.False(t, s.CancelRequested)
			require.Equal(t, []schemas.Ref{ref}, w.stopped, "nothing was written")
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
	ref := w.put(t, "x", schemas.KindHTTP, started())
	word := schemas.Resolution{Effect: schemas.EffectApplied, Note: "n", By: "anna"}
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", "x", word))), "it has not ended")
	require.Equal(t, schemas.NotFound, code(t, errOf(w.Resolve(t.Context(), "t", "y", word))))
	known := w.put(t, "known", schemas.KindHTTP, started(), settled(schemas.OutcomeFailed))
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", known.ID, word))), "its outcome is known")

	w.write(t, ref, settled(schemas.OutcomeUnknown))
	s, err := w.Resolve(t.Context(), "t", "x", word)
	require.NoError(t, err)
	require.Equal(t, "applied", s.Resolution)
	require.EqualValues(t, "outcome_unknown", s.Status, "a resolution changes no outcome")
	require.NoError(t, errOf(w.Resolve(t.Context(), "t", "x", schemas.Resolution{Effect: schemas.EffectApplied})), "the same word again")
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Resolve(t.Context(), "t", "x", schemas.Resolution{Effect: schemas.EffectNotApplied}))))
	st := w.load(t, ref)
	require.Equal(t, word, *st.Resolution)
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

func (w *world) cancel(t *testing.T) schemas.ActionStatus {
	t.Helper()
	s, err := w.Cancel(t.Context(), "t", "x")
	require.NoError(t, err)
	return s
}

func (w *world) redrive(t *testing.T, by grant.Caller, seq uint64) accept.Accepted {
	t.Helper()
	out, err := w.redriver().Redrive(t.Context(), by, seq)
	require.NoError(t, err)
	return out
}

func (w *world) redriver() *actions.Redriver {
	return actions.NewRedriver(w.log, w.ledger, w.accept, kinds)
}

func (w *world) park(t *testing.T, d schemas.DeadLetter) uint64 {
	t.Helper()
	data, err := json.Marshal(d)
	require.NoError(t, err)
	seq, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(d), Data: data})
	require.NoError(t, err)
	return seq
}

func letter(id string) schemas.DeadLetter {
	return schemas.DeadLetter{Tenant: "t", Kind: schemas.KindHTTP, ActionID: id, Code: schemas.Poison}
}

// TestRedriveKeepsTheKey: a call that may have been sent with an idempotency key goes out with the same
// key again, as long as the chain of redrives goes on.
func TestRedriveKeepsTheKey(t *testing.T) {
	t.Parallel()
	expires := time.Now().Add(time.Minute).UTC()
	attempt := func(keyed, sent bool) []schemas.Event {
		a := schemas.Attempt{Number: 1, Class: schemas.ClassOnce}
		if keyed {
			a.Class, a.KeyExpiresAt = schemas.ClassKeyed, expires
		}
		return []schemas.Event{
			{Type: schemas.EventAttempt, Attempt: &a},
			{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Status: 500, Sent: sent}},
			settled(schemas.OutcomeFailed),
		}
	}
	for name, c := range map[string]struct{ keyed, sent bool }{"sent": {true, true}, "not sent": {true, false}, "without a key": {false, true}} {
		w := setup(t)
		old := w.load(t, w.put(t, "x", schemas.KindHTTP, attempt(c.keyed, c.sent)...))
		made := w.load(t, w.redrive(t, grant.Caller{Tenant: "t"}, w.park(t, letter("x"))).Ref)
		want := ""
		if c.keyed && c.sent {
			want = old.Action.Seed()
			require.Equal(t, old.Action.DerivedKey(0), made.Action.DerivedKey(0), name)
			require.Equal(t, expires, made.Action.KeyExpiresAt, name)
			require.False(t, made.Action.Deadline.After(expires), "it sends nothing once the target may forget the key")
		} else {
			require.NotEqual(t, old.Action.DerivedKey(0), made.Action.DerivedKey(0), name)
		}
		require.Equal(t, want, made.Action.KeySeed, name)
		w.write(t, made.Ref, settled(schemas.OutcomeFailed)) // it sent nothing
		again := w.load(t, w.redrive(t, grant.Caller{Tenant: "t"}, w.park(t, letter(made.ID))).Ref)
		require.Equal(t, want, again.Action.KeySeed, name)
	}
}

// A completion is asked for anew, within what both tokens may use.
func TestRedriveOfACompletion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out, err := w.accept.Accept(t.Context(), accept.Request{
		Name: accept.Name{ID: "x", Source: schemas.IDRequest}, Action: schemas.Action{
			Tenant: "t", Kind: schemas.KindChat, Sensitive: true,
			Payload: json.RawMessage(`{"model":"m","body":{},"prompt":1,"choices":1}`), Models: []string{"a/*", "b"}, Entries: []string{"model:a"},
		},
	})
	require.NoError(t, err)
	w.write(t, out.Ref, started(), settled(schemas.OutcomeFailed))
	dead := letter("x")
	dead.Kind = schemas.KindChat
	seq := w.park(t, dead)
	refused := errOf(w.redriver().Redrive(t.Context(), grant.Caller{Tenant: "t", Models: []string{"c"}}, seq))
	require.Equal(t, schemas.Forbidden, code(t, refused))
	again := w.redrive(t, grant.Caller{Tenant: "t", Principal: "p", Models: []string{"a/1", "c"}}, seq)
	st := w.load(t, again.Ref)
	require.True(t, st.Action.Sensitive)
	require.Equal(t, []string{"a/1"}, st.Action.Models)
	require.Equal(t, []string{"model:a"}, st.Action.Entries)
	require.Equal(t, "p", st.Action.Principal)
	require.JSONEq(t, `{"model":"m","body":{},"prompt":1,"choices":1}`, string(st.Action.Payload))
}

// TestRedriveOfARun: it has its own budget anew, and what is performed is what the payload says.
func TestRedriveOfARun(t *testing.T) {
	t.Parallel()
	for more, want := range map[string][]any{
		`"risk_tier":"NON_SENSITIVE","budgets":{"timeout_ms":90000}`: {"LIT", false, 90 * time.Second, "x"},
		`"risk_tier":"PHI"`: {"LIT", true, 10 * time.Minute, "x"},
	} {
		w := setup(t)
		payload := `{"task_type":"LIT",` + more + `}`
		out, err := w.accept.Accept(t.Context(), accept.Request{
			Name:   accept.Name{ID: "x", Source: schemas.IDRequest},
			Action: schemas.Action{Tenant: "t", Kind: schemas.KindRun, TaskType: "OTHER", Payload: json.RawMessage(payload)}, Timeout: time.Hour,
		})
		require.NoError(t, err)
		w.write(t, out.Ref, settled(schemas.OutcomeFailed))
		dead := letter("x")
		dead.Kind = schemas.KindRun
		a := w.load(t, w.redrive(t, grant.Caller{Tenant: "t"}, w.park(t, dead)).Ref).Action
		require.Equal(t, want, []any{a.TaskType, a.Sensitive, a.Deadline.Sub(a.AcceptedAt), a.Supersedes})
		require.JSONEq(t, payload, string(a.Payload))
	}
}

func TestRedriveRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(t, "running", schemas.KindHTTP, started())
	running := w.park(t, letter("running"))
	dropped := w.park(t, letter("dropped"))
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "poison"}
	_, err := w.log.Append(t.Context(), schemas.Append{Subject: w.ledger.Layout().Subject(ref, schemas.SectionAccepted), Data: []byte("?")})
	require.NoError(t, err)
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Cancel(t.Context(), "t", "poison"))), "only the worker that parks it may end it")
	w.write(t, ref, settled(schemas.OutcomeFailed))
	poison := w.park(t, letter("poison"))
	garbled, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(letter("garbled")), Data: []byte("?")})
	require.NoError(t, err)
	w.put(t, "write", schemas.KindRule, started(), settled(schemas.OutcomeFailed))
	write := letter("write")
	write.Kind = schemas.KindRule
	rule := w.park(t, write)
	final := map[schemas.Kind]uint64{}
	for _, kind := range []schemas.Kind{schemas.KindTask, schemas.KindPush, schemas.KindRepo} {
		w.put(t, string(kind), kind, started(), settled(schemas.OutcomeFailed))
		parked := letter(string(kind))
		parked.Kind = kind
		final[kind] = w.park(t, parked)
	}
	other := letter("x")
	other.Tenant = "u"
	foreign := w.park(t, other)
	for name, tc := range map[string]struct {
		seq  uint64
		code schemas.Code
	}{
		"not ended":      {running, schemas.InFlight},
		"dropped":        {dropped, schemas.StreamGone},
		"poison":         {poison, schemas.Conflict},
		"garbled letter": {garbled, schemas.Conflict},
		"of the rules":   {rule, schemas.Conflict},
		"a task":         {final[schemas.KindTask], schemas.Conflict},
		"a push":         {final[schemas.KindPush], schemas.Conflict},
		"a repository":   {final[schemas.KindRepo], schemas.Conflict},
		"other tenant's": {foreign, schemas.NotFound},
		"none":           {999, schemas.NotFound},
	} {
		require.Equal(t, tc.code, code(t, errOf(w.redriver().Redrive(t.Context(), grant.Caller{Tenant: "t"}, tc.seq))), name)
	}
}

// TestRedriveWithinEntries: what is made anew may use what both the one who asked first and the one who asks
// now may use. A token that is limited to entries makes no call by another, and no payload that cannot be read.
func TestRedriveWithinEntries(t *testing.T) {
	t.Parallel()
	plan := `{"artifact:proposed.plan":{"decisions":[{"effect_ref":"e","target_state":{"allowlist_key":"b"}}]}}`
	for i, tc := range []struct {
		kind     schemas.Kind
		payload  string
		old, now []string     // entries
		refused  schemas.Code // empty: it is made anew
		want     []string
	}{
		{schemas.KindHTTP, `{}`, []string{"a"}, nil, "", []string{"a"}},
		{schemas.KindHTTP, `{}`, nil, []string{"b"}, "", []string{"b"}},
		{schemas.KindHTTP, `{}`, []string{"a", "b"}, []string{"b"}, "", []string{"b"}},
		{schemas.KindHTTP, `{}`, []string{"a"}, []string{"b"}, schemas.Forbidden, nil},
		{schemas.KindHTTP, `{"allowlist_key":"a"}`, nil, []string{"a"}, "", []string{"a"}},
		{schemas.KindHTTP, `{"allowlist_key":"b"}`, nil, []string{"a"}, schemas.Forbidden, nil},
		{schemas.KindHTTP, `{"allowlist_key":"b"}`, nil, nil, "", nil},
		{schemas.KindHTTP, `[]`, nil, nil, schemas.Conflict, nil},
		{schemas.KindHTTP, `{"method":"GET","url":"http://a/","denied":{"decision":{}}}`, nil, nil, schemas.Conflict, nil},
		{schemas.KindPlan, plan, nil, []string{"a"}, schemas.Forbidden, nil},
		{schemas.KindPlan, plan, nil, []string{"b"}, "", []string{"b"}},
		{schemas.KindPlan, `[]`, nil, []string{"b"}, schemas.Conflict, nil},
		{schemas.KindRun, `{"task_type":"HTTP_EXECUTE","call":{"allowlist_key":"b"}}`, nil, []string{"a"}, schemas.Forbidden, nil},
		{schemas.KindRun, `{"task_type":"U"}`, nil, []string{"a"}, schemas.Forbidden, nil},
		{schemas.KindRun, `{"task_type":"ECHO"}`, nil, []string{"a"}, "", []string{"a"}},
		{schemas.KindRun, `[]`, nil, []string{"a"}, schemas.Conflict, nil},
		{schemas.KindChat, `{"model":"m"}`, nil, []string{"a"}, "", []string{"a"}},
		{"other", `{}`, nil, nil, schemas.Conflict, nil},
	} {
		w := setup(t)
		out, err := w.accept.Accept(t.Context(), accept.Request{
			Name:   accept.Name{ID: "x", Source: schemas.IDRequest},
			Action: schemas.Action{Tenant: "t", Kind: tc.kind, Payload: json.RawMessage(tc.payload), Entries: tc.old}, Timeout: time.Minute,
		})
		require.NoError(t, err, i)
		w.write(t, out.Ref, started(), settled(schemas.OutcomeFailed))
		dead := letter("x")
		dead.Kind = tc.kind
		again, err := w.redriver().Redrive(t.Context(), grant.Caller{Tenant: "t", Principal: "p", Entries: tc.now}, w.park(t, dead))
		if tc.refused != "" {
			require.Equal(t, tc.refused, code(t, err), "%d: %v", i, err)
			continue
		}
		require.NoError(t, err, i)
		a := w.load(t, again.Ref).Action
		require.Equal(t, []any{tc.want, "p", "x"}, []any{a.Entries, a.Principal, a.Supersedes}, i)
	}
}
