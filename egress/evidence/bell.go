package evidence

import (
	"strings"
	"sync"

	"weir/egress/stream"
	"weir/schemas"
)

// notifier notifies watchers of new evidence of their tenant. It carries no record: a watcher reads the
// log from its position. The subscription exists only while there are watchers.
type notifier struct {
	live stream.Live

	mu    sync.Mutex
	rings map[*ring]struct{}
	stop  func()
}

type ring struct {
	prefix string
	ch     chan struct{} // holds one signal
}

func newBell(live stream.Live) *notifier { return &notifier{live: live, rings: map[*ring]struct{}{}} }

// join subscribes the first watcher, and leave unsubscribes with the last.
func (b *notifier) join(tenant string) (ch <-chan struct{}, leave func(), err error) {
	r := &ring{
		prefix: schemas.EvidenceRoot + "." + schemas.EscapeToken(tenant) + ".",
		ch:     make(chan struct{}, 1),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop == nil {
		if b.stop, err = b.live.Live(schemas.LiveRoot+".evidence.>", b.notify, b.notifyAll); err != nil {
			b.stop = nil
			return nil, nil, err
		}
	}
	b.rings[r] = struct{}{}
	return r.ch, func() { b.leave(r) }, nil
}

func (b *notifier) leave(r *ring) {
	b.mu.Lock()
	delete(b.rings, r)
	var stop func()
	if len(b.rings) == 0 {
		stop, b.stop = b.stop, nil
	}
	b.mu.Unlock()
	if stop != nil {
		stop() // not under the lock: it waits for on to return
	}
}

// notify notifies the watchers of the record's tenant.
func (b *notifier) notify(rec schemas.Record) {
	subject := rec.Subject
	if rest, ok := strings.CutPrefix(subject, schemas.LiveRoot+"."); ok {
		subject = "weir." + rest
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.rings {
		if strings.HasPrefix(subject, r.prefix) {
			r.signal()
		}
	}
}

// notifyAll notifies all watchers: records may have been missed.
func (b *notifier) notifyAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.rings {
		r.signal()
	}
}

func (r *ring) signal() {
	select {
	case r.ch <- struct{}{}:
	default:
	}
}
