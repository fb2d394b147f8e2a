package agent

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/processors/call/sse"
	"weir/schemas"
)

// TestTooManyEvents: what one run may leave on the log has a bound. Its end is not
// among what is left out, and says how much that is.
func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	const ok = `{"request_id":"r-1","status":"ok","outputs":{}}`
	large := `"` + strings.Repeat("x", schemas.InlineLimit) + `"`
	type testCase struct {
		said     []sentence // behind all events but one that there may be
		given    int
		warnings []string
	}
	table.Run(t, map[string]testCase{
		"one less":  {[]sentence{{"final", ok}}, 0, nil},
		"as many":   {[]sentence{{"progress", "1"}, {"final", ok}}, 1, nil},
		"one more":  {[]sentence{{"progress", "1"}, {"progress", "2"}, {"final", ok}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
		"of a sort": {[]sentence{{"progress", "1"}, {"log", "2"}, {"started", "{\"a\":1}"}, {"progress", large}, {"final", ok}}, 1, []string{"the agent sent more than 100000 events; 3 of them are left out"}},
		"a failure": {[]sentence{{"progress", "1"}, {"progress", "2"}, {"error", "it broke"}}, 1, []string{"the agent sent more than 100000 events; 1 of them are left out"}},
		"two ends": {
			[]sentence{{"progress", "1"}, {"progress", "2"}, {"final", ok}, {"final", `{"request_id":"r-1","status":"error"}`}},
			1,
			[]string{"the agent sent more than 100000 events; 1 of them are left out"},
		},
	}, func(t *testing.T, tt testCase) {
		given := 0
		l := &listener{exchange: &exchange{}, head: head{status: 200}, given: maxEvents - 1}
		l.talk = Talk{RequestID: "r-1", Progress: func(context.Context, schemas.RunProgress) error { given++; return nil }}
		l.reader.talk = l.talk
		for _, s := range tt.said {
			require.NoError(t, l.event(t.Context(), sse.Event{Name: s.name, Data: []byte(s.data), Size: len(s.data)}))
		}
		reply, err := l.ended(io.EOF)
		require.NoError(t, err)
		var end schemas.RunResult
		require.NoError(t, json.Unmarshal(reply.Answer.Body, &end))
		assert.Equal(t, tt.warnings, end.Warnings)
		assert.Equal(t, tt.given, given)
	})
}

// TestEventsAreCounted from the first on, those whose data is not kept too.
func TestEventsAreCounted(t *testing.T) {
	t.Parallel()
	l := &listener{exchange: &exchange{}, head: head{status: 200}}
	l.talk = Talk{RequestID: "r-1", Progress: discard}
	for _, ev := range []sse.Event{
		{Name: "progress", Data: []byte("1"), Size: 1},
		{Name: "progress", Size: 9 << 20},
		{Name: "started", Data: []byte(`{"a":1}`), Size: 7},
		{Name: "started", Data: []byte("{}"), Size: 2},
		{Name: "progress"},
	} {
		require.NoError(t, l.event(t.Context(), ev))
	}
	assert.Equal(t, 3, l.given)
}
