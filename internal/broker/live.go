package broker

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"weir/schemas"
)

const (
	livePendingMessages = 256 << 10
	livePendingBytes    = 256 << 20
)

// live is one subscription to what is being stored.
type live struct {
	sub     *nats.Subscription // nil of one in memory
	mu      sync.Mutex         // one callback at a time
	stopped atomic.Bool
	fn      func(schemas.Record)
	lost    func()

	// In memory:
	filter []string // the tokens of its subject below schemas.LiveLog
	queue  struct {
		mu      sync.Mutex
		pending []schemas.Record
		bytes   int
		gap     bool          // some did not fit
		kick    chan struct{} // has room for one: there is something to show
	}
}

// Live calls fn for every message that is stored from now on and matches
// subject: schemas.LiveLog or LiveRoot and what follows the root of the stored subject, wildcards
// allowed. The record has the stream, the subject and the sequence under
// which the message lies in the log. fn runs on one goroutine at a time and
// sees the messages of a stream in their order; what it does delays the rest.
//
// This is a feed without memory: when the connection was lost, or fn was too
// slow for too long, messages are missing and lost is called. fn and lost
// never run at once. The caller then reads what it missed from the log. On a
// cluster it also reads from time to time: what a leader stores before it knows
// of the subscription, or as it stops leading, is missing and nobody is told.
// A message is shown as it is stored, before any Barrier.
//
// Where the server is embedded, the log itself, below schemas.LiveLog, is not
// republished: all of it was written by this process. Scheduled wakes are then not shown, and the
// record's time is when it was acknowledged.
func (b *Broker) Live(subject string, fn func(schemas.Record), lost func()) (stop func(), err error) {
	l := &live{fn: fn, lost: lost}
	if b.cfg.Server != nil && strings.HasPrefix(subject, schemas.LiveLog+".") {
		return b.follow(l, strings.Split(strings.TrimPrefix(subject, schemas.LiveLog+"."), "."))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.sub, err = b.nc.Subscribe(subject, l.deliver); err != nil {
		return nil, wrap(err)
	}
	if err := l.sub.SetPendingLimits(livePendingMessages, livePendingBytes); err != nil {
		return nil, wrap(err)
	}
	b.lives[l] = struct{}{}
	return func() { b.endLive(l) }, b.flush()
}

// follow has l see what this process writes to the log.
func (b *Broker) follow(l *live, filter []string) (stop func(), err error) {
	if b.life.Err() != nil {
		return nil, wrap(errClosed)
	}
	l.filter, l.queue.kick = filter, make(chan struct{}, 1)
	b.mu.Lock()
	b.lives[l] = struct{}{}
	b.followers.Store(b.inMemory())
	b.mu.Unlock()
	b.work.Go(func() { l.serve(b.life.Done()) })
	return func() { b.endLive(l) }, nil
}

// inMemory are the feeds in memory. The caller holds mu.
func (b *Broker) inMemory() *[]*live {
	var all []*live
	for l := range b.lives {
		if l.filter != nil {
			all = append(all, l)
		}
	}
	return &all
}

// flush makes a new subscription known to the server before its maker is told
// that it has one.
func (b *Broker) flush() error { return wrap(b.nc.FlushTimeout(readTimeout)) }

func (b *Broker) endLive(l *live) {
	l.stopped.Store(true)
	b.mu.Lock()
	delete(b.lives, l)
	b.followers.Store(b.inMemory())
	b.mu.Unlock()
	if l.sub != nil {
		_ = l.sub.Unsubscribe() // fails only when the connection is closed
	} else {
		l.wake()
	}
}

func (l *live) deliver(m *nats.Msg) {
	rec, err := stamped(m)
	if err != nil { // not a republished message: somebody else's
		return
	}
	l.show(rec)
}

func (l *live) show(rec schemas.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped.Load() {
		l.fn(rec)
	}
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
	for l := range b.lives {
		if sub == nil || l.sub == sub {
			hit = append(hit, l)
		}
	}
	b.mu.Unlock()
	for _, l := range hit {
		if l.sub == nil {
			l.miss()
		} else {
			l.gap()
		}
	}
}

// acked hears of every acknowledgement of the embedded server, in the order of a stream.
// It does not block.
func (b *Broker) acked(c *call, reply *nats.Msg) {
	followers := b.followers.Load()
	switch {
	case followers == nil || len(*followers) == 0:
		return
	case c == nil: // its writer gave up, and its content is gone
		for _, l := range *followers {
			l.miss()
		}
		return
	case !strings.HasPrefix(c.subject, schemas.LogRoot+"."):
		return
	}
	seq, err := stored(reply)
	if err != nil {
		return
	}
	token, _, _ := strings.Cut(strings.TrimPrefix(c.subject, schemas.LogRoot+"."), ".")
	partition, err := strconv.Atoi(token)
	if err != nil {
		return
	}
	rec := schemas.Record{Stream: schemas.LogStream(partition), Subject: c.subject, Seq: seq, Time: time.Now().UTC(), Data: c.data}
	for _, l := range *followers {
		if l.matches(c.subject) {
			l.push(rec)
		}
	}
}

// matches reports whether a feed shows what lies under a subject of the log.
func (l *live) matches(subject string) bool {
	rest := strings.TrimPrefix(subject, schemas.LogRoot+".")
	for i, want := range l.filter {
		if want == ">" {
			return true
		}
		token, after, more := strings.Cut(rest, ".")
		if want != "*" && want != token || more == (i == len(l.filter)-1) {
			return false
		}
		rest = after
	}
	return true
}

func (l *live) push(rec schemas.Record) {
	l.queue.mu.Lock()
	if len(l.queue.pending) < livePendingMessages && l.queue.bytes < livePendingBytes {
		l.queue.pending = append(l.queue.pending, rec)
		l.queue.bytes += len(rec.Data)
	} else {
		l.queue.gap = true
	}
	l.queue.mu.Unlock()
	l.wake()
}

// miss notes that messages are missing.
func (l *live) miss() {
	l.queue.mu.Lock()
	l.queue.gap = true
	l.queue.mu.Unlock()
	l.wake()
}

func (l *live) wake() {
	select {
	case l.queue.kick <- struct{}{}:
	default:
	}
}

// serve shows the records in their order until the feed is stopped, or the broker closed.
func (l *live) serve(closed <-chan struct{}) {
	var batch []schemas.Record
	for !l.stopped.Load() {
		l.queue.mu.Lock()
		batch, l.queue.pending = l.queue.pending, batch[:0]
		gap := l.queue.gap
		l.queue.bytes, l.queue.gap = 0, false
		l.queue.mu.Unlock()
		for _, rec := range batch {
			l.show(rec)
		}
		clear(batch)
		if gap {
			l.gap()
		}
		if len(batch) > 0 || gap {
			continue
		}
		select {
		case <-l.queue.kick:
		case <-closed:
			return
		}
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
