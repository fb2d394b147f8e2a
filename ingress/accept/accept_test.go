package accept_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// world is an acceptor over a log in memory, with places to plant faults.
type world struct {
	*accept.Acceptor
	ledger *ledger.Ledger
	log    *memlog.Log

	mu             sync.Mutex
	before, after  error
	barrier, reads error
	meanwhile      func() error // once, when the next message is stored
	barriers       int
	now            time.Time
}

func (w *world) set(f func()) { w.mu.Lock(); defer w.mu.Unlock(); f() }

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

func setup(tb testing.TB) *world {
	tb.Helper()
	w := &world{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	get := func(p *error) error { w.mu.Lock(); defer w.mu.Unlock(); return *p }
	layout := schemas.Layout{Partitions: 2}
	w.log = memlog.New(layout, w.clock, memlog.Hooks{
		Before: func(schemas.Append) error { return get(&w.before) },
		After: func(schemas.Append, uint64) error {
			w.mu.Lock()
			f := w.meanwhile
			w.meanwhile = nil
			w.mu.Unlock()
			if f != nil {
				return f()
			}
			return get(&w.after)
		},
		Read: func() error { return get(&w.reads) },
	})
	w.ledger = ledger.New(w.log, layout, w.clock)
	w.Acceptor = accept.New(w.ledger, accept.Config{
		Durability: schemas.DurabilityDisk, Now: w.clock, Deadlines: map[schemas.Kind]time.Duration{schemas.KindHTTP: 2 * time.Minute}, Caller: func(id string) string { return strings.ReplaceAll(id, "id of ", "") },
		Barrier: func(context.Context) error { w.set(func() { w.barriers++ }); return get(&w.barrier) },
	})
	return w
}

func (w *world) settle(tb testing.TB, id string) {
	tb.Helper()
	st, err := w.ledger.Find(context.Background(), "t", id)
	require.NoError(tb, err)
	require.NoError(tb, w.ledger.Append(context.Background(), st, schemas.Event{
		Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded},
	}))
}

func request(name accept.Name, payload string) accept.Request {
	return accept.Request{
		Name: name, Action: schemas.Action{Tenant: "t", Kind: schemas.KindHTTP, Class: schemas.ClassOnce, Payload: json.RawMessage(payload)},
	}
}

func byID(id string) accept.Name   { return accept.Name{ID: id, Source: schemas.IDRequest} }
func byKey(key string) accept.Name { return accept.NameOf("t", "/r", "", key) }

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	var public *fault.Error
	require.ErrorAs(t, err, &public)
	return public.Code
}

func TestAcceptStores(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var named schemas.Ref
	r := request(accept.Name{}, `{"b":1,"a":9007199254740993}`)
	r.Before = func(ref schemas.Ref) { named = ref }
	out := w.accept(t, r)
	require.Equal(t, named, out.Ref)
	require.Equal(t, schemas.Receipt{ID: out.ID, Status: "accepted", Durability: schemas.DurabilityDisk, Class: schemas.ClassOnce}, out.Receipt)
	require.Equal(t, 1, w.barriers)
	st := w.find(t, out.ID)
	require.Equal(t, schemas.IDGenerated, st.Action.IDSource)
	require.Equal(t, 2*time.Minute, st.Action.Deadline.Sub(st.Action.AcceptedAt))
	require.Equal(t, `{"b":1,"a":9007199254740993}`, string(st.Action.Payload))
	require.Len(t, st.Action.Fingerprint, 64)
	other := w.accept(t, r)
	require.NotEqual(t, out.ID, other.ID, "without a name every request is an action")
}

// What a token may use is part of what it asks for: one that is limited joins nothing that was
// made with more, and leaves nothing behind for others to join that was decided with less.
func TestEntriesArePartOfTheRequest(t *testing.T) {
	t.Parallel()
	for what, limit := range map[string]func(r *accept.Request, list []string){
		"entries": func(r *accept.Request, list []string) { r.Entries = list },
		"models":  func(r *accept.Request, list []string) { r.Models = list },
	} {
		for _, name := range []accept.Name{byID("x"), byKey("k")} {
			w := setup(t)
			ask := func(list ...string) accept.Request {
				r := request(name, `{"a":1}`)
				limit(&r, list)
				return r
			}
			w.accept(t, ask("a", "b/*"))
			want := map[schemas.IDSource]schemas.Code{schemas.IDRequest: schemas.Conflict, schemas.IDKey: schemas.IdempotencyMismatch}[name.Source]
			for _, list := range [][]string{nil, {"a"}, {"a", "b/*", "c"}, {"ab/*"}} {
				require.Equal(t, want, w.refusal(t, ask(list...)), "%s: %v", what, list)
			}
			crossed := request(name, `{"a":1}`)
			if crossed.Models = []string{"a", "b/*"}; what == "models" {
				crossed.Models, crossed.Entries = nil, crossed.Models
			}
			require.Equal(t, want, w.refusal(t, crossed), "an entry is no model")
			ofTask := ask("a", "b/*")
			ofTask.Task = "task"
			require.Equal(t, want, w.refusal(t, ofTask), "a task's action is joined by its holders alone")
			w.settle(t, name.ID)
			w.accept(t, ask("b/*", "a")) // in any order
		}
	}
}

// TestDeadlinesCountFromTheBeginning: an action that begins later has the same time as any other. It is
// refused if its deadline is further away than the log stores its events, or not after its beginning.
func TestDeadlinesCountFromTheBeginning(t *testing.T) {
	t.Parallel()
	const longest = 24 * time.Hour
	table.Run(t, map[string]struct {
		begin, until, timeout time.Duration // from now; until 0: none
		deadline              time.Duration // 0: refused
		refused               string
	}{
		"later than it may take":     {30 * time.Minute, 0, 2 * time.Minute, 32 * time.Minute, ""},
		"past":                       {-time.Hour, 0, 2 * time.Minute, 2 * time.Minute, ""},
		"until, after its time":      {time.Hour, 2 * time.Hour, time.Minute, 61 * time.Minute, ""},
		"until, before its time":     {time.Hour, 2 * time.Hour, 3 * time.Hour, 2 * time.Hour, ""},
		"until, before it begins":    {time.Hour, time.Hour, time.Minute, 0, "would begin at its deadline"},
		"the longest":                {longest - time.Minute, 0, time.Minute, longest, ""},
		"longer":                     {longest - time.Minute, 0, time.Minute + time.Second, 0, "ask for a beginning before"},
		"at once, longer than later": {0, 0, 48 * time.Hour, 48 * time.Hour, ""},
	}, func(t *testing.T, tc struct {
		begin, until, timeout time.Duration
		deadline              time.Duration
		refused               string
	},
	) {
		now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
		w := setup(t)
		a := accept.New(w.ledger, accept.Config{Now: func() time.Time { return now }, Longest: longest})
		r := request(byID("a"), `{}`)
		r.Timeout, r.NotBefore = tc.timeout, now.Add(tc.begin)
		if tc.until > 0 {
			r.Until = now.Add(tc.until)
		}
		_, err := a.Accept(t.Context(), r)
		if tc.refused != "" {
			require.ErrorContains(t, err, tc.refused)
			_, err = w.ledger.Find(t.Context(), "t", "a")
			require.ErrorIs(t, err, fault.ErrNotFound)
			return
		}
		require.NoError(t, err)
		require.Equal(t, tc.deadline, w.find(t, "a").Action.Deadline.Sub(now))
	})
}

func TestLargePayloadIsPutAside(t *testing.T) {
	t.Parallel()
	w := setup(t)
	payload := `{"body":"` + strings.Repeat("x", schemas.InlineLimit) + `"}`
	out := w.accept(t, request(byID("big"), payload))
	st, err := w.ledger.Load(t.Context(), out.Ref)
	require.NoError(t, err)
	require.Empty(t, st.Action.Payload)
	got, err := w.ledger.Blob(t.Context(), st.Action.Payload, st.Action.PayloadBlob)
	require.NoError(t, err)
	require.Equal(t, payload, string(got))
}

// TestBeforeIsWhereTheHistoryBegins, also where the claim's acknowledgement was lost, which makes it no
// duplicate, and a worker has been there by the time that the log is read back.
func TestBeforeIsWhereTheHistoryBegins(t *testing.T) {
	t.Parallel()
	for _, name := range []accept.Name{byID("r1"), byKey("k")} {
		w := setup(t)
		w.accept(t, request(byID("other"), `{}`))
		w.set(func() {
			w.meanwhile = func() error {
				st, err := w.ledger.Find(t.Context(), "t", name.ID)
				if err == nil {
					err = w.ledger.Append(t.Context(), st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{}})
				}
				return cmp.Or(err, fault.ErrUnavailable)
			}
		})
		out := w.accept(t, request(name, `{}`))
		require.False(t, out.Receipt.Duplicate)
		require.False(t, out.Replayed)
		st := w.find(t, name.ID)
		require.Len(t, st.Events, 2)
		require.Equal(t, st.Events[0].Seq-1, out.Before)
	}
}

func TestRepeatOfRequestID(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.accept(t, request(byID("r1"), `{"a":1,"b":2}`))
	again := w.accept(t, request(byID("r1"), `{"b":2,"a":1}`))
	require.Equal(t, first.Ref, again.Ref)
	require.True(t, again.Receipt.Duplicate)
	require.False(t, again.Replayed)
	require.Equal(t, 2, w.barriers, "what was joined must be durable too")

	w.set(func() { w.barrier = errors.New("lost") })
	require.Equal(t, schemas.Unavailable, w.refusal(t, request(byID("r1"), `{"a":1,"b":2}`)))
	w.set(func() { w.barrier = nil })

	require.Equal(t, schemas.Conflict, w.refusal(t, request(byID("r1"), `{"a":1,"b":2.0}`)))
	plan := request(byID("r1"), `{"a":1,"b":2}`)
	plan.Kind = schemas.KindPlan
	require.Equal(t, schemas.Conflict, w.refusal(t, plan), "ids are unique across kinds")

	w.settle(t, "r1")
	again = w.accept(t, request(byID("r1"), `{"a":1,"b":2}`))
	require.Equal(t, "succeeded", again.Receipt.Status)
}

func TestOneOfManyWins(t *testing.T) {
	t.Parallel()
	for _, n := range []accept.Name{byID("same"), byKey("same")} {
		w := setup(t)
		var winners, joined atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				out, err := w.Accept(context.Background(), request(n, `{"a":1}`))
				var public *fault.Error
				switch {
				case err == nil && !out.Receipt.Duplicate:
					winners.Add(1)
				case err == nil, errors.As(err, &public) && public.Code == schemas.InFlight:
					joined.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int64{1, 49}, []int64{winners.Load(), joined.Load()}, n.Source)
		_, last, err := w.log.Bounds(t.Context(), schemas.LogStream(w.ledger.Layout().Partition("t", n.ID)))
		require.NoError(t, err)
		require.EqualValues(t, 1, last, "one record on the log")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	boom := errors.New("private")
	for name, tc := range map[string]struct {
		plant  func(w *world)
		code   schemas.Code
		named  bool // the answer names the action
		stored bool
	}{
		"full":                     {func(w *world) { w.before = fault.ErrFull }, schemas.LogFull, false, false},
		"too large":                {func(w *world) { w.before = fault.ErrTooLarge }, schemas.PayloadTooLarge, false, false},
		"away":                     {func(w *world) { w.before, w.reads = fault.ErrUnavailable, fault.ErrUnavailable }, schemas.Unavailable, true, false},
		"no answer, nothing there": {func(w *world) { w.before = fault.ErrUnavailable }, schemas.Unavailable, true, false},
		"no answer, no reads":      {func(w *world) { w.after, w.reads = fault.ErrUnavailable, fault.ErrUnavailable }, schemas.Unavailable, true, true},
		"no barrier":               {func(w *world) { w.barrier = boom }, schemas.Unavailable, true, true},
		"something else":           {func(w *world) { w.before = boom }, schemas.Unavailable, true, false},
	} {
		w := setup(t)
		w.set(func() { tc.plant(w) })
		out, err := w.Accept(t.Context(), request(byID("x"), `{}`))
		require.Equal(t, tc.code, code(t, err), name)
		var public *fault.Error
		require.ErrorAs(t, err, &public, name)
		require.NotContains(t, public.Message, "private", name)
		require.Equal(t, tc.named, out.ID == "x", name)
		if tc.code == schemas.Unavailable {
			require.Contains(t, public.Message, "unknown", "never as if nothing had happened")
		}
		w.set(func() { w.before, w.after, w.reads, w.barrier = nil, nil, nil, nil })
		again := w.accept(t, request(byID("x"), `{}`))
		require.Equal(t, tc.stored, again.Receipt.Duplicate, "the repeat joins what was stored")
	}
}

func TestUnreadableOrDroppedRecordIsAConflict(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "x"}
	_, err := w.log.Append(t.Context(), schemas.Append{Subject: w.ledger.Layout().Subject(ref, schemas.SectionAccepted), Data: []byte("{")})
	require.NoError(t, err)
	require.Equal(t, schemas.Conflict, w.refusal(t, request(byID("x"), `{}`)))

	w.accept(t, request(byID("y"), `{}`))
	w.settle(t, "y")
	stream := schemas.LogStream(w.ledger.Layout().Partition("t", "y"))
	_, last, err := w.log.Bounds(t.Context(), stream)
	require.NoError(t, err)
	w.log.Purge(stream, last)
	require.Equal(t, schemas.Conflict, w.refusal(t, request(byID("y"), `{}`)))
}

// accept takes a request that must be taken.
func (w *world) accept(tb testing.TB, r accept.Request) accept.Accepted {
	tb.Helper()
	out, err := w.Accept(context.Background(), r)
	require.NoError(tb, err)
	return out
}

// refusal is the code that a request is refused for.
func (w *world) refusal(t *testing.T, r accept.Request) schemas.Code {
	t.Helper()
	_, err := w.Accept(t.Context(), r)
	return code(t, err)
}

func (w *world) find(tb testing.TB, id string) *ledger.State {
	tb.Helper()
	st, err := w.ledger.Find(context.Background(), "t", id)
	require.NoError(tb, err)
	return st
}

// TestARequestThatMayOnlyJoin has its refusal where there is nothing to join, and
// stores nothing whatever happens.
func TestARequestThatMayOnlyJoin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	refusal := fault.New(schemas.UnsupportedTaskType, "no")
	ask := func(id, payload string, entries ...string) (accept.Accepted, error) {
		r := request(byID(id), payload)
		r.Refusal, r.Entries = refusal, entries
		return w.Accept(t.Context(), r)
	}
	stored := func() uint64 {
		var n uint64
		for p := range 2 {
			_, last, err := w.log.Bounds(t.Context(), schemas.LogStream(p))
			require.NoError(t, err)
			n += last
		}
		return n
	}
	out, err := ask("x", `{"a":1}`)
	require.Equal(t, refusal, err)
	require.Zero(t, out)
	require.Zero(t, stored())

	made := w.accept(t, request(byID("x"), `{"a":1}`))
	out, err = ask("x", `{ "a": 1 }`)
	require.NoError(t, err)
	require.Equal(t, made.Ref, out.Ref)
	require.True(t, out.Receipt.Duplicate)
	require.Equal(t, 2, w.barriers, "what is joined must survive too")
	for _, err := range []error{
		func() error { _, err := ask("x", `{"a":2}`); return err }(),
		func() error { _, err := ask("x", `{"a":1}`, "stock"); return err }(),
	} {
		require.Equal(t, schemas.Conflict, code(t, err))
	}
	w.set(func() { w.reads = fault.ErrUnavailable })
	out, err = ask("x", `{"a":1}`)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.NotErrorIs(t, err, refusal, "nobody knows whether there is one")
	require.Zero(t, out, "and there is none of this request's making")
	w.set(func() { w.reads = nil })
	require.EqualValues(t, 1, stored())
}

// TestWhatTellsNoRequestsApart: the caller's span and the model behind a name are kept of the
// first request, and a repeat may have others.
func TestWhatTellsNoRequestsApart(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for id, tt := range map[string]struct{ header, want string }{
		"span": {parent, parent}, "none": {"", ""}, "junk": {"00-\r\nx", ""},
	} {
		w := setup(t)
		r := request(byID(id), `{"model":"fast"}`)
		r.TraceParent, r.Answers, r.Principal = tt.header, []string{"one"}, "id of shop"
		require.False(t, w.accept(t, r).Receipt.Duplicate, id)
		r.TraceParent, r.Answers, r.Principal = "", []string{"two"}, "id of bot"
		require.True(t, w.accept(t, r).Receipt.Duplicate, id)
		a := w.find(t, id).Action
		require.Equal(t, tt.want, a.TraceParent, id)
		require.Equal(t, []string{"one"}, a.Answers, id)
		require.Equal(t, []string{"id of shop", "shop"}, []string{a.Principal, a.Caller}, id)
	}
}

func run(id string) accept.Request {
	action := schemas.Action{Tenant: "t", Kind: schemas.KindRun, TaskType: "T", Payload: json.RawMessage(`{"task_type":"T"}`)}
	return accept.Request{Name: byID(id), Action: action, Timeout: time.Minute}
}

// away is how a run ends whose agent could not be asked.
func away() schemas.Settled {
	return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.AgentUnavailable}
}

// end writes a run's attempts and its end.
func (w *world) end(tb testing.TB, id string, s schemas.Settled, tries ...schemas.Attempted) {
	tb.Helper()
	st, err := w.ledger.Find(tb.Context(), "t", id)
	require.NoError(tb, err)
	for i, res := range tries {
		res.Number = i + 1
		require.NoError(tb, w.ledger.Append(tb.Context(), st, schemas.Event{
			Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Number: i + 1, Class: schemas.ClassOnce}, Attempted: &res,
		}))
	}
	s.Attempts = len(tries)
	require.NoError(tb, w.ledger.Append(tb.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &s}))
}

// TestWhatGetsASuccessor: a run that ended without having been sent anywhere, and that may
// fare better. Every other repeat joins.
func TestWhatGetsASuccessor(t *testing.T) {
	t.Parallel()
	failed := func(code schemas.Code) schemas.Settled {
		return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: code}
	}
	ended := func(o schemas.Outcome) schemas.Settled { return schemas.Settled{Outcome: o} }
	unsent, sent := schemas.Attempted{Code: schemas.UpstreamConnect}, schemas.Attempted{Code: schemas.UpstreamReset, Sent: true}
	type testCase struct {
		end   schemas.Settled
		tries []schemas.Attempted
		next  bool
	}
	table.Run(t, map[string]testCase{
		"no agent":               {away(), nil, true},
		"no connection":          {away(), []schemas.Attempted{unsent, unsent, unsent}, true},
		"no connection to a URL": {failed(schemas.RetriesExhausted), []schemas.Attempted{unsent, unsent}, true},
		"no name":                {failed(schemas.UpstreamDNS), []schemas.Attempted{{Code: schemas.UpstreamDNS}}, true},
		"no place in time":       {ended(schemas.OutcomeExpired), nil, true},
		"busy":                   {away(), []schemas.Attempted{{Sent: true, Status: 503}}, false},
		"sent once":              {away(), []schemas.Attempted{unsent, sent}, false},
		"sent, and retried":      {failed(schemas.RetriesExhausted), []schemas.Attempted{sent, unsent}, false},
		"out of time":            {ended(schemas.OutcomeExpired), []schemas.Attempted{sent}, false},
		"not sent, out of time":  {ended(schemas.OutcomeExpired), []schemas.Attempted{unsent}, false},
		"failed":                 {failed(schemas.TaskFailed), nil, false},
		"unknown":                {ended(schemas.OutcomeUnknown), []schemas.Attempted{sent}, false},
		"done":                   {ended(schemas.OutcomeSucceeded), []schemas.Attempted{{Sent: true, Status: 200}}, false},
	}, func(t *testing.T, tt testCase) {
		w := setup(t)
		w.accept(t, run("x"))
		out := w.accept(t, run("x"))
		require.Equal(t, "x", out.ID, "it has not ended")
		w.end(t, "x", tt.end, tt.tries...)

		var named []string
		again := run("x")
		again.Before = func(ref schemas.Ref) { named = append(named, ref.ID) }
		out = w.accept(t, again)
		if !tt.next {
			require.Equal(t, "x", out.ID)
			require.True(t, out.Receipt.Duplicate)
			return
		}
		require.Equal(t, "x~2", out.ID)
		require.Equal(t, "x~2", out.Receipt.ID)
		require.False(t, out.Receipt.Duplicate)
		require.Equal(t, []string{"x", "x~2"}, named)
		first, second := w.find(t, "x").Action, w.find(t, "x~2").Action
		require.Equal(t, "x", second.Supersedes)
		require.Equal(t, first.Fingerprint, second.Fingerprint)
		require.Equal(t, time.Minute, second.Deadline.Sub(second.AcceptedAt), "its time is its own")
		require.True(t, second.AcceptedAt.After(first.AcceptedAt))
		require.Equal(t, out.Before+1, w.find(t, "x~2").Seq)

		out = w.accept(t, run("x"))
		require.Equal(t, "x~2", out.ID, "which the next repeat joins")
		require.True(t, out.Receipt.Duplicate)
		w.end(t, "x~2", schemas.Settled{Outcome: schemas.OutcomeSucceeded})
		out = w.accept(t, run("x"))
		require.Equal(t, "x~2", out.ID)
		require.Equal(t, "succeeded", out.Receipt.Status)
	})
}

// TestWhatARepeatOfAKeyBegins: a redrive, where nothing was sent and the caller has not canceled it. A
// repeat that policy still denies gets the first denial.
func TestWhatARepeatOfAKeyBegins(t *testing.T) {
	t.Parallel()
	ended := func(o schemas.Outcome) schemas.Settled { return schemas.Settled{Outcome: o, Code: o.Code()} }
	failed := schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.RetriesExhausted}
	unsent := []schemas.Attempted{{Code: schemas.UpstreamConnect}}
	busy := []schemas.Attempted{{Sent: true, Status: 429}, {Sent: true, Status: 529}, {Sent: true, Status: 503}}
	type testCase struct {
		kind   schemas.Kind
		end    schemas.Settled
		tries  []schemas.Attempted
		denied bool // still
		next   bool
	}
	table.Run(t, map[string]testCase{
		"no connection":               {schemas.KindHTTP, failed, unsent, false, true},
		"no connection of a stream":   {schemas.KindPassthrough, failed, unsent, false, true},
		"expired in the queue":        {schemas.KindHTTP, ended(schemas.OutcomeExpired), nil, false, true},
		"denied":                      {schemas.KindHTTP, ended(schemas.OutcomeDenied), nil, false, true},
		"still denied":                {schemas.KindHTTP, ended(schemas.OutcomeDenied), nil, true, false},
		"answered":                    {schemas.KindHTTP, failed, busy, false, false},
		"lost":                        {schemas.KindHTTP, ended(schemas.OutcomeUnknown), []schemas.Attempted{{Sent: true}}, false, false},
		"canceled":                    {schemas.KindHTTP, ended(schemas.OutcomeCanceled), nil, false, false},
		"done":                        {schemas.KindHTTP, ended(schemas.OutcomeSucceeded), nil, false, false},
		"a plan":                      {schemas.KindPlan, failed, unsent, false, false},
		"a model that is busy":        {schemas.KindChat, failed, busy, false, true},
		"a model that broke its word": {schemas.KindChat, failed, []schemas.Attempted{{Sent: true, Status: 200}}, false, false},
	}, func(t *testing.T, tt testCase) {
		w := setup(t)
		ask := func() accept.Request {
			r := request(byKey("k"), `{"a":1}`)
			r.Kind = tt.kind
			return r
		}
		first := w.accept(t, ask())
		w.end(t, first.ID, tt.end, tt.tries...)
		again := ask()
		again.Denied = tt.denied
		out := w.accept(t, again)
		redrive := accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, "t", first.ID).ID
		if !tt.next {
			require.Equal(t, first.ID, out.ID)
			require.True(t, out.Replayed)
			return
		}
		require.Equal(t, redrive, out.ID, "what an operator's redrive would be")
		require.False(t, out.Receipt.Duplicate)
		require.Equal(t, first.ID, w.find(t, redrive).Action.Supersedes)
		w.end(t, redrive, ended(schemas.OutcomeSucceeded))
		out = w.accept(t, ask())
		require.Equal(t, redrive, out.ID)
		require.True(t, out.Replayed)
		require.Equal(t, schemas.IdempotencyMismatch, w.refusal(t, request(byKey("k"), `{"a":2}`)))
	})
}

// TestARepeatOfAKeyIsAnsweredByARedrive that an operator has begun, whatever rights that has: the first
// answer would have the caller send the call again under another key.
func TestARepeatOfAKeyIsAnsweredByARedrive(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.accept(t, request(byKey("k"), `{"a":1}`))
	w.end(t, first.ID, schemas.Settled{Outcome: schemas.OutcomeFailed}, schemas.Attempted{Sent: true, Status: 503})
	redrive := request(accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, "t", first.ID), `{"a":1}`)
	redrive.Supersedes, redrive.Entries = first.ID, []string{"api"}
	w.accept(t, redrive)
	require.NoError(t, w.ledger.Append(t.Context(), w.find(t, first.ID), schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: redrive.Name.ID}}))
	var named []string
	again := request(byKey("k"), `{"a":1}`)
	again.Before = func(ref schemas.Ref) { named = append(named, ref.ID) }
	out, err := w.Accept(t.Context(), again)
	require.Equal(t, schemas.InFlight, code(t, err), "it has not ended")
	require.Equal(t, []string{first.ID, redrive.Name.ID}, named)
	require.Equal(t, redrive.Name.ID, out.ID)
	w.end(t, out.ID, schemas.Settled{Outcome: schemas.OutcomeSucceeded})
	out = w.accept(t, again)
	require.Equal(t, redrive.Name.ID, out.ID)
	require.True(t, out.Replayed)
}

// TestARepeatOfAKeyIsNotSentAgain where a key may have reached the target before, which the repeat does not
// know, and where a traffic rule answered in the target's place.
func TestARepeatOfAKeyIsNotSentAgain(t *testing.T) {
	t.Parallel()
	failed, unsent := schemas.Settled{Outcome: schemas.OutcomeFailed}, schemas.Attempted{Code: schemas.UpstreamConnect}
	w := setup(t)
	first := w.accept(t, request(byKey("k"), `{"a":1}`))
	w.end(t, first.ID, failed, schemas.Attempted{Sent: true, Code: schemas.UpstreamReset}, schemas.Attempted{Sent: true, Status: 503})
	redrive := request(accept.Derive(accept.PrefixRedrive, schemas.IDGenerated, "t", first.ID), `{"a":1}`)
	redrive.Supersedes, redrive.KeySeed, redrive.KeyExpiresAt = first.ID, "seed", w.clock().Add(time.Hour)
	w.accept(t, redrive)
	require.NoError(t, w.ledger.Append(t.Context(), w.find(t, first.ID), schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: redrive.Name.ID}}))
	w.end(t, redrive.Name.ID, failed, unsent)
	require.Equal(t, redrive.Name.ID, w.accept(t, request(byKey("k"), `{"a":1}`)).ID)

	mocked := w.accept(t, request(byKey("m"), `{"a":1}`))
	w.end(t, mocked.ID, failed, schemas.Attempted{Status: 404, Decision: &schemas.Decision{Allowed: true, Traffic: &schemas.Traffic{Mocked: "m"}}})
	require.Equal(t, mocked.ID, w.accept(t, request(byKey("m"), `{"a":1}`)).ID)
}

// TestOneSuccessor: however many repeats race, one begins it; and those that came before it
// ended join it, although it ends as its predecessor did.
func TestOneSuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.accept(t, run("x"))
	w.end(t, "x", away())
	var wg sync.WaitGroup
	begun := make(chan string, 50)
	for range cap(begun) {
		wg.Go(func() {
			out, err := w.Accept(t.Context(), run("x"))
			if err != nil || out.ID != "x~2" {
				t.Error(out.ID, err)
			}
			if !out.Receipt.Duplicate {
				begun <- out.ID
			}
		})
	}
	wg.Wait()
	require.Len(t, begun, 1)

	// While a repeat reads how the first one ended, another begins the second, which ends too.
	w.end(t, "x~2", away())
	late := run("x")
	late.Before = func(ref schemas.Ref) {
		if ref.ID == "x~3" {
			other := w.accept(t, run("x"))
			require.Equal(t, "x~3", other.ID)
			w.end(t, "x~3", away())
		}
	}
	out := w.accept(t, late)
	require.Equal(t, "x~3", out.ID)
	require.True(t, out.Receipt.Duplicate)
}

// TestWhoBeginsNoSuccessor: a stream that is resumed, a task type that is not served any more, a
// queue that is full; they join what there is.
func TestWhoBeginsNoSuccessor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"x", "x"} {
		w.accept(t, run(id))
		if w.find(t, "x").Settled == nil {
			w.end(t, "x", away())
		}
	}
	w.end(t, "x~2", away())
	resumed, unserved := run("x"), run("x")
	resumed.Resumed = true
	unserved.Refusal = fault.New(schemas.UnsupportedTaskType, "no")
	for _, r := range []accept.Request{resumed, unserved} {
		out := w.accept(t, r)
		require.Equal(t, "x~2", out.ID, "the newest")
		require.True(t, out.Receipt.Duplicate)
	}
	other := run("x")
	other.Tenant = "u"
	out := w.accept(t, other)
	require.Equal(t, schemas.Ref{Tenant: "u", Kind: schemas.KindRun, ID: "x"}, out.Ref, "tenants stay apart")

	changed := run("x")
	changed.Payload = json.RawMessage(`{"task_type":"T","mode":"LIVE"}`)
	require.Equal(t, schemas.Conflict, w.refusal(t, changed))

	w.set(func() { w.reads = fault.ErrUnavailable })
	require.Equal(t, schemas.Unavailable, w.refusal(t, run("x")))
	w.set(func() { w.reads = nil })
	_, err := w.ledger.Find(t.Context(), "t", "x~3")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestAnIDThatAnotherRequestHad before its history was dropped is passed over.
func TestAnIDThatAnotherRequestHad(t *testing.T) {
	t.Parallel()
	w := setup(t)
	old := schemas.Action{ID: "x~2", Tenant: "t", Kind: schemas.KindRun, Fingerprint: "other", AcceptedAt: w.clock()}
	_, _, err := w.ledger.Claim(t.Context(), old)
	require.NoError(t, err)
	w.accept(t, run("x"))
	w.end(t, "x", away())
	out := w.accept(t, run("x"))
	require.Equal(t, "x~3", out.ID)
	require.Equal(t, "x", w.find(t, "x~3").Action.Supersedes)
}

func TestAChainEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := strings.Repeat("x", 128)
	for n := 1; n <= schemas.MaxGeneration; n++ {
		out := w.accept(t, run(id))
		_, generation := schemas.Generation(out.ID)
		require.Equal(t, n, generation)
		w.end(t, out.ID, away())
	}
	_, err := w.Accept(t.Context(), run(id))
	require.Equal(t, schemas.Conflict, code(t, err))
	require.ErrorContains(t, err, "use a new request_id")
}

type queue struct {
	all, one uint64
	err      error
	asked    int // for a tenant
}

func (q *queue) Waiting(_ context.Context, tenant string) (uint64, error) {
	if tenant == "" {
		return q.all, q.err
	}
	q.asked++
	return q.one, q.err
}

// refusal is what a new action gets once counts have been made.
func refusal(p *accept.Pressure, tenant string) (code schemas.Code) {
	for range 2 { // the first has all counted, the second the tenant
		_ = p.Refusal(tenant, schemas.KindHTTP)
		synctest.Wait()
	}
	if own, ok := errors.AsType[*fault.Error](p.Refusal(tenant, schemas.KindHTTP)); ok {
		return own.Code
	}
	return ""
}

func TestPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{all: 9}
		p := accept.NewPressure(q, accept.PressureConfig{Queued: 100, QueuedPerTenant: 10})
		require.Empty(t, refusal(p, "a"))
		require.Zero(t, q.asked, "while all together are fewer than one may have, nobody is counted")

		time.Sleep(2 * time.Second)
		q.all, q.one = 50, 10
		require.Equal(t, schemas.RateLimited, refusal(p, "a"))
		require.NoError(t, p.Refusal("a", schemas.KindRule), "a rule may be what ends it")

		time.Sleep(2 * time.Second)
		q.one = 8
		require.Empty(t, refusal(p, "a"))
		p.Took("a")
		p.Took("a")
		require.Error(t, p.Refusal("a", schemas.KindHTTP), "what was accepted here since is added")

		time.Sleep(2 * time.Second)
		q.all = 99
		require.Empty(t, refusal(p, "b"))
		p.Took("b")
		require.Equal(t, schemas.QueueFull, refusal(p, "b"))

		time.Sleep(2 * time.Second)
		q.all, q.err = 0, errors.New("away")
		require.Equal(t, schemas.QueueFull, refusal(p, "b"), "a count that fails leaves the old one")
		time.Sleep(20 * time.Second)
		q.err = nil
		require.Empty(t, refusal(p, "b"))
	})
	require.NoError(t, accept.NewPressure(nil, accept.PressureConfig{}).Refusal("a", schemas.KindHTTP), "nothing is bounded")
	require.NoError(t, (*accept.Pressure)(nil).Refusal("a", schemas.KindHTTP))
	(*accept.Pressure)(nil).Took("a")
}

// TestStoredShare: a tenant over its share of the log begins nothing, and hears of what it has and may have.
func TestStoredShare(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := accept.NewPressure(nil, accept.PressureConfig{Stored: func(tenant string) limits.Quota {
		return map[string]limits.Quota{
			"over": {Used: 3 << 20, Limit: 3 << 20, Frees: now.Add(time.Hour)}, "below": {Used: 1, Limit: 2}, "free": {Used: 1 << 40},
		}[tenant]
	}})
	for _, kind := range []schemas.Kind{schemas.KindHTTP, schemas.KindRule} {
		var refused *fault.Error
		require.ErrorAs(t, p.Refusal("over", kind), &refused)
		require.Equal(t, schemas.RateLimited, refused.Code)
		require.InDelta(t, time.Hour, refused.RetryAfter, float64(time.Minute))
		require.Contains(t, refused.Message, "has 3.0 MiB on the log and may have 3.0 MiB")
		require.NoError(t, p.Refusal("below", kind))
		require.NoError(t, p.Refusal("free", kind))
	}
}

// TestAcceptAll: requests that arrive together share one barrier, each has its own result, and of
// those with one id the first has it.
func TestAcceptAll(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var requests []accept.Request
	for i := range 300 {
		requests = append(requests, request(byID("r"+strconv.Itoa(i)), `{"a":1}`))
	}
	requests = append(requests, request(byID("r0"), `{"a":2}`), request(byID("r1"), `{"a":1}`), request(accept.Name{}, `{"a":1}`), request(accept.Name{}, `{"a":1}`), request(byID("idk-x"), `{}`))
	results := w.AcceptAll(t.Context(), requests)
	require.Equal(t, 1, w.barriers)
	require.Len(t, results, len(requests))
	for i, r := range results[:300] {
		require.NoError(t, r.Err)
		require.Equal(t, "r"+strconv.Itoa(i), r.ID)
		require.False(t, r.Receipt.Duplicate)
	}
	rest := results[300:]
	require.Equal(t, schemas.Conflict, code(t, rest[0].Err))
	require.NoError(t, rest[1].Err)
	require.True(t, rest[1].Receipt.Duplicate)
	require.NotEqual(t, rest[2].ID, rest[3].ID)
	require.Equal(t, schemas.InvalidRequest, code(t, rest[4].Err))

	w.set(func() { w.barrier = errors.New("lost") })
	lost := w.AcceptAll(t.Context(), requests[299:301])
	require.Equal(t, schemas.Unavailable, code(t, lost[0].Err))
	require.Equal(t, "r299", lost[0].ID, "its caller learns where to look")
	require.Equal(t, schemas.Conflict, code(t, lost[1].Err))
	require.Equal(t, 2, w.barriers)
	w.AcceptAll(t.Context(), requests[300:301])
	require.Equal(t, 2, w.barriers, "a batch that stores nothing needs no barrier")
}

// slowLedger counts the claims that are in flight together, and lets all go on after the first ones.
type slowLedger struct {
	accept.Ledger
	enough int
	full   func() // once enough are in flight
	gate   chan struct{}

	mu        sync.Mutex
	now, most int
}

func (l *slowLedger) Claim(ctx context.Context, a schemas.Action) (*ledger.State, bool, error) {
	l.mu.Lock()
	l.now++
	l.most = max(l.most, l.now)
	enough := l.now == l.enough
	l.mu.Unlock()
	defer func() { l.mu.Lock(); defer l.mu.Unlock(); l.now-- }()
	if enough {
		l.full()
	}
	<-l.gate
	return l.Ledger.Claim(ctx, a)
}

// TestClaimsAreBounded: a batch has as many claims in flight together as it may, and no more; of one id
// there is one.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ requests, ids, most int }{{384, 256, 128}, {2, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := setup(t)
			l := &slowLedger{Ledger: w.ledger, enough: tc.most, gate: make(chan struct{})}
			l.full = sync.OnceFunc(func() {
				synctest.Wait() // until no other claim can begin
				close(l.gate)
			})
			requests := make([]accept.Request, tc.requests)
			for i := range requests {
				requests[i] = request(byID("r"+strconv.Itoa(i%tc.ids)), `{"a":1}`)
			}
			for _, r := range accept.New(l, accept.Config{}).AcceptAll(t.Context(), requests) {
				require.NoError(t, r.Err)
			}
			require.Equal(t, tc.most, l.most)
		})
	}
}
