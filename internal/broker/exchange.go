package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"weir/internal/fault"
)

// exchange sends requests over one connection and receives their replies on one subscription.
// Unlike the request of nats.go it also accepts answers of many messages, reports acknowledgements
// in their order, and never retries: only the caller knows whether a repeat is safe.
type exchange struct {
	nc     *nats.Conn
	prefix string // of reply subjects

	// acked, if set, is called for every reply in order, before the caller of wait continues. The
	// call is nil if that has given up.
	acked func(c *call, reply *nats.Msg)

	closed chan struct{}

	mu    sync.Mutex
	last  uint64
	calls map[string]*call
}

// call is one pending request.
type call struct {
	token   string
	request *nats.Msg
	// take, if set, is called for each reply, on the exchange's one goroutine, and reports whether
	// the answer is complete. Without it the first reply is the answer.
	take  func(*nats.Msg) (complete bool)
	done  chan struct{}
	reply *nats.Msg // the answer of a call without take
	seq   uint64    // the same, of an acknowledgement
	err   error     // why there is no answer, or what it says
}

// errClosed is a closed broker or subscriber.
var errClosed = errors.New("closed")

// errSilent is a request that timed out without an answer.
var errSilent = errors.New("no answer")

func newExchange() *exchange {
	return &exchange{closed: make(chan struct{}), calls: make(map[string]*call)}
}

// open begins to receive replies. It comes before any request.
func (x *exchange) open(nc *nats.Conn) error {
	x.nc, x.prefix = nc, nc.NewInbox()+"."
	_, err := subscribe(nc, x.prefix+"*", x.deliver) // pending requests bound the replies
	return err
}

// ask sends a request and waits for the answer.
func (x *exchange) ask(ctx context.Context, m *nats.Msg, take func(*nats.Msg) bool, timeout time.Duration) (*call, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrUnavailable, context.Cause(ctx))
	}
	c, err := x.send(m, take)
	if err != nil {
		return nil, err
	}
	return c, x.wait(ctx, c, timeout)
}

// send sends m and returns what to wait on. It sets m's reply subject.
func (x *exchange) send(m *nats.Msg, take func(*nats.Msg) bool) (*call, error) {
	c := &call{request: m, take: take, done: make(chan struct{})}
	x.mu.Lock()
	x.last++
	c.token = strconv.FormatUint(x.last, 36)
	x.calls[c.token] = c
	x.mu.Unlock()
	m.Reply = x.prefix + c.token
	if err := x.nc.PublishMsg(m); err != nil {
		x.drop(c)
		return nil, wrap(err)
	}
	return c, nil
}

// wait returns when the answer is complete, or drops the call.
func (x *exchange) wait(ctx context.Context, c *call, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	err := errClosed
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
		err = fmt.Errorf("%w in %s", errSilent, timeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-x.closed:
	}
	x.drop(c)
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
}

// close ends every wait. The owner of the connection closes that.
func (x *exchange) close() { close(x.closed) }

// deny ends the calls to a subject that this user may not publish to.
func (x *exchange) deny(subject string, e *DeniedError) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for token, c := range x.calls {
		if c.request.Subject == subject && !e.Listen {
			delete(x.calls, token)
			c.err = fmt.Errorf("%w: %w", fault.ErrUnavailable, e)
			close(c.done)
		}
	}
}

func (x *exchange) drop(c *call) {
	x.mu.Lock()
	delete(x.calls, c.token)
	x.mu.Unlock()
}

func (x *exchange) deliver(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, x.prefix)
	x.mu.Lock()
	c := x.calls[token]
	if c != nil && c.take == nil {
		delete(x.calls, token) // from now on no denial changes it
	}
	x.mu.Unlock()
	if x.acked != nil {
		x.acked(c, m)
	}
	switch {
	case c == nil: // the caller has given up
	case c.take == nil:
		c.reply = m
		close(c.done)
	case c.take(m):
		x.mu.Lock()
		_, pending := x.calls[token] // else it was denied or dropped meanwhile
		delete(x.calls, token)
		x.mu.Unlock()
		if pending {
			close(c.done)
		}
	}
}

// status is the code of a reply without a message, else empty.
func status(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}
