package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// serveSlots is how many requests of one service are answered at once.
	serveSlots = 64
	// servePending is how many more may wait to be looked at, and in how many bytes;
	// what comes beyond is lost.
	servePending      = 1024
	servePendingBytes = 64 << 20
	// serveGrace is how long requests may still run after a service was stopped,
	// before their contexts end.
	serveGrace = 5 * time.Second
)

// ErrBusy is the cause of a request's context where too many are being answered.
var ErrBusy = errors.New("too many requests are being answered")

// service is one subject that is answered.
type service struct {
	b   *Broker
	fn  func(ctx context.Context, subject string, data []byte) []byte
	sub *nats.Subscription

	life  context.Context //nolint:containedctx // what the requests' contexts come from
	end   context.CancelFunc
	busy  context.Context //nolint:containedctx // ended from the start, because of ErrBusy
	slots chan struct{}

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup
	halted  chan struct{} // the subscription has delivered its last
}

// Serve answers requests under a subject (wildcards allowed) with what fn makes of
// them; nil answers nothing. Of all that serve under one queue name, on all nodes,
// one gets a request. A message that names nobody to answer to is dropped.
//
// Up to 64 requests are answered at once. One too many is not kept waiting: fn is
// called with a context that has ended, context.Cause saying ErrBusy, and must say
// so at once, because nothing else is received meanwhile.
//
// Stop takes no more requests and waits for those that run; after five seconds
// their contexts end, and it waits for fn to heed that. It must be called before
// Close, and may be called twice.
func (b *Broker) Serve(subject, queue string, fn func(ctx context.Context, subject string, data []byte) []byte) (stop func(), err error) {
	s := &service{b: b, fn: fn, slots: make(chan struct{}, serveSlots), halted: make(chan struct{})}
	s.life, s.end = context.WithCancel(b.life)
	busy, refuse := context.WithCancelCause(b.life)
	refuse(ErrBusy)
	s.busy = busy
	if s.sub, err = b.nc.QueueSubscribe(subject, queue, s.receive); err != nil {
		s.end()
		return nil, wrap(err)
	}
	s.sub.SetClosedHandler(func(string) { close(s.halted) })
	err = s.sub.SetPendingLimits(servePending, servePendingBytes)
	if err == nil {
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
		s.answer(s.busy, m)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return // the drain has taken too long
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
	if errors.Is(err, nats.ErrMaxPayload) {
		// In the words of NATS' own services, so that nobody waits in vain.
		err = m.RespondMsg(&nats.Msg{Header: nats.Header{
			"Nats-Service-Error-Code": {"413"}, "Nats-Service-Error": {"the answer is larger than a message may be"},
		}})
	}
	if err != nil { // whoever asked asks again
		s.b.cfg.Logger.WarnContext(ctx, "reply not sent", "component", "broker", "err_kind", "connection")
	}
}

func (s *service) stop() {
	// A connection that is closed has ended the subscription.
	if s.sub.Drain() == nil {
		await(s.halted, readTimeout)
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	await(idle, serveGrace)
	s.end()
	<-idle
}
