package harness

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// Layout is that of every log here: one partition.
func Layout() schemas.Layout { return schemas.Layout{Partitions: 1} }

// Claim accepts an action. A tenant, an id, a fingerprint, its times and a deadline a minute from now
// are filled in where a lacks them; payload, unless it is nil, is encoded as the action's.
func Claim(t *testing.T, l *ledger.Ledger, a schemas.Action, payload any) *ledger.State {
	t.Helper()
	a.Tenant, a.ID, a.Fingerprint = cmp.Or(a.Tenant, "default"), cmp.Or(a.ID, "a"), cmp.Or(a.Fingerprint, "f")
	a.AcceptedAt, a.Deadline = cmp.Or(a.AcceptedAt, time.Now()).UTC(), cmp.Or(a.Deadline, time.Now().Add(time.Minute)).UTC()
	if payload != nil {
		doc, err := ledger.Encode(payload)
		require.NoError(t, err)
		a.Payload = doc
	}
	st, duplicate, err := l.Claim(t.Context(), a)
	require.NoError(t, err)
	require.False(t, duplicate)
	return st
}

// Accepted is the message that brings an accepted action to a worker.
func Accepted(t *testing.T, log *memlog.Log, ref schemas.Ref) schemas.Record {
	t.Helper()
	return Last(t, log, ref, schemas.SectionAccepted)
}

// Last is the newest message of an action in a section.
func Last(t *testing.T, log *memlog.Log, ref schemas.Ref, section schemas.Section) schemas.Record {
	t.Helper()
	rec, err := log.Last(t.Context(), schemas.LogStream(0), Layout().Subject(ref, section))
	require.NoError(t, err)
	return rec
}

// Load is an action as it is on the log.
func Load(t *testing.T, l *ledger.Ledger, ref schemas.Ref) *ledger.State {
	t.Helper()
	st, err := l.Load(t.Context(), ref)
	require.NoError(t, err)
	return st
}

// Append writes events of an action.
func Append(t *testing.T, l *ledger.Ledger, st *ledger.State, events ...schemas.Event) {
	t.Helper()
	for _, ev := range events {
		require.NoError(t, l.Append(t.Context(), st, ev))
	}
}

// TryAppend writes an event of an action, and reports whether no other writer was first.
func TryAppend(t *testing.T, l *ledger.Ledger, st *ledger.State, ev schemas.Event) bool {
	t.Helper()
	err := l.Append(t.Context(), st, ev)
	if errors.Is(err, fault.ErrFenced) {
		return false
	}
	require.NoError(t, err)
	return true
}

// Start writes that a worker has begun with an action.
func Start(t *testing.T, l *ledger.Ledger, st *ledger.State) {
	t.Helper()
	Append(t, l, st, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w0"}})
}

// Evidence is what was recorded of an action, in order; of all actions where id is empty.
func Evidence(t *testing.T, log *memlog.Log, id string) (all []schemas.Evidence) {
	t.Helper()
	for _, r := range Records(t, log, schemas.EvidenceStream, schemas.EvidenceRoot+".>") {
		if e := fixture.Decode[schemas.Evidence](t, r.Data); id == "" || e.ActionID == id {
			all = append(all, e)
		}
	}
	return all
}

// Records are the messages of a stream under a filter.
func Records(t *testing.T, log *memlog.Log, stream, filter string) []schemas.Record {
	t.Helper()
	records, _, err := log.Page(t.Context(), stream, filter, 1, 100_000, 1<<30)
	require.NoError(t, err)
	return records
}

// Dead are the messages that were put aside.
func Dead(t *testing.T, log *memlog.Log) []schemas.Record {
	t.Helper()
	return Records(t, log, schemas.DeadStream, schemas.DeadRoot+".>")
}

// Patience is how long a message is given back for whose worker may live.
const Patience = 10 * time.Second

// Later asserts that an error says when its message comes again.
func Later(t *testing.T, err error, after time.Duration) {
	t.Helper()
	require.Error(t, err)
	ack, again := fault.Disposition(err)
	require.False(t, ack)
	require.Equal(t, after, again)
}

// As is the error of a type that err is.
func As[E error](t *testing.T, err error) (target E) {
	t.Helper()
	require.ErrorAs(t, err, &target)
	return target
}
