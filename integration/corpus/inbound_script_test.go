//go:build e2e

package corpus_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// rawScripts are the rows that no single run of bytes can be.
var rawScripts = map[string]func(t *testing.T, r *inboundRow, g *gateway) heard{
	"{h2_rapid_reset}": func(t *testing.T, r *inboundRow, g *gateway) heard {
		t.Helper()
		return g.frames(t, count(r.Gen, "frames"), rapidReset)
	},
	"{h2_settings_flood}": func(t *testing.T, r *inboundRow, g *gateway) heard {
		t.Helper()
		return g.frames(t, count(r.Gen, "frames"), func(uint32) []byte { return frame(4, 0, 0, nil) })
	},
	"{connections}": connections,
	"{slow_read}":   slowRead,
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// rapidReset opens a stream and resets it.
func rapidReset(i uint32) []byte {
	stream := 2*i + 1
	return append(frame(1, 5, stream, []byte{0x82, 0x84, 0x86}), frame(3, 0, stream, []byte{0, 0, 0, 8})...)
}

// frames speaks HTTP/2, which is off, until the connection ends.
func (g *gateway) frames(t *testing.T, n int, next func(i uint32) []byte) heard {
	t.Helper()
	c := g.dial(t)
	var wrote atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(c, preface+string(frame(4, 0, 0, nil)))
		for i := range n {
			if _, err := c.Write(next(uint32(i))); err != nil {
				return
			}
			wrote.Add(1)
		}
	}()
	h := hear(t, c, http.MethodGet)
	require.NoError(t, c.Close())
	<-done
	require.Less(t, wrote.Load(), int64(n), "the flood was heard to its end")
	return heard{closed: h.closed}
}

// perPeer is the cap under which connections are counted.
const perPeer = 100

// connections opens many from one peer and leaves them idle.
func connections(t *testing.T, r *inboundRow, _ *gateway) heard {
	t.Helper()
	g := newGateway(t, t.TempDir(), fmt.Sprintf("log: {durability: process}\nlimits: {connections_per_peer: %d}\n", perPeer))
	n := count(r.Gen, "connections")
	var closed, open atomic.Int64
	var others sync.WaitGroup
	next := make(chan struct{})
	for range 16 {
		others.Go(func() {
			var kept []net.Conn
			for range next {
				c, err := net.Dial("tcp", g.addr)
				if err != nil {
					closed.Add(1)
					continue
				}
				_ = c.SetReadDeadline(time.Now().Add(250 * time.Millisecond))
				if _, err := c.Read(make([]byte, 1)); isTimeout(err) {
					open.Add(1)
					kept = append(kept, c)
					continue
				}
				closed.Add(1)
				_ = c.Close()
			}
			for _, c := range kept {
				_ = c.Close()
			}
		})
	}
	for i := range n {
		next <- struct{}{}
		if i%5000 == 4999 { // from another peer
			require.Equal(t, http.StatusOK, g.ask(t, "task_token", http.MethodGet, "/v1/actions", nil).status)
		}
	}
	close(next)
	others.Wait()
	assert.Greater(t, closed.Load(), int64(n*9/10))
	assert.InDelta(t, closed.Load(), g.metric(t, `weir_connections_refused_total{cap="peer"}`), float64(open.Load()))
	return heard{closed: closed.Load() > 0}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error) //nolint:errorlint // as it comes from the connection
	return ok && n.Timeout()
}

// slowRead reads a large answer byte by byte.
func slowRead(t *testing.T, _ *inboundRow, g *gateway) heard {
	t.Helper()
	c := g.dial(t)
	require.NoError(t, c.SetReadBuffer(4<<10))
	body := fmt.Sprintf(`{"method":"GET","url":%q,"allowlist_key":"api"}`, g.upstream.URL+"/big")
	_, err := fmt.Fprintf(c, "POST /v1/execute HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		g.get("task_token"), len(body), body)
	require.NoError(t, err)
	drip(t, c, func() { g.act(t, "task_token", "/v1/x?row=beside") })
	return heard{closed: true}
}

// dripPatience bounds a slow reader's exchange: what it reads may still be produced.
const dripPatience = 5 * time.Minute

// drip reads a byte a second until the other side gives up. Meanwhile others go on.
func drip(t *testing.T, c *net.TCPConn, beside func()) []byte {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(dripPatience)))
	var got bytes.Buffer
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	one := make([]byte, 1)
	for range int(dripPatience / time.Second) {
		if _, err := c.Read(one); err != nil {
			require.False(t, isTimeout(err))
			return got.Bytes()
		}
		got.Write(one)
		beside()
		<-tick.C
		if gone(c) {
			rest, _ := io.ReadAll(c)
			got.Write(rest)
			return got.Bytes()
		}
	}
	t.Fatal("a reader of a byte a second was borne with")
	return nil
}

// gone reports whether the other side has reset a connection. What it sent
// before can still be read.
func gone(c net.Conn) bool {
	_, err := io.WriteString(c, "x")
	return err != nil && !isTimeout(err)
}

// paced sends what a row has and never the rest.
func (r *inboundRow) paced(t *testing.T, g *gateway) heard {
	t.Helper()
	c := g.dial(t)
	_, err := io.WriteString(c, r.placeRaw(g.fill(t, r, r.Raw)))
	require.NoError(t, err)
	began := time.Now()
	h := hear(t, c, http.MethodGet)
	var most int
	if _, err := fmt.Sscanf(r.Assert, "closed <= %d s", &most); err == nil {
		require.LessOrEqual(t, time.Since(began), time.Duration(most)*time.Second)
	}
	return h
}

// flood repeats a row until it is refused, with a token that may do little.
func (r *inboundRow) flood(t *testing.T, g *gateway) heard {
	t.Helper()
	g.set("task_token of "+r.ID, g.token(t, schemas.TokenRequest{Entries: callerEntries, Rate: "20/h"}))
	raw := r.bytes(t, g)
	for range r.Repeat {
		if h := g.send(t, raw); h.status == http.StatusTooManyRequests {
			return h
		}
	}
	t.Fatalf("%d requests and no limit", r.Repeat)
	return heard{}
}

// inboundSetups bring about what a row begins with, and return the Weir it
// speaks to.
var inboundSetups = map[string]func(t *testing.T, r *inboundRow, g *gateway) *gateway{
	"k1_used": func(t *testing.T, r *inboundRow, g *gateway) *gateway {
		t.Helper()
		r.used(t, g)
		return g
	},
	// Ten minutes are longer than any window of the broker. That the key is
	// found all the same does not hang on time: it is the name of the action, as
	// the tests of the log show.
	"k3_used_10m_ago_restart": func(t *testing.T, r *inboundRow, _ *gateway) *gateway {
		t.Helper()
		g := newGateway(t, t.TempDir(), "log: {durability: process}\n")
		r.used(t, g)
		require.NoError(t, g.stop())
		g.start(t, "log: {durability: process}\n")
		return g
	},
	"payload_sse_injection": func(t *testing.T, r *inboundRow, g *gateway) *gateway {
		t.Helper()
		g.set("action of "+r.ID, g.act(t, "task_token", "/hostile"))
		return g
	},
	"nats_down": natsDown,
	"rule_a_exists": func(t *testing.T, r *inboundRow, g *gateway) *gateway {
		t.Helper()
		g.changeRules(t, r, operatorOf(r), g.mock("a"))
		return g
	},
	"redirect_a_exists": func(t *testing.T, r *inboundRow, g *gateway) *gateway {
		t.Helper()
		g.changeRules(t, r, operatorOf(r), g.redirect("a", "/v1/x", "/v1/y"))
		return g
	},
	"other_tenant_has_rules": func(t *testing.T, r *inboundRow, g *gateway) *gateway {
		t.Helper()
		g.changeRules(t, r, neighbourOf(r), g.mock("foreign"))
		return g
	},
}

// used makes the action that the row's Idempotency-Key already names.
func (r *inboundRow) used(t *testing.T, g *gateway) {
	t.Helper()
	g.set("task_token of "+r.ID, g.token(t, schemas.TokenRequest{Tenant: strings.ToLower(r.ID), Entries: callerEntries}))
	first := *r
	first.Body = mustEncode(t, `{"task_type":"http.action","inputs":{"method":"GET","url":"https://api.example.com/v1/x","allowlist_key":"api"}}`)
	h := g.send(t, first.bytes(t, g))
	require.Equal(t, http.StatusOK, h.status, h.body)
	g.set("id of "+r.ID, h.header.Get("Weir-Action-Id"))
}
