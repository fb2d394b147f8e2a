package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

const (
	// serveSlots is how many requests of one service run at once.
	serveSlots = 64
	// servePending and servePendingBytes bound the received requests; more are lost.
	servePending      = 1024
	servePendingBytes = 64 << 20
	// serveGrace is how long requests may run after stop before their contexts end.
	serveGrace = 5 * time.Second
)

// ErrBusy is the cause of a request's context if too many requests are running.
var ErrBusy = errors.New("too many requests are being answered")

// Notify sends a message to current listeners. It is not stored.
func (b *Broker) Notify(subject string, data []byte) error {
	return wrap(b.nc.Publish(subject, data))
}

// Listen calls fn, on one goroutine, for every Notify under subject.
func (b *Broker) Listen(subject string, fn func(subject string, data []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { fn(m.Subject, m.Data) })
	if err != nil {
		return nil, wrap(err)
	}
	return func() { _ = sub.Unsubscribe() }, b.flush() // it only fails after the connection is closed
}

// Serve answers requests under a subject, which may have wildcards, with the result of fn; nil
// sends no answer. Of all services with one queue name, on all nodes, one receives a request. A
// message without a reply subject is dropped.
//
// Up to 64 requests run at once. For one more, fn is called with an ended context whose cause is
// ErrBusy. It must return at once then, because nothing else is received meanwhile.
//
// stop ends the service and waits for running requests. Their contexts end after five seconds, and
// fn must return then. Call stop before Close; it is safe to call it twice.
func (b *Broker) Serve(subject, queue string, fn func(ctx context.Context, subject string, data []byte) []byte) (stop func(), err error) {
	life, end := context.WithCancel(b.life)
	var running errgroup.Group
	running.SetLimit(serveSlots)
	sub, err := b.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		if !running.TryGo(func() error { b.answer(life, m, fn); return nil }) {
			busy, refuse := context.WithCancelCause(life)
			refuse(ErrBusy)
			b.answer(busy, m, fn)
		}
	})
	if err != nil {
		end()
		return nil, wrap(err)
	}
	stop = sync.OnceFunc(func() {
		drain(sub)
		grace := time.AfterFunc(serveGrace, end)
		_ = running.Wait() // they return no errors
		grace.Stop()
		end()
	})
	if err = sub.SetPendingLimits(servePending, servePendingBytes); err == nil {
		err = b.flush()
	}
	if err != nil {
		stop()
		return nil, wrap(err)
	}
	return stop, nil
}

// answer sends what fn makes of a request.
func (b *Broker) answer(ctx context.Context, m *nats.Msg, fn func(ctx context.Context, subject string, data []byte) []byte) {
	reply := fn(ctx, m.Subject, m.Data)
	if reply == nil {
		return
	}
	err := m.Respond(reply)
	if errors.Is(err, nats.ErrMaxPayload) { // an error of NATS' own services, so that the requester does not time out
		err = m.RespondMsg(&nats.Msg{Header: nats.Header{
			"Nats-Service-Error-Code": {"413"}, "Nats-Service-Error": {"the answer is larger than a message may be"},
		}})
	}
	if err != nil { // the requester times out and tries again
		b.cfg.Logger.WarnContext(ctx, "reply_failed", "component", "broker", "err_kind", "connection")
	}
}
