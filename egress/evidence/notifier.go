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

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     func()
}

type watcher struct {
	prefix string
	ch     chan struct{} // holds one signal
}

func newNotifier(live stream.Live) *notifier {
	return &notifier{live: live, watchers: map[*watcher]struct{}{}}
}

// subscribe subscribes the first watcher, and leave unsubscribes with the last.
func (n *notifier) subscribe(tenant string) (ch <-chan struct{}, leave func(), err error) {
	w := &watcher{
		prefix: schemas.EvidenceRoot + "." + schemas.EscapeToken(tenant) + ".",
		ch:     make(chan struct{}, 1),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop == nil {
		if n.stop, err = n.live.Live(schemas.LiveRoot+".evidence.>", n.notify, n.notifyAll); err != nil {
			n.stop = nil
			return nil, nil, err
		}
	}
	n.watchers[w] = struct{}{}
	return w.ch, func() { n.unsubscribe(w) }, nil
}

func (n *notifier) unsubscribe(w *watcher) {
	n.mu.Lock()
	delete(n.watchers, w)
	var stop func()
	if len(n.watchers) == 0 {
		stop, n.stop = n.stop, nil
	}
	n.mu.Unlock()
	if stop != nil {
		stop() // not under the lock: it waits for notify to return
	}
}

// notify notifies the watchers of the record's tenant.
func (n *notifier) notify(rec schemas.Record) {
	subject := rec.Subject
	if rest, ok := strings.CutPrefix(subject, schemas.LiveRoot+"."); ok {
		subject = "weir." + rest
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		if strings.HasPrefix(subject, w.prefix) {
			w.signal()
		}
	}
}

// notifyAll notifies all watchers: records may have been missed.
func (n *notifier) notifyAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		w.signal()
	}
}

func (w *watcher) signal() {
	select {
	case w.ch <- struct{}{}:
	default:
	}
}
