package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"weir/cmd/cli/envelope"
	"weir/schemas"
)

// newClient is for handshakes. It follows no redirects: the token is in the URL.
func newClient() *http.Client {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, Protocols: p, DisableCompression: true,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

type link struct {
	relay    *Relay
	conn     *websocket.Conn
	requests errgroup.Group // on their way
}

// session connects, serves the connection to its end and says why it ended.
func (r *Relay) session(ctx context.Context) error {
	const handshake = 15 * time.Second
	dialing, cancel := context.WithTimeout(ctx, handshake)
	conn, resp, err := websocket.Dial(dialing, r.address(), &websocket.DialOptions{ //nolint:bodyclose // there is none to close
		HTTPClient: r.client, HTTPHeader: http.Header{"User-Agent": {"weir"}},
	})
	cancel()
	if err != nil {
		return undialed(resp, err)
	}
	r.cfg.Notice(Event{Event: Connected, Session: r.cfg.Session})
	l := &link{relay: r, conn: conn}
	l.requests.SetLimit(r.cfg.Slots)
	return l.serve(ctx)
}

// farewell is how long the relay has to answer a closing handshake.
const farewell = time.Second

// discarded is how much of a message that is too large is read past; a larger one
// ends the connection.
const discarded = 16 << 20

func (l *link) serve(ctx context.Context) error {
	l.conn.SetReadLimit(discarded)
	carrying, stop := context.WithCancelCause(ctx)
	// Reading goes on while the connection is closed in order: the closing handshake ends it, not ctx.
	reading, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var tasks sync.WaitGroup
	tasks.Go(func() { l.ping(carrying, stop) })
	tasks.Go(func() {
		<-carrying.Done()
		late := time.AfterFunc(farewell, cut)
		defer late.Stop()
		_ = l.conn.Close(websocket.StatusGoingAway, "") // it ends either way
	})

	err := l.read(reading, carrying)
	stop(nil)
	_ = l.conn.CloseNow() // it may be closed already
	_ = l.requests.Wait() // none has an error
	tasks.Wait()
	if errors.Is(context.Cause(carrying), errSilent) {
		return errSilent
	}
	return closed(err)
}

var errSilent = errors.New("the relay does not answer pings")

// ping detects a relay that has gone without closing the connection.
func (l *link) ping(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(l.relay.cfg.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, cancel := context.WithTimeout(ctx, l.relay.cfg.Pong)
		err := l.conn.Ping(asked)
		late := errors.Is(asked.Err(), context.DeadlineExceeded)
		cancel()
		if err != nil && late {
			stop(errSilent)
			_ = l.conn.CloseNow() // it may be closed already
		}
		if err != nil {
			return // the reader knows why
		}
	}
}

// read takes messages until the connection ends.
func (l *link) read(reading, carrying context.Context) error {
	for {
		kind, r, err := l.conn.Reader(reading)
		if err != nil {
			return err
		}
		limit := l.relay.cfg.MaxMessage
		data, err := io.ReadAll(io.LimitReader(r, limit+1))
		if err == nil && int64(len(data)) > limit {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			return err
		}
		var f frame
		var ok bool
		switch {
		case int64(len(data)) > limit:
			f, ok = l.unread(data, fmt.Sprintf("the message is larger than %d bytes; send a shorter one", limit))
		case kind != websocket.MessageText:
			f, ok = l.unread(data, "the message is binary; send it as text")
		default:
			f, ok = read(data)
		}
		if !ok {
			l.relay.Dropped.Add(1)
			continue
		}
		l.handle(carrying, f)
	}
}

// unread refuses a message by its beginning. One whose request has no id there is not answered but noticed.
func (l *link) unread(data []byte, why string) (f frame, ok bool) {
	request := gjson.GetBytes(data, "request")
	f.id, f.Names = request.Get("request_id").Str, envelope.Names{RequestID: request.Get("request_id").Str, Operation: request.Get("operation").Str}
	if f.id == "" {
		l.relay.cfg.Notice(Event{Event: Unread, Reason: why})
		return f, false
	}
	f.answer = envelope.Refuse(f.Names, schemas.InvalidRequest, "", why)
	return f, true
}

// handle answers a message, or has it carried where there is room.
func (l *link) handle(ctx context.Context, f frame) {
	began := time.Now()
	if f.answer != nil {
		l.answer(ctx, f, f.answer, began)
		return
	}
	taken := l.requests.TryGo(func() error {
		l.answer(ctx, f, l.carry(ctx, f), began)
		return nil
	})
	if !taken {
		full := fmt.Sprintf("%d requests are on their way already; wait for an answer and send it again", l.relay.cfg.Slots)
		l.answer(ctx, f, envelope.Refuse(f.Names, schemas.RateLimited, "", full), began)
	}
}

// carry asks the agent API. Whatever answers in its place is not passed on.
func (l *link) carry(ctx context.Context, f frame) []byte {
	doc, err := l.relay.cfg.Ask(ctx, f.body, f.tokened)
	switch {
	case err != nil:
		return envelope.Unavailable(f.Names, "the Weir behind this relay does not answer; send the request again under the same request_id")
	case envelope.Result(doc) == "":
		return envelope.Unavailable(f.Names,
			"what answers behind this relay is no Weir, or has no answer yet; send the request again under the same request_id")
	default:
		return doc
	}
}

// answer sends an answer, as one frame: relays need not know how to put a message
// together.
func (l *link) answer(ctx context.Context, f frame, response []byte, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, l.relay.cfg.Pong)
	defer cancel()
	message, err := wrap(f.id, response)
	if err == nil {
		err = l.conn.Write(ctx, websocket.MessageText, message)
	}
	if err != nil {
		l.relay.Unheard.Add(1)
		return
	}
	took := time.Since(began)
	l.relay.cfg.Notice(Event{
		Event: Served, Operation: known(f.Operation), Result: word(envelope.Result(response)), Took: took, DurationMS: took.Milliseconds(),
	})
}

// known is an operation that there is: agents may write what they like.
func known(operation string) string {
	if operation == opPing || slices.Contains(schemas.AgentReads(), operation) || slices.Contains(schemas.AgentWrites(), operation) {
		return operation
	}
	return "other"
}

// word is a result that may be shown.
func word(result string) string {
	if result != "ok" && strings.Trim(result, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return "other"
	}
	return result
}
