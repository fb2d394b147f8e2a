package evidence

import (
	"strings"
	"sync"

	"weir/egress/stream"
	"weir/schemas"
)

// bell notifies watchers of new evidence of their tenant. It carries no record: a watcher reads the
// log from its position. The subscription exists only while there are watchers.
type bell struct {
	live stream.Live

	mu    sync.Mutex
	rings map[*ring]struct{}
	stop  func()
}

type ring struct {
	prefix string
	ch     chan struct{} // holds one signal
}

func newBell(live stream.Live) *bell { return &bell{live: live, rings: map[*ring]struct{}{}} }

// join subscribes the first watcher, and leave unsubscribes with the last.
func (b *bell) join(tenant string) (ch <-chan struct{}, leave func(), err error) {
	r := &ring{
		prefix: schemas.EvidenceRoot + "." + schemas.EscapeToken(tenant) + ".",
		ch:     make(chan struct{}, 1),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop == nil {
		if b.stop, err = b.live.Live(schemas.LiveRoot+".evidence.>", b.on, b.all); err != nil {
			b.stop = nil
			return nil, nil, err
		}
	}
	b.rings[r] = struct{}{}
	return r.ch, func() { b.leave(r) }, nil
}

func (b *bell) leave(r *ring) {
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

// on notifies the watchers of the record's tenant.
func (b *bell) on(rec schemas.Record) {
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

// all notifies all watchers: records may have been missed.
func (b *bell) all() {
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
