package broker

import (
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"weir/schemas"
)

const (
	livePendingMessages = 256 << 10
	livePendingBytes    = 256 << 20
)

// live is one subscription to what is being stored.
type live struct {
	sub     *nats.Subscription
	mu      sync.Mutex // one callback at a time
	stopped atomic.Bool
	fn      func(schemas.Record)
	lost    func()
}

// Live calls fn for every message that is stored from now on and republished
// under subject (schemas.LiveRoot and the subject's own tail, wildcards
// allowed). The record has the stream, the subject and the sequence under
// which the message lies in the log. fn runs on one goroutine at a time and
// sees the messages of a stream in their order; what it does delays the rest.
//
// This is a feed without memory: when the connection was lost, or fn was too
// slow for too long, messages are missing and lost is called. fn and lost
// never run at once. The caller then reads what it missed from the log. On a
// cluster it also reads from time to time: what a leader stores before it knows
// of the subscription, or as it stops leading, is missing and nobody is told.
// A message is republished as it is stored, before any Barrier.
func (b *Broker) Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error) {
	l := &live{fn: fn, lost: lost}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.sub, err = b.nc.Subscribe(subject, l.deliver); err != nil {
		return nil, wrap(err)
	}
	if err := l.sub.SetPendingLimits(livePendingMessages, livePendingBytes); err != nil {
		return nil, wrap(err)
	}
	b.lives[l.sub] = l
	return func() { b.endLive(l) }, b.flush()
}

// flush makes a new subscription known to the server before its maker is told
// that it has one.
func (b *Broker) flush() error { return wrap(b.nc.FlushTimeout(readTimeout)) }

func (b *Broker) endLive(l *live) {
	l.stopped.Store(true)
	b.mu.Lock()
	delete(b.lives, l.sub)
	b.mu.Unlock()
	_ = l.sub.Unsubscribe() // fails only when the connection is closed
}

func (l *live) deliver(m *nats.Msg) {
	rec, err := stamped(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped.Load() {
		return
	}
	if err != nil { // not a republished message: somebody else's
		return
	}
	l.fn(rec)
}

func (l *live) gap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped.Load() && l.lost != nil {
		l.lost()
	}
}

// gapped tells the live feeds that messages are missing: the one of sub, or
// all when sub is nil.
func (b *Broker) gapped(sub *nats.Subscription) {
	b.mu.Lock()
	var hit []*live
	for s, l := range b.lives {
		if sub == nil || s == sub {
			hit = append(hit, l)
		}
	}
	b.mu.Unlock()
	for _, l := range hit {
		l.gap()
	}
}

// Nudge sends a message to whoever listens now. It is not stored.
func (b *Broker) Nudge(subject string, data []byte) error {
	return wrap(b.nc.Publish(subject, data))
}

// Listen calls fn, on one goroutine, for every nudge under subject.
func (b *Broker) Listen(subject string, fn func(subject string, data []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) { fn(m.Subject, m.Data) })
	if err != nil {
		return nil, wrap(err)
	}
	return func() { _ = sub.Unsubscribe() }, b.flush() // fails only when the connection is closed
}
