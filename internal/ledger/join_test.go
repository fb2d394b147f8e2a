package ledger_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// counted counts what is asked of a log, and the records that it shows in pages.
type counted struct {
	*memlog.Log
	lasts, pages, appends, records int
}

func (c *counted) Last(ctx context.Context, stream, filter string) (schemas.Record, error) {
	c.lasts++
	return c.Log.Last(ctx, stream, filter)
}

func (c *counted) Page(ctx context.Context, stream, filter string, from uint64, limit, size int) ([]schemas.Record, bool, error) {
	c.pages++
	list, more, err := c.Log.Page(ctx, stream, filter, from, limit, size)
	c.records += len(list)
	return list, more, err
}

func (c *counted) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	c.appends++
	return c.Log.Append(ctx, m)
}

var (
	begun    = schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}}
	attempt  = schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1}}
	result   = schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1}}
	unsent   = schemas.Event{Type: schemas.EventAttempted, Attempt: &schemas.Attempt{Number: 1}, Attempted: &schemas.Attempted{Number: 1}}
	waiting  = schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitCapacity}}
	progress = schemas.Event{Type: schemas.EventProgress, Data: []byte(`{"name":"progress"}`)}
	delta    = schemas.Event{Type: schemas.EventDelta, Data: []byte(`{}`)}
	cancel   = schemas.Event{Type: schemas.EventCancel}
	ended    = schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeUnknown}}
	resolved = schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}}
	wake     = schemas.Event{} // written as a wake-up
	garbage  = schemas.Event{Type: "garbage"}
)

// live writes a history behind an accepted event.
func live(t *testing.T, l *ledger.Ledger, log ledger.Log, events ...schemas.Event) schemas.Ref {
	t.Helper()
	st := claim(t, l, action("f"))
	for _, ev := range events {
		section, data := schemas.SectionWake, ""
		switch ev.Type {
		case wake.Type:
		case garbage.Type:
			section, data = schemas.SectionEvent, "?"
		default:
			require.NoError(t, l.Append(t.Context(), st, ev))
			continue
		}
		_, err := log.Append(t.Context(), schemas.Append{Subject: layout.Subject(st.Ref, section), Data: []byte(data)})
		require.NoError(t, err)
		st = load(t, l, st.Ref)
	}
	return st.Ref
}

// TestAJoinSaysWhatTheFoldSays, whatever lies on the log.
func TestAJoinSaysWhatTheFoldSays(t *testing.T) {
	t.Parallel()
	for name, history := range map[string][]schemas.Event{
		"accepted":                {},
		"woken":                   {wake},
		"started":                 {begun},
		"started, woken":          {begun, wake},
		"under way":               {begun, attempt},
		"answered":                {begun, attempt, result},
		"waiting":                 {begun, waiting},
		"waiting, woken":          {begun, waiting, wake},
		"waited":                  {begun, waiting, wake, attempt},
		"waited, nothing sent":    {begun, waiting, wake, unsent},
		"waited, progress":        {begun, waiting, wake, progress},
		"progress":                {begun, attempt, progress, delta},
		"canceled":                {cancel},
		"canceled while it runs":  {begun, attempt, cancel},
		"canceled while it waits": {begun, waiting, cancel, wake},
		"progress after a cancel": {begun, cancel, progress},
		"ended":                   {begun, attempt, result, ended},
		"ended, woken":            {begun, attempt, ended, wake},
		"resolved":                {begun, ended, resolved},
		"resolved, woken":         {begun, ended, resolved, wake},
		"unreadable":              {begun, garbage},
		"unreadable, ended":       {begun, garbage, ended},
	} {
		l, log := setup(memlog.Hooks{})
		ref := live(t, l, log, history...)
		want := load(t, l, ref)
		for kind, join := range map[string]func() (*ledger.State, error){
			"join": func() (*ledger.State, error) { return l.Existing(t.Context(), action("f")) },
			"claim": func() (*ledger.State, error) {
				st, duplicate, err := l.Claim(t.Context(), action("f"))
				require.True(t, duplicate)
				return st, err
			},
		} {
			got, err := join()
			require.NoError(t, err, "%s: %s", kind, name)
			require.Equal(t, want.Status(), got.Status(), "%s: %s", kind, name)
			require.Equal(t, want.Action, got.Action, "%s: %s", kind, name)
			require.Equal(t, want.Settled, got.Settled, "%s: %s", kind, name)
			require.Equal(t, want.Ref, got.Ref, "%s: %s", kind, name)
			if kind == "join" && slices.Contains([]string{"accepted", "under way", "ended"}, name) {
				require.ErrorIs(t, l.Append(t.Context(), got, attempt), fault.ErrFenced, "nobody decides anything from half a state")
			}
		}
		_, err := l.Existing(t.Context(), action("other"))
		require.ErrorIs(t, err, fault.ErrConflict, name)
	}
}

// TestAJoinReadsAsMuchOfALongHistory as of a short one.
func TestAJoinReadsAsMuchOfALongHistory(t *testing.T) {
	t.Parallel()
	const many = 3000
	for name, end := range map[string][]schemas.Event{
		"progress": nil, "waiting": {waiting}, "woken": {waiting, wake}, "ended": {ended}, "resolved": {ended, resolved, wake},
	} {
		log := &counted{Log: memlog.New(layout, time.Now, memlog.Hooks{})}
		l := ledger.New(log, layout, nil)
		history := []schemas.Event{begun, attempt}
		for range many {
			history = append(history, progress)
		}
		live(t, l, log, append(history, end...)...)
		log.lasts, log.pages, log.appends = 0, 0, 0
		must(l.Existing(t.Context(), action("f")))(t)
		require.Zero(t, log.pages, "%s: no page of the history", name)
		require.LessOrEqual(t, log.lasts, 4, name)
		require.Zero(t, log.appends, "%s: nothing is written", name)
		_, duplicate, err := l.Claim(t.Context(), action("f"))
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Zero(t, log.pages, name)
	}
}

func TestJoinOfNothing(t *testing.T) {
	t.Parallel()
	away := false
	l, log := setup(memlog.Hooks{Read: func() error {
		if away {
			return fault.ErrUnavailable
		}
		return nil
	}})
	_, err := l.Existing(t.Context(), action("f"))
	require.ErrorIs(t, err, fault.ErrNotFound)
	ref := live(t, l, log, begun, attempt)
	away = true
	_, err = l.Existing(t.Context(), action("f"))
	require.ErrorIs(t, err, fault.ErrUnavailable)
	away = false
	log.Purge(schemas.LogStream(layout.Partition("t", "a")), 2)
	_, err = l.Existing(t.Context(), action("f"))
	require.ErrorIs(t, err, fault.ErrGone)
	_, err = l.Load(t.Context(), ref)
	require.ErrorIs(t, err, fault.ErrGone, "as the fold says")
}

// TestWhatMayFollow an event that its writer has not seen: the result of a call, its output and the
// end of an action follow a request to cancel, which itself follows anything but an end. Of all that
// came between only what is new is read. Anything else is fenced.
func TestWhatMayFollow(t *testing.T) {
	t.Parallel()
	succeeded := schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}
	for name, tt := range map[string]struct {
		between []schemas.Event
		next    schemas.Event
		fenced  bool
		kind    schemas.Kind // http where it is empty
	}{
		"cancel, attempted": {between: []schemas.Event{cancel}, next: result},
		"cancel, settled":   {between: []schemas.Event{cancel}, next: succeeded},
		"cancel, progress":  {between: []schemas.Event{cancel}, next: progress},
		"cancel, delta":     {between: []schemas.Event{cancel}, next: delta},
		"cancel, started":   {between: []schemas.Event{cancel}, next: begun, fenced: true},
		"cancel, attempt":   {between: []schemas.Event{cancel}, next: attempt, fenced: true},
		"cancel, waiting":   {between: []schemas.Event{cancel}, next: waiting, fenced: true},

		"cancel, the end of a task": {between: []schemas.Event{cancel}, next: succeeded, fenced: true, kind: schemas.KindTask},

		"started, cancel":          {between: []schemas.Event{begun}, next: cancel},
		"attempt, cancel":          {between: []schemas.Event{begun, attempt}, next: cancel},
		"attempted, cancel":        {between: []schemas.Event{begun, attempt, result}, next: cancel},
		"waiting, cancel":          {between: []schemas.Event{begun, waiting}, next: cancel},
		"progress, delta, cancel":  {between: []schemas.Event{progress, delta, delta}, next: cancel},
		"another cancel, cancel":   {between: []schemas.Event{begun, {Type: schemas.EventCancel, Time: time.Unix(1, 0).UTC()}}, next: cancel, fenced: true},
		"the end, cancel":          {between: []schemas.Event{begun, succeeded}, next: cancel, fenced: true},
		"what a task says, cancel": {between: []schemas.Event{{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskReported}}}, next: cancel, fenced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, log := setup(memlog.Hooks{})
				a := action("f")
				a.Kind = cmp.Or(tt.kind, a.Kind)
				st := claim(t, l, a)
				other := load(t, l, st.Ref)
				for _, ev := range tt.between {
					require.NoError(t, l.Append(t.Context(), other, ev))
				}
				wakeUp(t, log, st.Ref)
				begin := time.Now()
				err := l.Append(t.Context(), st, tt.next)
				if tt.fenced {
					require.ErrorIs(t, err, fault.ErrFenced)
					return
				}
				require.NoError(t, err)
				assert.Zero(t, time.Since(begin), "it is made again at once")
				loaded := load(t, l, st.Ref)
				assert.Nil(t, loaded.Damaged)
				assert.True(t, loaded.CancelRequested)
				assert.Equal(t, len(tt.between)+2, loaded.N)
				st.Inherited, st.Again = loaded.Inherited, loaded.Again // how it was read
				assert.Equal(t, loaded, st)
			})
		})
	}
}

// TestACancelIsNotStarved by a writer that is first every time, until it has been for so long that
// something else is the matter.
func TestACancelIsNotStarved(t *testing.T) {
	t.Parallel()
	for first, ok := range map[int]bool{100: true, 10_000: false} {
		synctest.Test(t, func(t *testing.T) {
			var l *ledger.Ledger
			var writer *ledger.State
			left, tries := first, 0
			l, _ = setup(memlog.Hooks{Before: func(m schemas.Append) error {
				if ev, err := ledger.Decode(m.Data); err == nil && ev.Type != schemas.EventCancel {
					return nil
				}
				if tries++; left > 0 {
					left--
					require.NoError(t, l.Append(t.Context(), writer, schemas.Event{Type: schemas.EventDelta}))
				}
				return nil
			}})
			st := claim(t, l, action("f"))
			writer = load(t, l, st.Ref)
			begin := time.Now()
			err := l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel})
			if !ok {
				require.ErrorIs(t, err, fault.ErrFenced)
				require.Less(t, tries, 1000)
				return
			}
			require.NoError(t, err)
			require.Zero(t, time.Since(begin))
			require.Equal(t, first+1, tries)
			require.Equal(t, first+2, st.N)
		})
	}
}
