package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	double "weir/internal/weirtest/agent"
	"weir/schemas"
)

// says is an agent that answers with a stream.
func says(t *testing.T, stream string) *double.Agent {
	t.Helper()
	return double.New(t, double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
		x.Begin(200, "text/event-stream")
		x.Write(stream)
	}}}})
}

const finished = "event: final\ndata: {\"request_id\":\"r-1\",\"task_type\":\"DOUBLE\",\"status\":\"ok\",\"outputs\":{}}\n\n"

// TestNamesAreScrubbedBeforeTheyAreCut: most of a secret is as bad as all of it,
// and so is one that stood around a byte that is mended.
func TestNamesAreScrubbedBeforeTheyAreCut(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	var want []string
	for at := range 130 {
		before, behind := strings.Repeat("n", at), strings.Repeat("m", 200)
		kept := (before + "REDACTED" + behind)[:128]
		in.WriteString("event: " + before + secret + behind + "\ndata: 1\n\n")
		in.WriteString("data: {\"type\":\"" + before + secret + behind + "\"}\n\n")
		in.WriteString("event: " + before + "\xff" + secret + behind + "\ndata: 1\n\n")
		want = append(want, kept, kept, strings.ToValidUTF8((before + "\uFFFDREDACTED" + behind)[:128], ""))
	}
	events, _, _, err := newLine(t, says(t, in.String()+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	var got []string
	for _, e := range events {
		got = append(got, e.Name)
	}
	assert.Equal(t, want, got)
}
