package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/cmd/cli/relay"
	"weir/internal/weirtest/poll"
	double "weir/internal/weirtest/relay"
)

func TestRequestsAndAnswers(t *testing.T) {
	t.Parallel()
	r, a := double.New(t), &api{}
	e := begin(t, r.URL()+"/at?keep=1", a, token("shared & secret"))
	agent := r.Accept()

	got := agent.Ask(`{"request":{"request_id":"r<1>","operation":"status","auth_token":"T","args":{"x":1.50}}}`)
	want := `{"namespace":"modinet-agent-relay-v1","direction":"extension-to-page","request_id":"r<1>",` +
		`"response":{"ok":true,"request_id":"r","operation":"status","data":{"x":"<&>","n":1.50}}}`
	assert.Equal(t, []byte(want), got, "byte for byte")
	ev := e.await(relay.Served)
	assert.Equal(t, [2]string{"status", "ok"}, [2]string{ev.Operation, ev.Result})

	agent.Ask(`{"request_id":"r2","operation":"rules.\u001b[2J","auth_token":null}`)
	ev = e.await(relay.Served)
	assert.Equal(t, "other", ev.Operation, "what an agent writes is not shown")
	assert.Equal(t, []string{
		`{"type":"AGENT_API_REQUEST","request":{"request_id":"r<1>","operation":"status","auth_token":"T","args":{"x":1.50}}}`,
		`{"type":"AGENT_API_REQUEST","request":{"request_id":"r2","operation":"rules.\u001b[2J","auth_token":null}}`,
	}, a.asked())
	assert.Equal(t, []bool{true, false}, a.tokens)

	got = agent.Ask(`{"request":{"request_id":"p","operation":"bridge.ping"}}`)
	assert.JSONEq(t, `{"namespace":"modinet-agent-relay-v1","direction":"extension-to-page","request_id":"p",
		"response":{"ok":true,"request_id":"p","operation":"bridge.ping","data":{"pong":true}}}`, string(got))
	assert.Len(t, a.asked(), 2, "a ping is answered on the spot")

	assert.Equal(t, []double.Attempt{{Role: "relay", Session: "s1", Token: "shared & secret"}}, r.Ledger())
	e.stop()
	require.NoError(t, e.over())
	agent.WaitGone()
	assert.Zero(t, e.Dropped.Load()+e.Unheard.Load())
}

// TestBadMessages: what cannot be read is dropped or refused, and the connection survives it.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	r, a := double.New(t), &api{}
	e := begin(t, r.URL(), a, func(c *relay.Config) { c.MaxMessage = 64 << 10 })
	agent := r.Accept()
	agent.Send(`not json`)
	assert.Contains(t, string(agent.Ask(`{"request":{"request_id":"big","operation":"status","args":{"x":"`+strings.Repeat("x", 64<<10)+`"}}}`)), `"code":"INVALID_REQUEST","message":"the message is larger than 65536 bytes`)
	agent.SendBinary(`{"request":{"request_id":"binary","operation":"status"}}`)
	assert.Contains(t, string(agent.Answer("binary")), `"code":"INVALID_REQUEST","message":"the message is binary`)
	agent.SendBinary(`{"response":{},"direction":"extension-to-page","request_id":"an answer"}`)
	assert.Contains(t, e.await(relay.Unread).Reason, "binary")
	assert.Contains(t, string(agent.Ask(`{"request":null,"request_id":"r"}`)), `"code":"INVALID_REQUEST"`)
	assert.NotEmpty(t, agent.Ask(`{"request":{"request_id":"last","operation":"bridge.ping"}}`))
	assert.EqualValues(t, 2, e.Dropped.Load())
	assert.Len(t, agent.Ledger(), 4, "no answer to what was dropped")
	assert.Empty(t, a.asked())
	assert.Len(t, r.Ledger(), 1, "one connection")
}

// TestWhatIsNoAnswer: an agent gets an envelope, whatever answers behind the relay.
func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	r, a := double.New(t), &api{}
	begin(t, r.URL(), a)
	agent := r.Accept()
	for n, reply := range []func(context.Context, string) (string, error){
		func(context.Context, string) (string, error) { return "", errors.New("dial tcp 10.0.0.1: secret") },
		func(context.Context, string) (string, error) { return "<html>secret</html>", nil },
		func(context.Context, string) (string, error) { return `{"id":"secret","status":"accepted"}`, nil },
		func(context.Context, string) (string, error) { return "{\"ok\":true,\"x\":\"\xffsecret\"}", nil },
	} {
		a.mu.Lock()
		a.reply = reply
		a.mu.Unlock()
		got := string(agent.Ask(fmt.Sprintf(`{"request":{"request_id":"r%d","operation":"global.off"}}`, n)))
		assert.Contains(t, got, `"code":"INTERNAL_ERROR"`)
		assert.Contains(t, got, `"detail":"UNAVAILABLE"`)
		assert.Contains(t, got, `"operation":"global.off"`)
		assert.NotContains(t, got, "secret")
	}
}

// TestSlots: no more requests than the slots are carried at once, and the rest are
// told so at once.
func TestSlots(t *testing.T) {
	t.Parallel()
	hold, begun := make(chan struct{}), make(chan struct{}, 10)
	a := &api{reply: func(context.Context, string) (string, error) {
		begun <- struct{}{}
		<-hold
		return `{"ok":true,"request_id":"r","operation":"status","data":{}}`, nil
	}}
	r := double.New(t)
	begin(t, r.URL(), a, func(c *relay.Config) { c.Slots = 2 })
	agent := r.Accept()
	agent.Send(`{"request":{"request_id":"r1","operation":"status"}}`)
	agent.Send(`{"request":{"request_id":"r2","operation":"status"}}`)
	<-begun
	<-begun
	assert.Contains(t, string(agent.Ask(`{"request":{"request_id":"r3","operation":"status"}}`)), `"code":"RATE_LIMITED"`)
	assert.Contains(t, string(agent.Ask(`{"request":{"request_id":"p","operation":"bridge.ping"}}`)), `"pong":true`)
	close(hold)
	assert.Contains(t, string(agent.Answer("r1")), `"ok":true`)
	assert.Contains(t, string(agent.Answer("r2")), `"ok":true`)
	assert.Len(t, a.asked(), 2)
	// An answer is out before its slot is free.
	tries := 3
	poll.Until(t, func() bool {
		tries++
		return bytes.Contains(agent.Ask(fmt.Sprintf(`{"request":{"request_id":"r%d","operation":"status"}}`, tries)), []byte(`"ok":true`))
	})
	assert.Len(t, a.asked(), 3)
}

// TestOneFrameAMessage: relays need not know how to put fragments together, and
// the one in the wild closes on the first.
func TestOneFrameAMessage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	large := strings.Repeat("x", 3<<20)
	a := &api{reply: func(context.Context, string) (string, error) { return `{"ok":true,"data":"` + large + `"}`, nil }}
	begin(t, "ws://"+listener.Addr().String(), a)
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	req, err := http.ReadRequest(in)
	require.NoError(t, err)
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	require.NoError(t, err)
	message := `{"request":{"request_id":"r","operation":"status"}}`
	_, err = conn.Write(append([]byte{0x81, byte(len(message))}, message...))
	require.NoError(t, err)

	head := make([]byte, 2+8+4)
	_, err = io.ReadFull(in, head)
	require.NoError(t, err)
	assert.Equal(t, byte(0x81), head[0], "final, text, not compressed")
	require.Equal(t, byte(0x80|127), head[1], "masked, with a length of eight bytes")
	assert.Greater(t, binary.BigEndian.Uint64(head[2:10]), uint64(len(large)))
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"ws://127.0.0.1:8787", "wss://relay.example.com/at?x=1"} {
		_, err := relay.Address(good)
		require.NoError(t, err, good)
	}
	for _, bad := range []string{
		"", "127.0.0.1:8787", "http://h", "ws://", "ws://u:p@h", "ws://h#f", "ws://h?token=t", "ws://h?role=agent", "ws://h?sessionId=s", "ws://h:port", "ws://h\n",
	} {
		_, err := relay.Address(bad)
		require.Error(t, err, bad)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api stands for the agent API: it answers every request with its own name, and
// keeps what it was asked.
type api struct {
	mu     sync.Mutex
	bodies []string
	tokens []bool
	reply  func(ctx context.Context, body string) (string, error)
}

func (a *api) ask(ctx context.Context, body []byte, tokened bool) ([]byte, error) {
	a.mu.Lock()
	a.bodies, a.tokens = append(a.bodies, string(body)), append(a.tokens, tokened)
	reply := a.reply
	a.mu.Unlock()
	if reply == nil {
		return []byte(`{"ok":true,"request_id":"r","operation":"status","data":{"x":"<&>","n":1.50}}`), nil
	}
	doc, err := reply(ctx, string(body))
	return []byte(doc), err
}

func (a *api) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.bodies...)
}

// end is a Relay that runs.
type end struct {
	*relay.Relay
	t      *testing.T
	events chan relay.Event
	stop   context.CancelFunc
	done   chan error
}

// begin runs a Relay against the double.
func begin(t *testing.T, at string, a *api, change ...func(*relay.Config)) *end {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	e := &end{t: t, events: make(chan relay.Event, 1000), done: make(chan error, 1)}
	cfg := relay.Config{
		URL: u, Session: "s1", Ask: a.ask, Notice: func(ev relay.Event) { e.events <- ev },
		Wait: time.Millisecond, MaxWait: 5 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	e.Relay = relay.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	e.stop = cancel
	go func() { e.done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		_ = e.over() // what it is matters to those who ask
	})
	return e
}

// over waits for the end of Run.
func (e *end) over() error {
	e.t.Helper()
	err := <-e.done
	e.done <- err
	return err
}

// await waits for an event.
func (e *end) await(name string) relay.Event {
	e.t.Helper()
	for ev := range e.events {
		if ev.Event == name {
			return ev
		}
	}
	return relay.Event{}
}

func token(s string) func(*relay.Config) { return func(c *relay.Config) { c.Token = s } }

// TestItComesBack: after a cut, an ordinary close, a restart, and refusals that
// may pass.
func TestItComesBack(t *testing.T) {
	t.Parallel()
	r, a := double.New(t), &api{}
	e := begin(t, r.URL(), a)
	agent := r.Accept()
	for n, lose := range []func(){
		func() { agent.Cut() },
		func() { agent.End(1000, "") },
		func() { agent.End(1001, "bye") },
		func() { agent.End(1012, "service restart") },
		func() { agent.End(4999, "of its own") },
		func() { r.Refuse(503, 429, 502, 500); agent.Cut() },
	} {
		lose()
		agent = r.Accept()
		assert.NotEmpty(t, agent.Ask(fmt.Sprintf(`{"request":{"request_id":"r%d","operation":"status"}}`, n)))
		e.await(relay.Served)
	}
	assert.Len(t, r.Ledger(), 1+6+4)
	e.stop()
	assert.NoError(t, e.over())
}

// TestSomeEndsAreFinal: a relay that refuses, or has another end, is not asked again.
func TestSomeEndsAreFinal(t *testing.T) {
	t.Parallel()
	const denied = "does not take the token (%d): set the relay's token in $WEIR_RELAY_TOKEN or name a file with --relay-token-file"
	for code, said := range map[int]string{
		1012: "another relay client has taken this session over: each has a --session of its own",
		1008: `does not take the token (1008 "\x1b[2Jno"): set`, 4001: `(4001 "\x1b[2Jno")`, 4003: `(4003 "\x1b[2Jno")`,
		400: "does not take the session (400): see --url and --session", 401: fmt.Sprintf(denied, 401), 403: fmt.Sprintf(denied, 403),
		404: "it answers 404: see --url and --session", 301: "sends its clients elsewhere (301): name that place itself",
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			r := double.New(t)
			if code < 1000 {
				r.Refuse(code)
			}
			e := begin(t, r.URL(), &api{}, token("canary-wrong"))
			if code > 1000 {
				r.Accept().End(code, map[bool]string{true: "Replaced", false: "\x1b[2Jno"}[code == 1012])
			}
			err := e.over()
			require.ErrorContains(t, err, said)
			assert.NotContains(t, err.Error(), "canary-wrong")
			assert.Len(t, r.Ledger(), 1, "it is not asked again, and no redirect is followed")
		})
	}
}

// TestTheTokenIsNotShown: no reason of a loss names the URL, which holds it.
func TestTheTokenIsNotShown(t *testing.T) {
	t.Parallel()
	r := double.New(t)
	r.Close() // no server listens any more
	e := begin(t, r.URL(), &api{}, token("canary-token"))
	ev := e.await(relay.Lost)
	assert.Contains(t, ev.Reason, "cannot be reached")
	assert.NotContains(t, ev.Reason, "canary-token")
	assert.NotContains(t, ev.Reason, "sessionId")
	e.stop()
	assert.NoError(t, e.over())
}

func TestPings(t *testing.T) {
	t.Parallel()
	r := double.New(t)
	e := begin(t, r.URL(), &api{}, func(c *relay.Config) { c.Ping, c.Pong = 10*time.Millisecond, 5*time.Second })
	r.Accept().Stall()
	assert.Contains(t, e.await(relay.Lost).Reason, "pings")
	assert.NotEmpty(t, r.Accept().Ask(`{"request":{"request_id":"r","operation":"status"}}`))
}

// TestStopCutsWaitsShort: an interrupt ends the wait for an answer and for the next
// try.
func TestStopCutsWaitsShort(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	a := &api{reply: func(ctx context.Context, _ string) (string, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}}
	r := double.New(t)
	e := begin(t, r.URL(), a)
	r.Accept().Send(`{"request":{"request_id":"r","operation":"status"}}`)
	<-begun
	e.stop()
	<-ended
	require.NoError(t, e.over())

	idle := begin(t, r.URL(), &api{}, func(c *relay.Config) { c.Wait, c.MaxWait = time.Hour, time.Hour })
	r.Accept().Cut()
	assert.GreaterOrEqual(t, idle.await(relay.Lost).Wait, time.Hour/2)
	idle.stop()
	assert.NoError(t, idle.over())
}
