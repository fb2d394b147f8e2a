package schemas_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestEnds: an end is known by its place and its first members, whatever else it holds.
func TestEnds(t *testing.T) {
	t.Parallel()
	layout, ref := schemas.Layout{Partitions: 4}, schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	in := func(s schemas.Section, data string) schemas.Record {
		return schemas.Record{Subject: layout.Subject(ref, s), Data: []byte(data)}
	}
	event := func(typ schemas.EventType, n int) string {
		data, err := json.Marshal(schemas.Event{V: schemas.EventVersion, N: n, Type: typ, Time: time.Now(), Data: []byte(`{"type":"settled","a":1}`)})
		require.NoError(t, err)
		return string(data)
	}
	for _, n := range []int{1, 3, 123_456_789_012_345} {
		end := event(schemas.EventSettled, n)
		require.True(t, in(schemas.SectionEvent, end).Ends(), end)
		require.True(t, schemas.Append{Subject: layout.Subject(ref, schemas.SectionEvent), Data: []byte(end)}.Ends())
		require.False(t, in(schemas.SectionWake, end).Ends(), "it is no place for one")
		require.False(t, in(schemas.SectionAccepted, end).Ends())
	}
	require.True(t, in(schemas.SectionEvent, `{"v":9,"n":3,"type":"settled","ti`).Ends(), "half of one")
	for _, typ := range []schemas.EventType{
		schemas.EventStarted, schemas.EventAttempt, schemas.EventAttempted, schemas.EventWaiting, schemas.EventProgress, schemas.EventDelta, schemas.EventStatus,
	} {
		require.Equal(t, schemas.SectionEvent, schemas.SectionOf(typ))
		require.False(t, in(schemas.SectionEvent, event(typ, 2)).Ends(), typ)
	}
	require.False(t, in(schemas.SectionEvent, "").Ends())
	require.False(t, schemas.Record{Subject: "weir.evidence.t.http.e.a", Data: []byte(event(schemas.EventSettled, 1))}.Ends())
}

// TestNotifies: what has no content only notifies, where notifications lie.
func TestNotifies(t *testing.T) {
	t.Parallel()
	layout, ref := schemas.Layout{Partitions: 4}, schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "a"}
	for section, notifies := range map[schemas.Section]bool{
		schemas.SectionWake: true, schemas.SectionOverflow: true, schemas.SectionOverflowLong: true, schemas.SectionAccepted: false, schemas.SectionEvent: false,
	} {
		r := schemas.Record{Subject: layout.Subject(ref, section)}
		require.Equal(t, notifies, r.Notifies(), section)
		r.Data = []byte("{}")
		require.False(t, r.Notifies(), section)
	}
}
