package stream

import (
	"maps"
	"slices"
	"time"

	"weir/schemas"
)

// topic is one action with readers or waiting callers on this node. The feed's lock guards all its
// fields.
type topic struct {
	key    string
	ref    schemas.Ref
	stream string
	filter string

	readers []*Reader
	waiters int // callers that wait for the end
	pins    int // claims that are being made
	held    int // events that arrived and are not released yet
	// losses is how often the subscription may have missed records since the topic was made.
	losses int
	// outcome is the terminal event, once it was released.
	outcome *Item
	// begun: a part of an answer has arrived, which may not be released yet.
	begun bool
	// changed is closed when one of the three above changes; nil: no caller waits for that.
	changed chan struct{}
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

// drop drops a topic that is not used any more. alone reports that this node has no other caller that
// reads its action or waits for it.
func (f *Feed) drop(t *topic) (alone bool) {
	alone = len(t.readers) == 0 && t.waiters == 0
	if alone && t.pins == 0 && f.topics[t.key] == t {
		delete(f.topics, t.key)
	}
	return alone
}

// notify wakes the callers that wait for the end.
func (t *topic) notify() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// begin notes that an answer has begun to arrive.
func (t *topic) begin() {
	if !t.begun {
		t.begun = true
		t.notify()
	}
}

// deliver hands a released event to every reader and waiting caller.
func (t *topic) deliver(it *Item) {
	if t.outcome == nil && it.Event.Type == schemas.EventSettled {
		t.outcome = it
		t.notify()
	}
	for _, r := range t.readers {
		r.push(it)
	}
}

// bufferEvents and bufferBytes bound what a slow reader may have waiting; over it, the reader reads
// the log instead.
const (
	bufferEvents = 256
	bufferBytes  = 1 << 20
)

// push never blocks: a reader that does not keep up loses its buffer, and reads the log on its next
// turn.
func (r *Reader) push(it *Item) {
	switch {
	case r.missed:
		return
	case len(r.buf) >= bufferEvents || (len(r.buf) > 0 && r.size+it.size > bufferBytes):
		r.miss(0)
		return
	}
	r.buf = append(r.buf, it)
	r.size += it.size
	r.signal()
}

// miss makes the reader read the log, at least up to a sequence.
func (r *Reader) miss(newest uint64) {
	r.buf, r.size, r.missed, r.newest = nil, 0, true, max(r.newest, newest)
	r.signal()
}

func (r *Reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sweep reads from the log, action by action, whether the feed has missed an event that is read. If
// every stream read by itself, thousands of them would overload the log, and their comments would wait
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
		read := slices.DeleteFunc(slices.Collect(maps.Values(f.topics)), func(t *topic) bool { return len(t.readers) == 0 })
		f.mu.Unlock()
		for _, t := range read {
			rec, err := f.last(f.ctx, t.stream, t.filter)
			if err != nil {
				continue
			}
			f.mu.Lock()
			for _, r := range t.readers {
				if r.given < rec.Seq && (len(r.buf) == 0 || r.buf[len(r.buf)-1].Seq < rec.Seq) {
					r.miss(rec.Seq)
				}
			}
			f.mu.Unlock()
		}
	}
}
