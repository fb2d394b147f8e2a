package ledger_test

import (
	"errors"
	"fmt"
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

var layout = schemas.Layout{Partitions: 4}

func action(fingerprint string) schemas.Action {
	return schemas.Action{
		ID: "a", Tenant: "t", Kind: schemas.KindHTTP, Fingerprint: fingerprint,
		AcceptedAt: time.Now().UTC(), Payload: []byte(`{"n":1.50}`),
	}
}

func setup(hooks memlog.Hooks) (*ledger.Ledger, *memlog.Log) {
	log := memlog.New(layout, time.Now, hooks)
	return ledger.New(log, layout, nil), log
}

func claim(t *testing.T, l *ledger.Ledger, a schemas.Action) *ledger.State {
	t.Helper()
	st, _, err := l.Claim(t.Context(), a)
	require.NoError(t, err)
	return st
}

func load(t *testing.T, l *ledger.Ledger, ref schemas.Ref) *ledger.State {
	t.Helper()
	st, err := l.Load(t.Context(), ref)
	require.NoError(t, err)
	return st
}

// wakeUp puts a wake-up among an action's messages.
func wakeUp(t *testing.T, log ledger.Log, ref schemas.Ref) {
	t.Helper()
	_, err := log.Append(t.Context(), schemas.Append{Subject: layout.Subject(ref, schemas.SectionWake)})
	require.NoError(t, err)
}

func TestClaim(t *testing.T) {
	t.Parallel()
	l, _ := setup(memlog.Hooks{})
	st, duplicate, err := l.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	assert.False(t, duplicate)
	assert.Equal(t, "accepted", st.Status())

	again, duplicate, err := l.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	assert.True(t, duplicate)
	assert.Equal(t, st.Action, again.Action)
	assert.JSONEq(t, `{"n":1.50}`, string(again.Action.Payload))

	_, _, err = l.Claim(t.Context(), action("other"))
	require.ErrorIs(t, err, fault.ErrConflict)
	plan := action("f")
	plan.Kind = schemas.KindPlan
	_, _, err = l.Claim(t.Context(), plan)
	require.ErrorIs(t, err, fault.ErrConflict, "an id is unique across kinds")
	other := action("other")
	other.Tenant = "u"
	_, duplicate, err = l.Claim(t.Context(), other)
	require.NoError(t, err, "an id belongs to its tenant")
	assert.False(t, duplicate)

	found := must(l.Find(t.Context(), "t", "a"))(t)
	assert.Equal(t, st.Ref, found.Ref)
	_, err = l.Find(t.Context(), "t", "b")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestFullLogKnowsItsActions: while new ones are refused, a repeat still joins.
func TestFullLogKnowsItsActions(t *testing.T) {
	t.Parallel()
	full := false
	l, _ := setup(memlog.Hooks{Before: func(m schemas.Append) error {
		if full && m.Last == 0 {
			return fault.ErrFull
		}
		return nil
	}})
	claim(t, l, action("f"))
	full = true
	_, duplicate, err := l.Claim(t.Context(), action("f"))
	require.NoError(t, err)
	assert.True(t, duplicate)
	_, _, err = l.Claim(t.Context(), action("other"))
	require.ErrorIs(t, err, fault.ErrConflict)
	fresh := action("f")
	fresh.ID = "b"
	_, _, err = l.Claim(t.Context(), fresh)
	require.ErrorIs(t, err, fault.ErrFull)
}

// TestClaimWhoseAcknowledgementIsLost: the log is read back, and says whether it was stored, and
// whose claim stands there.
func TestClaimWhoseAcknowledgementIsLost(t *testing.T) {
	t.Parallel()
	var log *memlog.Log
	other := action("f")
	other.AcceptedAt = other.AcceptedAt.Add(time.Second)
	began := false
	for name, tt := range map[string]struct {
		hooks     memlog.Hooks
		duplicate bool
		err       error
	}{
		"stored":     {hooks: memlog.Hooks{After: func(schemas.Append, uint64) error { return fault.ErrUnavailable }}},
		"not stored": {hooks: memlog.Hooks{Before: func(schemas.Append) error { return fault.ErrUnavailable }}, err: fault.ErrUnavailable},
		"another's": {hooks: memlog.Hooks{Before: func(schemas.Append) error {
			if began {
				return nil
			}
			began = true
			_, err := log.Append(t.Context(), schemas.Append{Subject: layout.Subject(schemas.Ref{Tenant: "t", Kind: other.Kind, ID: "a"}, schemas.SectionAccepted), Data: accepted(t, other)})
			require.NoError(t, err)
			return fault.ErrUnavailable
		}}, duplicate: true},
	} {
		var l *ledger.Ledger
		l, log = setup(tt.hooks)
		_, duplicate, err := l.Claim(t.Context(), action("f"))
		require.ErrorIs(t, err, tt.err, name)
		assert.Equal(t, tt.duplicate, duplicate, name)
	}
}

// TestFence: of two writers one is told, and a wake-up among the action's messages is not another
// writer.
func TestFence(t *testing.T) {
	t.Parallel()
	l, log := setup(memlog.Hooks{})
	mine := claim(t, l, action("f"))
	other := load(t, l, mine.Ref)
	for range 3 {
		wakeUp(t, log, mine.Ref)
	}
	require.NoError(t, l.Append(t.Context(), mine, begun))
	require.ErrorIs(t, l.Append(t.Context(), other, begun), fault.ErrFenced)
	require.NoError(t, l.Append(t.Context(), mine, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}}))
	other = load(t, l, mine.Ref)
	assert.Equal(t, 3, other.N)
	assert.Equal(t, mine.Seq, other.Seq)
	assert.Equal(t, "succeeded", other.Status())
}

func TestFold(t *testing.T) {
	t.Parallel()
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	record := func(seq uint64, section schemas.Section, data string) schemas.Record {
		return schemas.Record{Subject: layout.Subject(ref, section), Seq: seq, Data: []byte(data)}
	}
	accepted := record(1, schemas.SectionAccepted, `{"v":1,"n":1,"type":"accepted","action":{"id":"a"}}`)
	attempt := record(2, schemas.SectionEvent, `{"v":1,"n":2,"type":"attempt","attempt":{"step":0,"number":1,"class":"once"}}`)

	st := must(ledger.Fold(ref, []schemas.Record{accepted, attempt, record(9, schemas.SectionWake, "")}))(t)
	assert.EqualValues(t, 9, st.Seq)
	assert.Equal(t, 2, st.Inherited)
	require.NotNil(t, st.Open(), "an attempt without a result is open")

	unsent := record(3, schemas.SectionEvent, `{"v":1,"n":2,"type":"attempted","attempt":{"number":1},"attempted":{"number":1,"code":"UPSTREAM_DNS","sent":false}}`)
	st = must(ledger.Fold(ref, []schemas.Record{accepted, unsent}))(t)
	assert.Nil(t, st.Open())
	require.Len(t, st.AttemptsOf(0), 1)
	assert.Empty(t, st.AttemptsOf(1))

	st = must(ledger.Fold(ref, []schemas.Record{accepted, record(2, schemas.SectionEvent, `{"v":1,"n":2,"type":"settled",`)}))(t)
	require.NotNil(t, st.Settled, "an end that cannot be read is an end")
	assert.Equal(t, schemas.Poison, st.Settled.Code)

	st = must(ledger.Fold(ref, []schemas.Record{record(1, schemas.SectionAccepted, `{"v":1,"n":1,"type":"started"}`)}))(t)
	assert.NotNil(t, st.Damaged, "a record of another type than its subject's is damage, not history")

	_, err := ledger.Fold(ref, []schemas.Record{attempt})
	require.ErrorIs(t, err, fault.ErrGone, "history has dropped the beginning")

	for _, bad := range []string{`{`, `[]`, `{"v":1,"n":2,"type":"attempt"}`, `{"v":0,"n":2,"type":"started"}`, `{"v":9,"n":2,"type":"started"}`, `{"v":1,"n":2,"type":"dance"}`} {
		st = must(ledger.Fold(ref, []schemas.Record{accepted, record(2, schemas.SectionEvent, bad)}))(t)
		require.NotNil(t, st.Damaged, bad)
		assert.Equal(t, schemas.Poison, st.Damaged.Code)
		assert.Equal(t, 2, st.N)
	}
}

// TestCancels lie where they wake a worker.
func TestCancels(t *testing.T) {
	t.Parallel()
	for _, kind := range []schemas.Kind{schemas.KindTask, schemas.KindHTTP} {
		for section, good := range map[schemas.Section]bool{schemas.SectionWake: true, schemas.SectionEvent: false} {
			ref := schemas.Ref{Tenant: "t", Kind: kind, ID: "a"}
			st, err := ledger.Fold(ref, []schemas.Record{
				{Subject: layout.Subject(ref, schemas.SectionAccepted), Seq: 1, Data: []byte(`{"v":1,"n":1,"type":"accepted","action":{"id":"a"}}`)},
				{Subject: layout.Subject(ref, section), Seq: 2, Data: []byte(`{"v":1,"n":2,"type":"cancel"}`)},
			})
			require.NoError(t, err)
			assert.Equal(t, good, st.Damaged == nil, "%s %s", kind, section)
			assert.Equal(t, good, st.CancelRequested, "%s %s", kind, section)
		}
	}
	l, _ := setup(memlog.Hooks{})
	a := action("f")
	a.Kind = schemas.KindTask
	st := claim(t, l, a)
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventCancel}))
	joined := must(l.Existing(t.Context(), a))(t)
	assert.True(t, joined.CancelRequested, "who joins it knows of it")
	types := make([]schemas.EventType, 0, 2)
	for _, ev := range st.Events {
		types = append(types, ev.Type)
	}
	assert.Equal(t, []schemas.EventType{schemas.EventAccepted, schemas.EventCancel}, types)
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"v":1,"n":1,"type":"accepted","action":{"id":"a"}}`)
	f.Add(`{"v":1,"n":2,"type":"attempted","attempted":{}}`)
	f.Add(`{"v":1,"n":2,"type":"settled","settled":null}`)
	f.Fuzz(func(t *testing.T, data string) {
		ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
		ev, err := ledger.Decode([]byte(data))
		if err != nil {
			if _, parked := errors.AsType[*fault.Terminal](err); !parked {
				t.Fatalf("an unreadable record must be one to park: %v", err)
			}
		}
		st, err := ledger.Fold(ref, []schemas.Record{{Subject: layout.Subject(ref, schemas.SectionAccepted), Seq: 1, Data: []byte(data)}})
		if err == nil && st.Damaged == nil && ev.Type != schemas.EventAccepted {
			t.Fatalf("%q was folded as the first event", ev.Type)
		}
	})
}

// TestReplay gives every event in order, those that a state only counts among them, over more than
// one page, and of a replica that is late.
func TestReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLate(3, memlog.Hooks{})
		st := claim(t, w.l, action("f"))
		const n = 700
		for i := range n {
			ev := schemas.Event{Type: schemas.EventDelta, Data: fmt.Appendf(nil, `{"chunks":[%d]}`, i)}
			require.NoError(t, w.l.Append(t.Context(), st, ev))
			if i%100 == 0 {
				require.NoError(t, w.l.Notify(t.Context(), st.Ref))
				st = load(t, w.l, st.Ref)
			}
		}
		other := action("g")
		other.ID = "b"
		claim(t, w.l, other)
		w.stall()
		var all []schemas.Event
		require.NoError(t, w.l.Replay(t.Context(), st.Ref, func(ev schemas.Event) error {
			all = append(all, ev)
			return nil
		}))
		require.Len(t, all, n+1)
		for i, ev := range all {
			require.Equal(t, i+1, ev.N)
		}
		assert.JSONEq(t, `{"chunks":[699]}`, string(all[n].Data))
	})
}

func TestReplayEnds(t *testing.T) {
	t.Parallel()
	l, log := setup(memlog.Hooks{})
	st := claim(t, l, action("f"))
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventDelta, Time: time.Now().UTC()}))
	enough := errors.New("enough")
	n := 0
	require.ErrorIs(t, l.Replay(t.Context(), st.Ref, func(schemas.Event) error {
		n++
		return enough
	}), enough)
	assert.Equal(t, 1, n)

	never := func(schemas.Event) error { return nil }
	require.ErrorIs(t, l.Replay(t.Context(), schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "none"}, never), fault.ErrNotFound)

	_, err := log.Append(t.Context(), schemas.Append{Subject: layout.Subject(st.Ref, schemas.SectionEvent), Data: []byte(`{"v":99}`)})
	require.NoError(t, err)
	var parked *fault.Terminal
	require.ErrorAs(t, l.Replay(t.Context(), st.Ref, never), &parked)
}

// must returns the result of a call that may not fail.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}
