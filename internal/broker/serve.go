package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
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

// service answers requests under one subject.
type service struct {
	b   *Broker
	fn  func(ctx context.Context, subject string, data []byte) []byte
	sub *nats.Subscription

	life  context.Context //nolint:containedctx // what the requests' contexts come from
	end   context.CancelFunc
	slots chan struct{}

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup
	halted  chan struct{} // the subscription has delivered its last message
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
	s := &service{b: b, fn: fn, slots: make(chan struct{}, serveSlots), halted: make(chan struct{})}
	s.life, s.end = context.WithCancel(b.life)
	if s.sub, err = b.nc.QueueSubscribe(subject, queue, s.receive); err != nil {
		s.end()
		return nil, wrap(err)
	}
	s.sub.SetClosedHandler(func(string) { close(s.halted) })
	if err = s.sub.SetPendingLimits(servePending, servePendingBytes); err == nil {
		err = b.flush()
	}
	if err != nil {
		s.stop()
		return nil, wrap(err)
	}
	return sync.OnceFunc(s.stop), nil
}

// receive is called for one request at a time.
func (s *service) receive(m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		busy, refuse := context.WithCancelCause(s.life)
		refuse(ErrBusy)
		s.answer(busy, m)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return // the drain took too long
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.answer(s.life, m)
	})
}

func (s *service) answer(ctx context.Context, m *nats.Msg) {
	reply := s.fn(ctx, m.Subject, m.Data)
	if reply == nil {
		return
	}
	err := m.Respond(reply)
	if errors.Is(err, nats.ErrMaxPayload) { // an error of NATS' own services, so that the requester does not time out
		err = m.RespondMsg(&nats.Msg{Header: nats.Header{
			"Nats-Service-Error-Code": {"413"}, "Nats-Service-Error": {"the answer is larger than a message may be"},
		}})
	}
	if err != nil { // the requester times out and asks again
		s.b.cfg.Logger.WarnContext(ctx, "reply not sent", "component", "broker", "err_kind", "connection")
	}
}

func (s *service) stop() {
	if s.sub.Drain() == nil { // else the connection is closed
		await(s.halted, readTimeout)
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	grace := time.AfterFunc(serveGrace, s.end)
	s.running.Wait()
	grace.Stop()
	s.end()
}
