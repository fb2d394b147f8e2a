//go:build e2e

package corpus_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// setups make what a row begins with, and return the Weir that it is sent to.
var setups = map[string]func(c *call) *gateway{
	"k1_used": func(c *call) *gateway { return c.used(c.g) },
	// Ten minutes are longer than any window of the broker. The key is found at any age: it is
	// the name of the action, as the tests of the log show.
	"k3_used_10m_ago_restart": func(c *call) *gateway {
		g := c.used(newGateway(c.t, ""))
		require.NoError(c.t, g.stop())
		g.begin(c.t, "")
		return g
	},
	"payload_sse_injection": func(c *call) *gateway {
		c.values["action"] = c.g.act(c.t, c.value("task_token"), "/hostile")
		return c.g
	},
	"nats_down": natsDown,
	"rule_a_exists": func(c *call) *gateway {
		c.createRule("operator_token", c.mock("a"))
		return c.g
	},
	"redirect_a_exists": func(c *call) *gateway {
		c.createRule("operator_token", map[string]any{
			"id": "a", "type": schemas.RuleRedirect, "match": map[string]any{"url_pattern": c.g.upstream.URL + "/v1/x"}, "action": map[string]any{"to_url": c.g.upstream.URL + "/v1/y"},
		})
		return c.g
	},
	"other_tenant_has_rules": func(c *call) *gateway {
		c.createRule("neighbour_token", c.mock("foreign"))
		return c.g
	},
}

// used makes the action that the row's Idempotency-Key already names.
func (c *call) used(g *gateway) *gateway {
	c.g = g
	row := *c.inboundRow
	row.Body = encode(`{"task_type":"http.action","inputs":{"method":"GET","url":"https://api.example.com/v1/x","allowlist_key":"api"}}`)
	first := *c
	first.inboundRow = &row
	h := first.send(first.bytes())
	require.Equal(c.t, http.StatusOK, h.status, h.body)
	c.values["used"] = h.header.Get("Weir-Action-Id")
	return g
}

// natsDown gives a Weir whose NATS server went away.
func natsDown(c *call) *gateway {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: c.t.TempDir()})
	require.NoError(c.t, err)
	s.Start()
	stop := func() { s.Shutdown(); s.WaitForShutdown() }
	c.t.Cleanup(stop)
	require.True(c.t, s.ReadyForConnections(hang))
	g := newGateway(c.t, fmt.Sprintf("log: {partitions: 1, replicas: 1, durability: process}\nnats: {url: %q}\n", s.ClientURL()))
	g.act(c.t, g.caller, "/v1/x?row=before")
	c.t.Cleanup(func() { assert.Zero(c.t, g.upstream.count(c.ID), "what was not accepted was sent") })
	c.g = g
	c.value("task_token")
	stop()
	return g
}

// scripts are the rows that no single run of bytes can be.
var scripts = map[string]func(c *call) answer{
	"{h2_rapid_reset}": func(c *call) answer { // opens streams and resets them
		return c.frames(func(i uint32) []byte {
			return append(frame(1, 5, 2*i+1, []byte{0x82, 0x84, 0x86}), frame(3, 0, 2*i+1, []byte{0, 0, 0, 8})...)
		})
	},
	"{h2_settings_flood}": func(c *call) answer { return c.frames(func(uint32) []byte { return frame(4, 0, 0, nil) }) },
	"{connections}":       (*call).connections,
	"{slow_read}":         (*call).readAnswerSlowly,
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// frames speaks HTTP/2, which is off, until the connection ends: long before the last frame.
func (c *call) frames(next func(i uint32) []byte) answer {
	n, wrote := count(c.Gen, "frames"), 0
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+string(frame(4, 0, 0, nil)))
		for ; wrote < n; wrote++ {
			if _, err := w.Write(next(uint32(wrote))); err != nil {
				return
			}
		}
	}()
	h := c.g.send(c.t, r, http.MethodGet)
	require.NoError(c.t, r.Close())
	<-done
	require.Less(c.t, wrote, n, "all frames were read")
	return answer{closed: h.closed}
}

// connections opens many from one peer and leaves as many idle as the cap allows. The others are
// closed at once, and another peer is served.
func (c *call) connections() answer {
	const perPeer = 100
	g := newGateway(c.t, fmt.Sprintf("limits: {connections_per_peer: %d}\n", perPeer))
	n := count(c.Gen, "connections")
	for i := range n {
		if i < perPeer {
			dial(c.t, g.url) // it ends with the test
			continue
		}
		conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
		if err == nil {
			require.NoError(c.t, conn.SetDeadline(time.Now().Add(hang)))
			_, err = conn.Read(make([]byte, 1))
			require.NoError(c.t, conn.Close())
		}
		require.Error(c.t, err)
		require.False(c.t, isTimeout(err), "connection %d was not closed", i)
		if i%5000 == 4999 {
			g.must(c.t, g.caller, http.MethodGet, "/v1/actions", nil, http.StatusOK)
		}
	}
	metrics := g.ask(c.t, g.admin, http.MethodGet, "/metrics", nil).body
	assert.Contains(c.t, metrics, fmt.Sprintf("weir_connections_refused_total{cap=\"peer\"} %d\n", n-perPeer))
	return answer{closed: true}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// readAnswerSlowly reads a large answer byte by byte.
func (c *call) readAnswerSlowly() answer {
	conn := c.narrow()
	body := fmt.Sprintf(`{"method":"GET","url":%q,"allowlist_key":"api"}`, c.g.upstream.URL+"/big")
	_, err := fmt.Fprintf(conn, "POST /v1/execute HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.value("task_token"), len(body), body)
	require.NoError(c.t, err)
	c.drip(conn, func() { c.g.act(c.t, c.g.caller, "/v1/x?row=beside") })
	return answer{closed: true}
}

// narrow is a connection that holds little.
func (c *call) narrow() *net.TCPConn {
	conn := dial(c.t, c.g.url)
	require.NoError(c.t, conn.SetReadBuffer(4<<10))
	return conn
}

// drip reads a byte a second until the other side gives up, and returns all that arrived.
// Meanwhile others are served.
func (c *call) drip(conn *net.TCPConn, beside func()) []byte {
	var got bytes.Buffer
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < 5*hang; <-tick.C {
		_, err := io.CopyN(&got, conn, 1)
		if err == nil {
			beside()
			if _, err = io.WriteString(conn, "x"); err == nil { // a reset is seen in a write
				continue
			}
		}
		require.False(c.t, isTimeout(err))
		_, _ = io.Copy(&got, conn)
		return got.Bytes()
	}
	c.t.Fatal("a reader of a byte a second kept its connection")
	return nil
}

// flood repeats a row until it is refused, with a token that may do little.
func (c *call) flood() answer {
	req := tokens["task_token"]
	req.Tenant, req.Rate = c.tenant(), "20/h"
	c.values["task_token"] = c.g.token(c.t, req).Secret
	for raw := c.bytes(); c.Repeat > 0; c.Repeat-- {
		if h := c.send(raw); h.status == http.StatusTooManyRequests {
			return h
		}
	}
	c.t.Fatal("no limit")
	return answer{}
}

// event is one server-sent event as a browser would dispatch it.
type event struct{ id, name, data string }

var lineEnd = regexp.MustCompile(`\r\n|\r|\n`)

// parseEvents reads a stream as the HTML standard says. What no empty line ends is no event.
func parseEvents(stream string) (all []event) {
	var e event
	var data []string
	lines := lineEnd.Split(strings.TrimPrefix(stream, "\ufeff"), -1)
	for _, line := range lines[:len(lines)-1] {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.data = strings.Join(data, "\n")
				all = append(all, e)
			}
			e, data = event{id: e.id}, nil
		case field == "event":
			e.name = value
		case field == "data":
			data = append(data, value)
		case field == "id":
			e.id = value
		}
	}
	return all
}

// stream opens the events of an action. The body is of the connection.
func (c *call) stream(conn net.Conn, path, headers string) (answer, io.Reader) {
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n%s\r\n", path, c.value("task_token"), headers)
	require.NoError(c.t, err)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, resp.StatusCode)
	return answer{status: resp.StatusCode, header: resp.Header}, resp.Body
}

// readEvents reads a stream to its end.
func (c *call) readEvents(path, headers string) (answer, []event) {
	h, body := c.stream(dial(c.t, c.g.url), path, headers)
	all, err := io.ReadAll(body)
	require.NoError(c.t, err)
	return h, parseEvents(string(all))
}

// readHostileEvents: the hostile payload is whole in one event, and forges none.
func (c *call) readHostileEvents() answer {
	h, events := c.readEvents(c.fill(c.Path), "")
	whole := 0
	for _, e := range events {
		require.NotEqual(c.t, "final", e.name)
		var doc any
		require.NoError(c.t, json.Unmarshal([]byte(e.data), &doc), e.data)
		once := string(encode(hostileText)) // or once more, in a document that is a text
		if shown := string(encode(doc)); strings.Contains(shown, once) || strings.Contains(shown, strings.Trim(string(encode(once)), `"`)) {
			whole++
		}
	}
	require.Equal(c.t, 1, whole, "events with the payload: %v", events)
	return h
}

// waitForHeartbeat waits at a stream on which nothing happens.
func (c *call) waitForHeartbeat() answer {
	id := c.g.act(c.t, c.value("task_token"), "/hang", "Prefer", "respond-async")
	defer func() { c.g.ask(c.t, c.value("task_token"), http.MethodPost, "/v1/actions/"+id+"/cancel", nil) }()
	h, body := c.stream(dial(c.t, c.g.url), "/v1/actions/"+id+"/events", "")
	assert.Equal(c.t, "no", h.header.Get("X-Accel-Buffering"))
	assert.Contains(c.t, h.header.Get("Cache-Control"), "no-transform")
	comments := 0
	for lines := bufio.NewScanner(body); comments < 2 && lines.Scan(); { // one at once, one as a sign of life
		if lines.Text() == ":" {
			comments++
		}
	}
	require.Equal(c.t, 2, comments, "no sign of life")
	return h
}

// decisions make a plan with more events than the buffers between the two sides hold.
const decisions = 1200

// readSlowly reads a long history a byte a second until it is cut off, and resumes after the
// last event that it has: the rest arrives in order, once each.
func (c *call) readSlowly() answer {
	plan := make([]any, decisions)
	for i := range plan {
		plan[i] = map[string]any{
			"effect_ref":   "e" + itoa(i),
			"target_state": map[string]any{"method": "GET", "url": c.g.upstream.URL + "/v1/x?row=plan", "allowlist_key": "api"},
		}
	}
	doc := map[string]any{"request_id": c.ID, "state:env.snapshot": map[string]any{}, "artifact:proposed.plan": map[string]any{"decisions": plan}}
	c.g.must(c.t, c.value("task_token"), http.MethodPost, "/v1/plans", doc, http.StatusAccepted, "Prefer", "respond-async")
	path := "/v1/actions/" + c.ID + "/events"
	conn := c.narrow()
	h, body := c.stream(conn, path, "")
	first := make([]byte, 300)
	_, err := io.ReadFull(body, first)
	require.NoError(c.t, err)
	// The rest has the frames of its chunks between: no more than the first event is used.
	got := string(first) + string(c.drip(conn, func() {}))
	require.NotContains(c.t, got, `"settled"`, "not cut off before the end")
	events, after := parseEvents(got), ""
	if len(events) > 0 {
		events = events[:1]
		after = "Last-Event-ID: " + events[0].id + "\r\n"
	}
	_, resumed := c.readEvents(path, after)
	_, all := c.readEvents(path, "")
	require.Greater(c.t, len(all), 2*decisions)
	require.Contains(c.t, all[len(all)-1].data, `"settled"`)
	require.Equal(c.t, all[len(events):], resumed, "resumed after %s", after)
	return h
}
