package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"weir/schemas"
)

// topic is one action with watchers on this node. The feed's lock guards all its fields.
type topic struct {
	key    string
	ref    schemas.Ref
	stream string
	filter string

	watchers  []*watcher
	followers int // watchers that want every event
	pins      int // claims that are being made
	held      int // events that arrived and are not released yet
	// lost means that the subscription has missed records since the topic was made.
	lost bool
	// outcome is the terminal event, once it was released.
	outcome *Item
	// begun: a part of an answer has arrived, which may not be released yet.
	begun bool
}

// begin notes that an answer has begun to arrive.
func (t *topic) begin() {
	if t.begun {
		return
	}
	t.begun = true
	for _, w := range t.watchers {
		if w.parts {
			w.signal()
		}
	}
}

// deliver hands a released event to every watcher.
func (t *topic) deliver(it *Item) {
	if t.outcome == nil && it.Event.Type == schemas.EventSettled {
		t.outcome = it
	}
	for _, w := range t.watchers {
		w.push(it)
	}
}

// watcher is one stream or one waiting answer. It costs a few hundred bytes
// while idle.
type watcher struct {
	topic  *topic
	at     int           // its place in topic.watchers; -1: it is not there
	follow bool          // it wants every event, and else the last
	peek   bool          // it takes what there is and waits for nothing: the topic does not know it
	parts  bool          // it waits for the beginning of an answer as well
	wake   chan struct{} // holds one signal

	given uint64 // how far it has got, as of when it looked last
	buf   []*Item
	size  int
	// behind means that the log must be read: the buffer overflowed, or records may have been missed,
	// before the watcher came too unless the action was claimed under an Expect. known is how far the
	// log is known to go then.
	behind bool
	known  uint64
}

// bufferEvents and bufferBytes bound what a slow watcher may have waiting; over it, the watcher reads
// the log instead.
const (
	bufferEvents = 256
	bufferBytes  = 1 << 20
)

// push never blocks: a watcher that does not keep up loses its buffer, and reads the log on its
// next turn.
func (w *watcher) push(it *Item) {
	switch {
	case !w.follow:
		if w.topic.outcome == nil {
			return
		}
	case w.behind:
		return
	case len(w.buf) >= bufferEvents || (len(w.buf) > 0 && w.size+it.size > bufferBytes):
		w.fallBehind(0)
		return
	default:
		w.buf = append(w.buf, it)
		w.size += it.size
	}
	w.signal()
}

func (w *watcher) fallBehind(known uint64) {
	w.buf, w.size, w.behind, w.known = nil, 0, true, max(w.known, known)
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wait returns when there may be more, or with ticked when tick fires before. ErrClosed: ends was
// closed.
func (w *watcher) wait(ctx context.Context, tick <-chan time.Time, ends <-chan struct{}) (ticked bool, err error) {
	select {
	case <-w.wake:
		return false, nil
	case <-tick:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-ends:
		return false, ErrClosed
	}
}

// watch registers a watcher. It receives all records stored from now on, so the log must be read
// after this and not before.
func (f *Feed) watch(ref schemas.Ref, as watcher) *watcher {
	w, filter := &as, f.cfg.Layout.All(ref)
	w.wake, w.at = make(chan struct{}, 1), -1
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(ref, filter)
	if w.topic = t; w.peek {
		return w
	}
	w.behind = w.behind || !w.follow && (t.lost || t.pins == 0)
	f.topics[t.key] = t
	w.at = len(t.watchers)
	t.watchers = append(t.watchers, w)
	if w.follow {
		t.followers++
	}
	return w
}

// topic returns the topic of an action, or a new one that is not registered. It is called under the
// lock.
func (f *Feed) topic(ref schemas.Ref, filter string) *topic {
	_, key, _ := schemas.Split(filter)
	if t := f.topics[key]; t != nil {
		return t
	}
	return &topic{key: key, ref: ref, stream: schemas.LogStream(f.cfg.Layout.Partition(ref.Tenant, ref.ID)), filter: filter}
}

// unregister unregisters a watcher and drops an unused topic. alone reports that this node has no other
// waiting caller; of concurrent leavers exactly one gets it. A second call never does.
func (f *Feed) unregister(w *watcher) (alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := w.topic
	if w.at < 0 {
		return false
	}
	end := len(t.watchers) - 1
	t.watchers[w.at] = t.watchers[end]
	t.watchers[w.at].at = w.at
	t.watchers[end] = nil
	t.watchers = t.watchers[:end]
	w.at, w.buf = -1, nil
	if w.follow {
		t.followers--
	}
	f.drop(t)
	return len(t.watchers) == 0
}

func (f *Feed) drop(t *topic) {
	if len(t.watchers) == 0 && t.pins == 0 && f.topics[t.key] == t {
		delete(f.topics, t.key)
	}
}

// sweep reads from the log, action by action, whether the feed has missed a watched event. If every
// stream read by itself, thousands of them would overload the log, and their comments would wait
// for it.
func (f *Feed) sweep() {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			return
		}
		f.mu.Lock()
		followed := slices.DeleteFunc(slices.Collect(maps.Values(f.topics)), func(t *topic) bool { return t.followers == 0 })
		f.mu.Unlock()
		for _, t := range followed {
			rec, err := f.last(f.ctx, t.stream, t.filter)
			if err != nil {
				continue
			}
			f.mu.Lock()
			for _, w := range t.watchers {
				if w.follow && w.given < rec.Seq && (len(w.buf) == 0 || w.buf[len(w.buf)-1].Seq < rec.Seq) {
					w.fallBehind(rec.Seq)
				}
			}
			f.mu.Unlock()
		}
	}
}
