package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"weir/internal/broker/access"
	"weir/schemas"
)

// As many records and bytes may wait for a feed, and as many again are being shown.
const (
	livePendingMessages = 128 << 10
	livePendingBytes    = 128 << 20
)

// live is one feed of newly stored messages.
type live struct {
	fn     func(schemas.Record)
	lost   func()
	filter string // of stored subjects that this process writes; empty: it has a subscription

	mu      sync.Mutex
	pending []schemas.Record
	bytes   int           // their data
	gap     bool          // messages are missing
	wake    chan struct{} // has room for one
}

// Live calls fn for every message stored from now on that matches subject. The subject is
// schemas.LiveLog or LiveRoot, followed by the stored subject without its root; it may have
// wildcards. The record has the stream, subject and sequence of the stored message. fn runs on one
// goroutine at a time and receives each stream's messages in order; a slow fn delays them.
//
// The feed has no memory. After a lost connection, or if fn is too slow for too long, messages are
// missing and Live calls lost, never concurrently with fn. The caller then reads the log. On a
// cluster it must also read at intervals: messages that a leader stores before it knows of the
// subscription, or while it loses leadership, are missing without notice. A message is shown once
// it is stored, before any Barrier.
//
// An embedded server does not republish the log below schemas.LiveLog, because this process has
// written all of it. Scheduled wake-ups are not shown then, and a record has the time of its
// acknowledgement.
func (b *Broker) Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error) {
	if b.life.Err() != nil {
		return nil, wrap(errClosed)
	}
	l := &live{fn: fn, lost: lost, wake: make(chan struct{}, 1)}
	var sub *nats.Subscription
	if rest, ok := strings.CutPrefix(subject, schemas.LiveLog+"."); ok && b.cfg.Server != nil {
		l.filter = schemas.LogRoot + "." + rest
	} else if sub, err = subscribe(b.nc, subject, l.deliver); err != nil { // push has its own limits
		return nil, err
	}
	ctx, cancel := context.WithCancel(b.life)
	b.mu.Lock()
	b.lives = append(b.lives, l)
	b.mu.Unlock()
	b.work.Go(func() { l.serve(ctx) })
	stop = func() {
		cancel()
		b.mu.Lock()
		b.lives = slices.DeleteFunc(b.lives, func(o *live) bool { return o == l })
		b.mu.Unlock()
		_ = sub.Unsubscribe() // it fails without one, and after the connection is closed
	}
	if l.filter == "" {
		if err := b.flush(); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// flush makes a new subscription known to the server.
func (b *Broker) flush() error { return wrap(b.nc.FlushTimeout(readTimeout)) }

// deliver takes a republished message; other messages on its subject are ignored.
func (l *live) deliver(m *nats.Msg) {
	if rec, err := stamped(m); err == nil {
		l.push(rec)
	}
}

// gapped notes that messages are missing, from all feeds or from those of this process's writes.
func (b *Broker) gapped(own bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lives {
		if !own || l.filter != "" {
			l.push()
		}
	}
}

// acked decodes every acknowledgement, in the order of a stream. What an embedded server has stored is
// shown to live feeds, and new actions to the queue that is alone. It does not block.
func (b *Broker) acked(c *call, reply *nats.Msg) {
	if c == nil { // its writer has given up, and the content is unknown
		b.gapped(true)
		return
	}
	rec := schemas.Record{Subject: c.request.Subject, Time: time.Now().UTC(), Data: c.request.Data}
	if rec.Stream, rec.Seq, c.err = stored(reply); c.err != nil {
		return
	}
	c.seq = rec.Seq
	if b.cfg.Server == nil {
		return
	}
	b.mu.Lock()
	for _, l := range b.lives {
		if access.Covers(l.filter, rec.Subject) {
			l.push(rec)
		}
	}
	f := b.early[rec.Stream]
	b.mu.Unlock()
	if f == nil {
		return
	}
	if _, _, section := schemas.Split(rec.Subject); section == schemas.SectionAccepted {
		f.takeEarly(rec, c.request.Header.Get(headerUrgent) != "")
	}
}

// push shows records, in their order; none: some are missing.
func (l *live) push(records ...schemas.Record) {
	l.mu.Lock()
	l.gap = l.gap || len(records) == 0
	for _, rec := range records {
		if len(l.pending) < livePendingMessages && l.bytes < livePendingBytes {
			l.pending = append(l.pending, rec)
			l.bytes += len(rec.Data)
		} else {
			l.gap = true
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// serve shows the records in their order until ctx ends.
func (l *live) serve(ctx context.Context) {
	var batch []schemas.Record
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		batch, l.pending = l.pending, batch[:0]
		gap := l.gap
		l.gap, l.bytes = false, 0
		l.mu.Unlock()
		for _, rec := range batch {
			if ctx.Err() != nil {
				return
			}
			l.fn(rec)
		}
		clear(batch)
		if gap && l.lost != nil && ctx.Err() == nil {
			l.lost()
		}
	}
}

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

// Serve answers requests under a subject, which may have wildcards, with the result of fn. Of all
// services with one queue name, on all nodes, one receives a request. A message without a reply
// subject is dropped.
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
	err := m.Respond(fn(ctx, m.Subject, m.Data))
	if errors.Is(err, nats.ErrMaxPayload) { // an error of NATS' own services, so that the requester does not time out
		err = m.RespondMsg(&nats.Msg{Header: nats.Header{
			"Nats-Service-Error-Code": {"413"}, "Nats-Service-Error": {"the answer is larger than a message may be"},
		}})
	}
	if err != nil { // the requester times out and tries again
		b.cfg.Logger.WarnContext(ctx, "reply_failed", "component", "broker", "err_kind", "connection")
	}
}
