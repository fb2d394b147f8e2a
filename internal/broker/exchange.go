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

// exchange sends requests over one connection and brings their replies back,
// over one standing subscription instead of one a request. Unlike the
// client's own request it also takes answers of many messages, and it adds no
// retry: whether a repeat is harmless is for the caller to know.
type exchange struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	prefix string

	// acked, if set, hears of every reply to a call without take, in their order; of one that
	// was given up, with a nil call.
	acked func(c *call, reply *nats.Msg)

	closed chan struct{}
	timers sync.Pool // stopped

	mu    sync.Mutex
	last  uint64
	calls map[string]*call
}

// call is one request that waits. take is called for each reply, on the
// exchange's one goroutine, and says when the answer is complete.
type call struct {
	token   string
	subject string // what was asked
	data    []byte // and with what
	take    func(*nats.Msg) (complete bool)
	done    chan struct{}
	reply   *nats.Msg // the answer of a call without take
	err     error     // why there will be none
}

// errSilent is a wait that came to its end without an answer.
var errSilent = errors.New("no answer")

func newExchange(nc *nats.Conn) (*exchange, error) {
	x := &exchange{nc: nc, prefix: nc.NewInbox() + ".", closed: make(chan struct{}), calls: make(map[string]*call)}
	x.timers.New = func() any { return stopped() }
	var err error
	if x.sub, err = nc.Subscribe(x.prefix+"*", x.deliver); err != nil {
		return nil, err
	}
	// Replies are bounded by the requests that wait for them.
	return x, x.sub.SetPendingLimits(-1, -1)
}

// send sends m and returns what to wait on. It sets m's reply subject.
func (x *exchange) send(m *nats.Msg, take func(*nats.Msg) bool) (*call, error) {
	c := &call{subject: m.Subject, data: m.Data, take: take, done: make(chan struct{})}
	x.mu.Lock()
	x.last++
	c.token = strconv.FormatUint(x.last, 36)
	x.calls[c.token] = c
	x.mu.Unlock()
	m.Reply = x.prefix + c.token
	if err := x.nc.PublishMsg(m); err != nil {
		x.drop(c)
		return nil, unsent(err)
	}
	return c, nil
}

// unsent maps an error of handing a message to the connection.
func unsent(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fault.ErrTooLarge
	}
	return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
}

// wait returns when the answer is complete, or gives the call up.
func (x *exchange) wait(ctx context.Context, c *call, timeout time.Duration) error {
	timer, _ := x.timers.Get().(*time.Timer)
	timer.Reset(timeout)
	defer func() {
		timer.Stop()
		x.timers.Put(timer)
	}()
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
		x.drop(c)
		return fmt.Errorf("%w: %w in %s", fault.ErrUnavailable, errSilent, timeout)
	case <-ctx.Done():
		x.drop(c)
		return ended(ctx)
	case <-x.closed:
		x.drop(c)
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, errClosed)
	}
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// close gives up every call at once. The connection's owner closes the rest.
func (x *exchange) close() { close(x.closed) }

// deny gives up the calls that asked what this user may not ask: the server says so,
// but to none of them.
func (x *exchange) deny(subject string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for token, c := range x.calls {
		if c.subject == subject {
			delete(x.calls, token)
			c.err = err
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
		delete(x.calls, token)
	}
	x.mu.Unlock()
	if x.acked != nil {
		x.acked(c, m)
	}
	switch {
	case c == nil: // given up
	case c.take == nil:
		c.reply = m
		close(c.done)
	case c.take(m):
		x.mu.Lock()
		_, waits := x.calls[token] // else it was denied meanwhile
		delete(x.calls, token)
		x.mu.Unlock()
		if waits {
			close(c.done)
		}
	}
}

// status is the code of a reply that carries no message, else empty.
func status(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}
