package stream

import (
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
	peeks     int // watchers that take what there is, and wait for nothing
	pins      int // claims that are being made
	held      int // events that arrived and are not released yet
	// lost means that the subscription has missed records since the topic was made.
	lost bool
	// outcome is the terminal event, once it was released.
	outcome *Outcome
	// begun: a part of an answer has arrived, which may not be released yet.
	begun bool
}

// wants reports whether a record matters here: for a watcher that only waits for the end nothing
// else is decoded, and no barrier holds it.
func (t *topic) wants(rec schemas.Record) bool { return t.followers > 0 || rec.Ends() }

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
func (t *topic) deliver(it *Item, cfg Config) {
	if t.outcome == nil && it.Event.Type == schemas.EventSettled {
		t.outcome = it.outcome()
	}
	for _, w := range t.watchers {
		w.push(it, cfg)
	}
}

// watcher is one stream or one waiting answer. It costs a few hundred bytes
// while idle.
type watcher struct {
	topic  *topic
	at     int // its place in topic.watchers
	follow bool
	peek   bool
	parts  bool          // it waits for the beginning of an answer as well
	first  bool          // it has not looked at its topic yet
	wake   chan struct{} // holds one signal

	// given is how far it has got, as of when it looked last, and known how far
	// the log was found to go.
	given, known uint64

	buf  []*Item
	size int
	// behind means that the log must be read: the buffer overflowed, or the subscription lost
	// records.
	behind bool
}

// push never blocks: a watcher that does not keep up loses its buffer, and reads the log on its
// next turn.
func (w *watcher) push(it *Item, cfg Config) {
	switch {
	case !w.follow:
		if w.topic.outcome == nil {
			return
		}
	case w.behind:
		return
	case len(w.buf) >= cfg.BufferEvents || (len(w.buf) > 0 && w.size+it.size > cfg.BufferBytes):
		w.fallBehind()
		return
	default:
		w.buf = append(w.buf, it)
		w.size += it.size
	}
	w.signal()
}

func (w *watcher) fallBehind() {
	w.buf, w.size, w.behind = nil, 0, true
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// The purpose of a watcher.
type purpose int

const (
	awaits  purpose = iota // the action's end
	begins                 // the action's end, or the beginning of its answer
	follows                // every event as it comes
	glances                // every event that there is by now
)

// watch registers a watcher. It receives all records stored from now on, so the log must be read
// after this and not before.
func (f *Feed) watch(ref schemas.Ref, why purpose) *watcher {
	w := &watcher{follow: why > begins, peek: why == glances, parts: why == begins, first: true, wake: make(chan struct{}, 1)}
	filter := f.cfg.Layout.All(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(ref, filter)
	w.topic, w.at = t, len(t.watchers)
	t.watchers = append(t.watchers, w)
	if w.follow {
		t.followers++
	}
	if w.peek {
		t.peeks++
	}
	return w
}

// topic is called under the lock.
func (f *Feed) topic(ref schemas.Ref, filter string) *topic {
	_, key, _ := schemas.Split(filter)
	t := f.topics[key]
	if t == nil {
		stream := schemas.LogStream(f.cfg.Layout.Partition(ref.Tenant, ref.ID))
		t = &topic{key: key, ref: ref, stream: stream, filter: filter}
		f.topics[key] = t
	}
	return t
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
	if w.peek {
		t.peeks--
	}
	alone = len(t.watchers) == t.peeks
	f.drop(t)
	return alone
}

func (f *Feed) drop(t *topic) {
	if len(t.watchers) == 0 && t.pins == 0 && f.topics[t.key] == t {
		delete(f.topics, t.key)
	}
}

// drain empties the buffer of a watcher at position given. behind reports that the log must be read
// first; this is reported once, with the position known.
func (f *Feed) drain(w *watcher, given uint64) (items []*Item, known uint64, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, known, behind = w.buf, w.known, w.behind
	w.buf, w.size, w.behind, w.known, w.given = nil, 0, false, 0, given
	return items, known, behind
}
