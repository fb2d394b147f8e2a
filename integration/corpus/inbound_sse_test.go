//go:build e2e

package corpus_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sseEvent is one event as a browser would dispatch it.
type sseEvent struct{ id, name, data string }

var lineEnd = regexp.MustCompile(`\r\n|\r|\n`)

// parseSSE reads a stream as the HTML standard says. What is not ended by an
// empty line is not an event.
func parseSSE(stream string) (all []sseEvent) {
	var e sseEvent
	var data []string
	id := ""
	lines := lineEnd.Split(strings.TrimPrefix(stream, "\ufeff"), -1)
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != nil {
				e.id, e.data = id, strings.Join(data, "\n")
				all = append(all, e)
			}
			e, data = sseEvent{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "data":
			data = append(data, value)
		case "id":
			id = value
		}
	}
	return all
}

func TestParseSSE(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		[]sseEvent{{"1", "a", "x\ny"}, {"1", "", "z"}, {"2", "", ""}},
		parseSSE("\ufeff:c\r\nid: 1\revent:a\ndata: x\ndata:y\n\ndata: z\n\nevent: none\n\nid:2\ndata\n\ndata: cut"))
}

// stream opens the events of a row's action, or of another path, and returns
// the answer's head and the rest of the connection.
func (g *gateway) stream(t *testing.T, path, after string) (heard, *net.TCPConn, io.Reader) {
	t.Helper()
	return g.streamOn(t, g.dial(t), path, after)
}

func (g *gateway) streamOn(t *testing.T, c *net.TCPConn, path, after string) (heard, *net.TCPConn, io.Reader) {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n%s\r\n", path, g.get("task_token"), after)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return heard{status: resp.StatusCode, header: resp.Header}, c, resp.Body
}

// follow reads an event stream as the row says.
func (r *inboundRow) follow(t *testing.T, g *gateway) heard {
	t.Helper()
	switch {
	case r.PaceRead > 0:
		return r.dripped(t, g)
	case r.Assert == "heartbeat":
		return r.idle(t, g)
	}
	h, _, body := g.stream(t, g.fill(t, r, r.Path), "")
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	events := parseSSE(string(all))
	settled := 0
	for _, e := range events {
		require.NotEqual(t, "final", e.name)
		var doc any
		require.NoError(t, json.Unmarshal([]byte(e.data), &doc), e.data)
		if holds(doc, hostileText) {
			settled++
		}
	}
	require.Equal(t, 1, settled, "the payload, whole, in one event: %s", cut(string(all)))
	return h
}

// holds reports whether a text stands somewhere in a document, as it is.
func holds(doc any, text string) bool {
	switch v := doc.(type) {
	case string:
		return v == text || strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &doc) == nil && holds(doc, text)
	case []any:
		for _, e := range v {
			if holds(e, text) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if holds(e, text) {
				return true
			}
		}
	}
	return false
}

// idle waits at a stream on which nothing happens.
func (r *inboundRow) idle(t *testing.T, g *gateway) heard {
	t.Helper()
	id := g.act(t, "task_token", "/hang", "Prefer", "respond-async")
	defer func() { g.ask(t, "task_token", http.MethodPost, "/v1/actions/"+id+"/cancel", nil) }()
	h, c, body := g.stream(t, "/v1/actions/"+id+"/events", "")
	assert.Equal(t, "no", h.header.Get("X-Accel-Buffering"))
	assert.Contains(t, h.header.Get("Cache-Control"), "no-transform")
	lines := bufio.NewScanner(body)
	comments := 0
	for comments < 2 && lines.Scan() { // the first comes at once, the second as a sign of life
		require.NoError(t, c.SetReadDeadline(time.Now().Add(45*time.Second))) // 15 s, and what a standstill takes
		if lines.Text() == ":" {
			comments++
		}
	}
	require.Equal(t, 2, comments, "no sign of life: %v", lines.Err())
	return h
}

// decisions make an action of several events each: more, all together, than the
// buffers between the two sides hold.
const decisions = 1200

// dripped reads a long history a byte a second, is cut off, and resumes.
func (r *inboundRow) dripped(t *testing.T, g *gateway) heard {
	t.Helper()
	plan := make([]any, decisions)
	for i := range plan {
		plan[i] = map[string]any{
			"effect_ref":   "e" + itoa(i),
			"target_state": map[string]any{"method": "GET", "url": g.upstream.URL + "/v1/x?row=plan", "allowlist_key": "api"},
		}
	}
	doc := map[string]any{"request_id": r.ID, "state:env.snapshot": map[string]any{}, "artifact:proposed.plan": map[string]any{"decisions": plan}}
	made := g.ask(t, "task_token", http.MethodPost, "/v1/plans", doc, "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, made.status, made.body)
	path := "/v1/actions/" + r.ID + "/events"
	narrow := g.dial(t)
	require.NoError(t, narrow.SetReadBuffer(4<<10))
	h, c, body := g.streamOn(t, narrow, path, "")
	first := make([]byte, 300)
	_, err := io.ReadFull(body, first)
	require.NoError(t, err)
	// What follows has the frames of its chunks between: no more than its first event is used.
	got := string(first) + string(drip(t, c, func() {}))
	require.NotContains(t, got, `"settled"`, "cut off before the end")
	seen := ""
	events := parseSSE(got)
	if len(events) > 0 {
		seen = "Last-Event-ID: " + events[0].id + "\r\n"
	}
	_, c, body = g.stream(t, path, seen)
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute))) // the plan may still run
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	resumed := parseSSE(string(rest))
	require.NotEmpty(t, resumed)
	require.Contains(t, resumed[len(resumed)-1].data, `"settled"`)
	ids := map[string]bool{}
	last := uint64(0)
	for _, e := range resumed {
		n, err := strconv.ParseUint(e.id, 10, 64)
		require.NoError(t, err)
		require.Greater(t, n, last, "in order, and none twice")
		last = n
		ids[e.id] = true
	}
	_, c, body = g.stream(t, path, "")
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
	whole, err := io.ReadAll(body)
	require.NoError(t, err)
	all := parseSSE(string(whole))
	require.Greater(t, len(all), 2*decisions)
	for _, e := range all[min(1, len(events)):] {
		require.True(t, ids[e.id], "event %s was lost", e.id)
	}
	return h
}
