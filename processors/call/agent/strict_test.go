package agent_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	double "weir/internal/weirtest/agent"
	"weir/schemas"
)

// TestBytesThatAreNoText: what had to be mended to be read is handed on as a text,
// and is no end, on either route.
func TestBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	const bad = "{\"request_id\":\"r-1\",\"status\":\"ok\",\"outputs\":{\"a\":\"\xff\"}}"
	protocol := func(err error) {
		var failed *fault.Call
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, schemas.UpstreamProtocol, failed.Code)
	}
	events, end, _, err := newLine(t, says(t, "event: progress\ndata: "+bad+"\n\n"+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	require.Nil(t, end.Error)
	require.Len(t, events, 1)
	assert.JSONEq(t, `"{\"request_id\":\"r-1\",\"status\":\"ok\",\"outputs\":{\"a\":\"\uFFFD\"}}"`, string(events[0].Data))

	_, _, _, err = newLine(t, says(t, "event: complete\ndata: "+bad+"\n\n").URL()).talk(t.Context(), t, schemas.RouteRunStream)
	protocol(err)
	for _, body := range []string{bad, `{"request_id":"r-1","status":"error","status":"ok","outputs":{}}`} {
		a := double.New(t, double.Config{Script: []double.Act{{Answer: func(x *double.Exchange) {
			x.Begin(200, "application/json")
			x.Write(body)
		}}}})
		_, _, _, err = newLine(t, a.URL()).talk(t.Context(), t, schemas.RouteRunSync)
		protocol(err)
	}
}

// TestSecretsInDataThatIsNotTaken do not come back by its text, nor by two names
// that are the same once they are redacted.
func TestSecretsInDataThatIsNotTaken(t *testing.T) {
	t.Parallel()
	in := "event: progress\ndata: {\"a\":\"" + secret + "\",\"a\":\"\\ud800" + secret + "\"}\n\n" +
		"event: progress\ndata: {\"" + secret + "\":1,\"REDACTED\":2}\n\n"
	events, _, _, err := newLine(t, says(t, in+finished).URL()).talk(t.Context(), t, schemas.RouteRunStream)
	require.NoError(t, err)
	require.Len(t, events, 2)
	for i, want := range []string{`{"a":"REDACTED","a":"\ud800REDACTED"}`, `{"REDACTED":1,"REDACTED":2}`} {
		var text string
		require.NoError(t, json.Unmarshal(events[i].Data, &text), string(events[i].Data))
		assert.Equal(t, want, text)
	}
}

// TestTheTimeOfARun is that of its end, not that of the connection.
func TestTheTimeOfARun(t *testing.T) {
	t.Parallel()
	a := double.New(t, double.Config{Fault: double.HoldsOpen})
	l := newLine(t, a.URL())
	start := time.Now()
	_, end, _, err := l.talk(t.Context(), t, schemas.RouteRunStream)
	all := time.Since(start)
	require.NoError(t, err)
	var usage struct {
		Duration *int64 `json:"duration_ms"`
	}
	require.NoError(t, json.Unmarshal(end.Usage, &usage))
	require.NotNil(t, usage.Duration)
	assert.LessOrEqual(t, time.Duration(*usage.Duration)*time.Millisecond+grace, all)
}
