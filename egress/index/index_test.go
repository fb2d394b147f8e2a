package index_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"weir/egress/index"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(table.Rounds(80))) // each makes a file; the flag is known
	goleak.VerifyTestMain(m)
}

var layout = schemas.Layout{Partitions: 3}

// shop is a log with an index of it.
type shop struct {
	t    testing.TB
	log  *memlog.Log
	led  *ledger.Ledger
	path string
	x    *index.Index
	late atomic.Int64 // so many reads do not show the newest record
}

type always struct{}

func (always) Durable(context.Context, string, uint64) error { return nil }

func open(tb testing.TB) *shop {
	tb.Helper()
	s := &shop{t: tb, path: filepath.Join(tb.TempDir(), "deep", "index.db")}
	s.log = memlog.New(layout, time.Now, memlog.Hooks{Late: func() int { return int(min(1, s.late.Add(-1))) }})
	s.led = ledger.New(s.log, layout, nil)
	s.start()
	return s
}

// start opens the index, as at the start of a process.
func (s *shop) start() {
	s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
	s.t.Cleanup(s.x.Close)
}

func (s *shop) restart() {
	s.x.Close()
	s.start()
}

// accept accepts an action.
func (s *shop) accept(a schemas.Action) *ledger.State {
	s.t.Helper()
	a.Class, a.IDSource, a.Fingerprint, a.AcceptedAt = schemas.ClassOnce, schemas.IDRequest, "f", time.Now().UTC()
	a.Deadline = a.AcceptedAt.Add(time.Minute)
	st, _, err := s.led.Claim(context.Background(), a)
	require.NoError(s.t, err)
	return st
}

func (s *shop) claim(tenant string, kind schemas.Kind, id string) *ledger.State {
	s.t.Helper()
	return s.accept(schemas.Action{ID: id, Tenant: tenant, Kind: kind, Payload: []byte(`{"url":"http://secret.example/","task_id":"task-9"}`)})
}

func (s *shop) attempt(st *ledger.State, entry string) {
	s.t.Helper()
	s.append(st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
	s.append(st, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{
		Number: 1, Method: "POST", URL: "https://u:secret@Git.example/r.git?secret", Decision: schemas.Decision{Allowed: true, Entry: entry},
	}})
}

func (s *shop) append(st *ledger.State, ev schemas.Event) {
	s.t.Helper()
	require.NoError(s.t, s.led.Append(context.Background(), st, ev))
}

func (s *shop) settle(st *ledger.State, outcome schemas.Outcome, code schemas.Code) {
	s.t.Helper()
	s.append(st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: outcome, Code: code, Attempts: len(st.Attempts)}})
}

// ask reads the answer to a query.
func ask[A any](
	tb require.TestingT, read func(ctx context.Context, q url.Values, tenant string, now time.Time) (A, error), tenant, query string, now time.Time,
) (A, error) {
	values, err := url.ParseQuery(strings.ReplaceAll(query, " ", "+"))
	require.NoError(tb, err)
	return read(context.Background(), values, tenant, now)
}

// page reads one page of a list, of tenant acme where the query names none.
func (s *shop) page(tenant, query string) schemas.ActionPage {
	s.t.Helper()
	page, err := ask(s.t, s.x.List, tenant, query, time.Now())
	require.NoError(s.t, err)
	return page
}

// pages reads every page of tenant acme.
func (s *shop) pages(query string, each func(page schemas.ActionPage)) {
	s.t.Helper()
	for cursor := ""; ; {
		page := s.page("acme", query+cursor)
		if each(page); page.Next == "" {
			return
		}
		cursor = "&cursor=" + page.Next
	}
}

func (s *shop) ids(query string) []string {
	s.t.Helper()
	ids := []string{}
	s.pages(query, func(page schemas.ActionPage) {
		require.Zero(s.t, page.Behind)
		for _, it := range page.Items {
			ids = append(ids, it.ID)
		}
	})
	return ids
}

func TestFiltersAndCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := s.claim("acme", schemas.KindHTTP, "order-1")
	s.attempt(a, "github")
	s.settle(a, schemas.OutcomeSucceeded, "")
	b := s.claim("acme", schemas.KindHTTP, "order-2")
	s.append(b, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{
		Outcome: schemas.OutcomeDenied, Code: schemas.DenyHost, Result: []byte(`{"variant":"DisallowedHost","decision":{"allowed":false,"entry":"gitlab"}}`),
	}})
	s.attempt(s.accept(schemas.Action{ID: "run-3", Tenant: "acme", Kind: schemas.KindRun, TaskType: "FETCH"}), "agent")
	s.claim("acme", schemas.KindChat, "chat-4")
	s.claim("acme", schemas.KindPush, "push-5")
	task := s.accept(schemas.Action{ID: "task-9", Tenant: "acme", Kind: schemas.KindTask})
	s.append(task, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitAgent}})
	s.claim("other", schemas.KindHTTP, "order-1")

	for query, want := range map[string][]string{
		"":                           {"task-9", "push-5", "chat-4", "run-3", "order-2", "order-1"},
		"entry=github":               {"order-1"},
		"entry=gitlab":               {"order-2"},
		"entry=":                     {"task-9", "push-5", "chat-4", "run-3"},
		"agent=FETCH":                {"run-3"},
		"task=task-9":                {"task-9", "push-5", "chat-4"},
		"task=task-9&kind=push":      {"push-5"},
		"code=DENY_HOST":             {"order-2"},
		"q=order":                    {"order-2", "order-1"},
		"q=rder":                     {},
		"q=%25":                      {},
		"q=":                         nil, // refused
		"q=a%0ab":                    nil,
		"kind=http,run":              {"run-3", "order-2", "order-1"},
		"status=succeeded,denied":    {"order-2", "order-1"},
		"status=open":                {"task-9", "push-5", "chat-4", "run-3"},
		"status=waiting":             {"task-9"},
		"status=started":             {"run-3"},
		"status=accepted,denied":     {"push-5", "chat-4", "order-2"},
		"since=1h":                   {"task-9", "push-5", "chat-4", "run-3", "order-2", "order-1"},
		"until=1h":                   {},
		"since=2020-01-01T00:00:00Z": {"task-9", "push-5", "chat-4", "run-3", "order-2", "order-1"},
		"since=10m&until=0s&limit=2": {"task-9", "push-5", "chat-4", "run-3", "order-2", "order-1"},
	} {
		if want == nil {
			_, err := ask(t, s.x.List, "acme", query, time.Now())
			require.Error(t, err, query)
			continue
		}
		require.Equal(t, want, s.ids(query), query)
		require.EqualValues(t, len(want), s.page("acme", query+"&count=true").Count.Total, query)
	}
	require.Equal(t, map[string]uint64{"succeeded": 1, "denied": 1, "open": 4}, s.page("acme", "count=true").Count.By)
	first := s.page("acme", "entry=github").Items[0]
	require.Equal(t, "github", first.Entry)
	require.Equal(t, 1, first.Attempts)
	require.NotNil(t, first.DurationMS)
	require.False(t, first.Settled.IsZero())
	require.Empty(t, first.Tenant)
}

// TestStates: an action that waits no more runs, and one that has ended keeps its end and is counted
// once, however its events are cut into batches.
func TestStates(t *testing.T) {
	t.Parallel()
	waiting := schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}}
	for name, cut := range map[string]bool{"one batch": false, "a batch an event": true} {
		s := open(t)
		st := s.claim("acme", schemas.KindHTTP, "a")
		is := func(want schemas.Status) {
			t.Helper()
			if cut {
				require.Equal(t, want, s.page("acme", "").Items[0].Status, name)
			}
		}
		is("accepted")
		s.append(st, schemas.Event{Type: schemas.EventCancel})
		is("accepted")
		for _, typ := range []schemas.EventType{schemas.EventProgress, schemas.EventDelta} {
			s.append(st, waiting)
			is("waiting")
			s.append(st, schemas.Event{Type: typ})
			is("started")
		}
		s.append(st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.Interrupted}})
		is("outcome_unknown")
		_, err := s.log.Append(t.Context(), schemas.Append{
			Subject: layout.Subject(st.Ref, schemas.SectionEvent), Data: []byte(`{"v":1,"n":9,"type":"settled","settled":{"outcome":"succeeded"}}`),
		})
		require.NoError(t, err)
		is("outcome_unknown")
		cut = true
		is("outcome_unknown")
		require.EqualValues(t, 1, s.stats("acme", "").Total.Settled, name)
	}
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 20 {
		for _, tenant := range []string{"acme", "other"} {
			s.settle(s.claim(tenant, schemas.KindHTTP, fmt.Sprintf("%s-%d", tenant, i)), schemas.OutcomeFailed, schemas.HTTPFailure)
		}
	}
	for _, query := range []string{"", "kind=http", "status=failed", "code=HTTP_FAILURE", "q=acme", "q=secret.example", "host=secret.example", "since=1h", "entry="} {
		for _, it := range s.page("other", query).Items {
			require.Contains(t, it.ID, "other")
		}
		require.LessOrEqual(t, s.page("other", query+"&count=true").Count.Total, uint64(20), query)
	}
	require.Empty(t, s.page("nobody", "").Items)
	require.EqualValues(t, 20, s.stats("other", "").Total.Settled)
	require.Zero(t, s.stats("nobody", "").Total.Settled)
	require.EqualValues(t, 40, s.page("", "count=true&tenant=*").Count.Total)
	require.Equal(t, "other", s.page("", "tenant=*").Items[0].Tenant)
	require.EqualValues(t, 40, s.stats("", "").Total.Settled)
}

func (s *shop) stats(tenant, query string) schemas.Stats {
	s.t.Helper()
	out, err := ask(s.t, s.x.Stats, tenant, query, time.Now())
	require.NoError(s.t, err)
	return out
}

// TestCursorsAreStable: actions that are accepted while pages are read neither repeat nor move a row.
func TestCursorsAreStable(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want []string
	for i := range 60 {
		id := fmt.Sprintf("old-%d", i)
		st := s.claim("acme", schemas.KindHTTP, id)
		if i%2 == 0 {
			s.settle(st, schemas.OutcomeSucceeded, "")
		}
		want = append([]string{id}, want...)
	}
	var got []string
	s.pages("limit=7", func(page schemas.ActionPage) {
		for _, it := range page.Items {
			got = append(got, it.ID)
		}
		for i := range 5 {
			s.settle(s.claim("acme", schemas.KindHTTP, fmt.Sprintf("new-%d-%d", len(got), i)), schemas.OutcomeSucceeded, "")
		}
	})
	require.Equal(t, want, got)
}

// TestBuiltAnew: whatever has become of the file, the log makes it good.
func TestBuiltAnew(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 50 {
		st := s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i))
		if i%3 > 0 {
			s.settle(st, schemas.OutcomeSucceeded, "")
		}
	}
	want := s.ids("")
	require.Len(t, want, 50)
	for name, spoil := range map[string]func(){
		"gone":    func() { require.NoError(t, os.RemoveAll(filepath.Dir(s.path))) },
		"garbage": func() { require.NoError(t, os.WriteFile(s.path, []byte("garbage, and not a database at all"), 0o600)) },
		"empty":   func() { require.NoError(t, os.Truncate(s.path, 0)) },
		"cut": func() {
			info, err := os.Stat(s.path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(s.path, info.Size()/2))
		},
		"zeros": func() {
			f, err := os.OpenFile(s.path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, 3*4096), 4096)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
		"another version": func() {
			f, err := os.OpenFile(s.path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte{0, 99, 0, 3}, 60) // where the format has the user's version
			require.NoError(t, err)
			require.NoError(t, f.Close())
		},
	} {
		s.x.Close()
		spoil()
		s.start()
		require.Equal(t, want, s.ids(""), name)
		require.Equal(t, map[string]uint64{"succeeded": 33, "open": 17}, s.page("acme", "count=true").Count.By, name)
	}
	info, err := os.Stat(s.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestSomebodyElsesFile: a database that is no index is refused, and left as it is.
func TestSomebodyElsesFile(t *testing.T) {
	t.Parallel()
	s := open(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(s.path), 0o700))
	db, err := sql.Open("sqlite", s.path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE letters (text TEXT); INSERT INTO letters VALUES ('dear')")
	require.NoError(t, errors.Join(err, db.Close()))
	require.NoError(t, os.Chmod(s.path, 0o644))
	before, err := os.ReadFile(s.path)
	require.NoError(t, err)
	_, err = s.x.List(t.Context(), nil, "acme", time.Now())
	require.ErrorContains(t, err, "a database of something else")
	after, err := os.ReadFile(s.path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
	info, err := os.Stat(s.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

// TestAnotherLog: a file that was built from another log is not gone on with.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("old-%d", i))
	}
	require.Len(t, s.ids(""), 30)
	s.x.Close()
	s.log = memlog.New(layout, time.Now, memlog.Hooks{})
	s.led = ledger.New(s.log, layout, nil)
	for i := range 40 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("new-%d", i))
	}
	s.start()
	ids := s.ids("")
	require.Len(t, ids, 40)
	require.Equal(t, "new-39", ids[0])
}

// TestHistoryIsDropped: actions that the log has dropped leave the index.
func TestHistoryIsDropped(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("old-%d", i))
	}
	require.Len(t, s.ids(""), 30)
	for p := range layout.Partitions {
		_, last, err := s.log.Bounds(t.Context(), schemas.LogStream(p))
		require.NoError(t, err)
		s.log.Purge(schemas.LogStream(p), last+1)
	}
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("new-%d", i))
	}
	s.restart()
	s.page("acme", "") // finds out what was dropped
	require.Len(t, s.ids(""), 30)
	require.EqualValues(t, 30, s.page("acme", "count=true").Count.Total)
	require.Equal(t, "new-29", s.ids("")[0])
}

// named are the ids of all pages, and how many pages there were.
func (s *shop) named(tenant string, ended []schemas.Outcome, open bool, limit int) (ids []string, pages int) {
	s.t.Helper()
	for cursor := ""; ; pages++ {
		found, err := s.x.Refs(context.Background(), stream.Selection{
			Tenant: tenant, Kind: schemas.KindTask, Ended: ended, Open: open, Limit: limit, Cursor: cursor,
		})
		require.NoError(s.t, err)
		require.Zero(s.t, found.Freshness.Behind)
		require.False(s.t, found.Freshness.AsOf.IsZero())
		require.LessOrEqual(s.t, len(found.Items), limit)
		for _, r := range found.Items {
			require.Equal(s.t, schemas.Ref{Tenant: tenant, Kind: schemas.KindTask, ID: r.ID}, r.Ref)
			ids = append(ids, r.ID)
		}
		if cursor = found.Next; cursor == "" {
			return ids, pages + 1
		}
	}
}

// TestRefs: of one tenant and one kind, the newest first, whichever way leads there.
func TestRefs(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want struct{ open, done, any []string }
	for i := range 9 {
		id := fmt.Sprintf("t-%d", i)
		s.claim("acme", schemas.KindHTTP, "call-"+id)
		s.claim("other", schemas.KindTask, id)
		st := s.claim("acme", schemas.KindTask, id)
		switch i % 3 {
		case 0:
			want.open = append([]string{id}, want.open...)
		case 1:
			s.settle(st, schemas.OutcomeSucceeded, "")
			want.done = append([]string{id}, want.done...)
		default: // whose record does not say how it ended
			s.settle(st, schemas.OutcomeFailed, schemas.Poison)
			want.done = append([]string{id}, want.done...)
		}
		want.any = append([]string{id}, want.any...)
	}
	for limit, pages := range map[int]int{1: 3, 2: 2, 3: 1, 50: 1} {
		ids, n := s.named("acme", nil, true, limit)
		require.Equal(t, want.open, ids)
		require.Equal(t, pages, n, limit)
	}
	ids, _ := s.named("acme", []schemas.Outcome{schemas.OutcomeSucceeded}, false, 4)
	require.Equal(t, want.done, ids)
	ids, _ = s.named("acme", []schemas.Outcome{schemas.OutcomeSucceeded}, true, 4)
	require.Equal(t, want.any, ids)
	ids, _ = s.named("acme", nil, false, 4)
	require.Equal(t, want.any, ids)
	ids, _ = s.named("nobody", nil, true, 4)
	require.Empty(t, ids)
	_, err := s.x.Refs(context.Background(), stream.Selection{Tenant: "acme", Kind: schemas.KindTask, Open: true, Limit: 4, Cursor: "No!"})
	require.Error(t, err)
}

// TestRefsAmongMany: the actions of a kind are found at once, however many others are open; and
// a page that has looked at as many as it may says where to go on.
func TestRefsAmongMany(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.x.Close()
	s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute, Looks: 5})
	t.Cleanup(s.x.Close)
	s.claim("acme", schemas.KindTask, "old")
	s.settle(s.claim("acme", schemas.KindTask, "over"), schemas.OutcomeCanceled, schemas.Canceled)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("call-%d", i))
		s.settle(s.claim("acme", schemas.KindTask, fmt.Sprintf("done-%d", i)), schemas.OutcomeSucceeded, "")
	}
	ids, pages := s.named("acme", nil, true, 50)
	require.Equal(t, []string{"old"}, ids)
	require.Equal(t, 1, pages)
	ids, pages = s.named("acme", []schemas.Outcome{schemas.OutcomeCanceled}, true, 50)
	require.Equal(t, []string{"over", "old"}, ids)
	require.Greater(t, pages, 5)
}

// step of a program: what to do, and to which of the actions that are there.
type step struct {
	do, which int
	kind      schemas.Kind
	entry     string
	outcome   schemas.Outcome
	code      schemas.Code
}

func programs() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		return step{
			do: rapid.IntRange(0, 12).Draw(r, "do"), which: rapid.IntRange(0, 1000).Draw(r, "which"),
			kind:    rapid.SampledFrom(schemas.Kinds()).Draw(r, "kind"),
			entry:   rapid.SampledFrom([]string{"", "github", "gitlab"}).Draw(r, "entry"),
			outcome: rapid.SampledFrom(schemas.Outcomes()).Draw(r, "outcome"),
			code:    rapid.SampledFrom([]schemas.Code{"", schemas.DenyHost}).Draw(r, "code"),
		}
	}), 20, 120)
}

// TestEqualsAFold: after any program, and whenever it was read, the index says what the
// events of each action say.
func TestEqualsAFold(t *testing.T) {
	t.Parallel()
	for seed := range table.Rounds(30) {
		s := open(t)
		states := s.run(programs().Example(seed))
		s.equal(states)
		s.x.Close() // and built at once
		require.NoError(t, index.Discard(s.path))
		s.start()
		s.equal(states)
		s.x.Close()
	}
}

func (s *shop) run(program []step) (states []*ledger.State) {
	s.t.Helper()
	for n, op := range program {
		var st *ledger.State
		if len(states) > 0 {
			st = states[op.which%len(states)]
		}
		switch {
		case op.do < 5:
			states = append(states, s.claimCall(op.kind, fmt.Sprintf("a-%d", n), op.which))
		case op.do < 11 && (st == nil || st.Settled != nil):
		case op.do < 8:
			s.attempt(st, op.entry)
			if op.which%2 > 0 {
				s.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Status: 200 + op.which%300}})
			}
			if op.which%5 == 0 && st.Kind == schemas.KindTask {
				s.append(st, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Holder: "id-3", Agent: fmt.Sprintf("coder-%d", op.which%3)}})
			}
		case op.do < 11:
			s.settle(st, op.outcome, op.code)
		case op.do == 11:
			s.restart()
		default:
			s.page("acme", "limit=1")
		}
	}
	return states
}

// equal compares every row, and what is counted, with the actions' own events.
func (s *shop) equal(states []*ledger.State) {
	s.t.Helper()
	var want, got []string
	by, perEntry := map[string]uint64{}, map[string]uint64{}
	for _, st := range states {
		st, err := s.led.Load(context.Background(), st.Ref)
		require.NoError(s.t, err)
		var code schemas.Code
		var entry, settled string
		name := index.StatusOpen
		if end := st.Settled; end != nil {
			code, name = end.Code, string(end.Outcome)
			if n := len(st.Attempts); n > 0 {
				entry = st.Attempts[n-1].LastWord().Entry
			}
			settled = "settled"
			perEntry[entry]++
		}
		by[name]++
		want = append(want, fmt.Sprint(st.ID, st.Kind, st.Status(), code, entry, settled, st.Action.Deadline.UnixNano(), st.Called(), statusOf(st), agentOf(st), st.Action.Caller))
	}
	s.pages("limit=9", func(page schemas.ActionPage) {
		for _, it := range page.Items {
			settled := ""
			if !it.Settled.IsZero() {
				settled = "settled"
			}
			got = append(got, fmt.Sprint(it.ID, it.Kind, it.Status, it.Code, it.Entry, settled, it.Deadline.UnixNano(), it.Called, it.HTTPStatus, it.Agent, it.Caller))
		}
	})
	slices.Reverse(want)
	require.Equal(s.t, want, got)
	count := s.page("acme", "count=true").Count
	require.Equal(s.t, by, count.By)
	require.EqualValues(s.t, len(states), count.Total)
	for _, since := range []string{"1h", "24h"} {
		stats := s.stats("acme", "by=entry&since="+since)
		require.EqualValues(s.t, len(states), stats.Total.Accepted)
		require.Equal(s.t, by[index.StatusOpen], stats.Open.Count)
		sums := map[string]uint64{}
		for _, g := range stats.Groups {
			sums[g.Name] = g.Settled
		}
		require.Equal(s.t, perEntry, sums)
		delete(by, index.StatusOpen)
		require.Equal(s.t, by, stats.Total.Outcomes)
		by[index.StatusOpen] = stats.Open.Count
		if by[index.StatusOpen] == 0 {
			delete(by, index.StatusOpen)
		}
	}
}

// TestASilentPartition: an answer does not wait for it. It has the others' actions, and says
// that some are missing.
func TestASilentPartition(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	silent := ""
	s := open(t)
	for i := range 30 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i))
	}
	s.x.Close()
	mute := muted{Log: s.log, of: func() string { mu.Lock(); defer mu.Unlock(); return silent }}
	s.x = index.New(mute, always{}, index.Config{Layout: layout, Path: s.path, Wait: 2 * time.Second})
	t.Cleanup(s.x.Close)
	silent = schemas.LogStream(1)
	page := s.page("acme", "limit=1000")
	require.NotZero(t, page.Behind)
	require.NotEmpty(t, page.Items)
	require.Less(t, len(page.Items), 30)
	mu.Lock()
	silent = ""
	mu.Unlock()
	page = s.page("acme", "limit=1000")
	require.Zero(t, page.Behind)
	require.Len(t, page.Items, 30)
	mu.Lock()
	silent = schemas.LogStream(1)
	mu.Unlock()
	page = s.page("acme", "limit=1000") // where they stand is not known now; that they are there is
	require.NotZero(t, page.Behind)
	require.Len(t, page.Items, 30)
}

// muted is a log of which one partition does not answer.
type muted struct {
	*memlog.Log
	of func() string
}

func (m muted) wait(ctx context.Context, stream string) error {
	if stream != m.of() {
		return nil
	}
	<-ctx.Done()
	return errors.Join(fault.ErrUnavailable, context.Cause(ctx))
}

func (m muted) Bounds(ctx context.Context, stream string) (first, last uint64, err error) {
	if err := m.wait(ctx, stream); err != nil {
		return 0, 0, err
	}
	return m.Log.Bounds(ctx, stream)
}

// TestALateReplica: the index waits for records that a replica does not show yet.
func TestALateReplica(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 20 {
		s.settle(s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i)), schemas.OutcomeSucceeded, "")
	}
	s.late.Store(5)
	require.Len(t, s.ids("status=succeeded"), 20)
	require.Less(t, s.late.Load(), int64(5), "it was late")
}

// TestReadsOnByItself: the index is built before the first request.
func TestReadsOnByItself(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 100 {
		s.claim("acme", schemas.KindHTTP, fmt.Sprintf("a-%d", i))
	}
	s.x.Close()
	caught := make(chan struct{})
	var once sync.Once
	s.x = index.New(s.log, stored(func() { once.Do(func() { close(caught) }) }), index.Config{Layout: layout, Path: s.path, Every: time.Millisecond, Wait: time.Minute})
	t.Cleanup(s.x.Close)
	s.x.Start()
	s.x.Start()
	select {
	case <-caught:
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was read")
	}
	require.Len(t, s.ids(""), 100)
}

// stored hears that a batch is about to be kept.
type stored func()

func (s stored) Durable(context.Context, string, uint64) error {
	s()
	return nil
}
