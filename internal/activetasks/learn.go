package activetasks

import (
	"encoding/json"

	"weir/schemas"
)

// event is a record that was read; bad: it cannot be.
type event struct {
	schemas.Record
	schemas.Event
	ref     schemas.Ref
	section schemas.Section
	bad     bool
}

// decode reads a record; ok is false for what is no event of a task.
func decode(r schemas.Record) (e event, ok bool) {
	ref, section, err := schemas.ParseSubject(r.Subject)
	if err != nil || ref.Kind != schemas.KindTask || r.Notifies() {
		return event{}, false
	}
	e = event{Record: r, ref: ref, section: section}
	e.bad = json.Unmarshal(r.Data, &e.Event) != nil || e.V < 1 || e.V > schemas.EventVersion+1 || schemas.SectionOf(e.Type) != section ||
		section == schemas.SectionAccepted && e.Action == nil
	return e, true
}

// hear takes an event of the feed, if it is the very next of its task and was not
// read yet. Whatever else it is, the log is asked.
func (b *Cache) hear(r schemas.Record) {
	e, ok := decode(r)
	if !ok {
		return
	}
	p := b.cfg.Layout.Partition(e.ref.Tenant, e.ref.ID)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Seq <= b.read[p] {
		return
	}
	t := b.tasks[e.ref]
	switch {
	case !e.bad && t == nil && e.section == schemas.SectionAccepted, !e.bad && t != nil && e.N == t.n+1:
		b.learn(e)
	case t != nil && r.Seq <= t.seq:
	default:
		b.Notify()
	}
}

// learn takes an event over that comes next on the log of its task. It needs the lock.
func (b *Cache) learn(e event) {
	t := b.tasks[e.ref]
	switch {
	case t != nil && e.Record.Seq <= t.seq: // known
	case e.section == schemas.SectionAccepted:
		b.accept(e)
	case t == nil: // history has dropped its beginning, or it cannot be read
	case e.bad:
		if t.n, t.seq = t.n+1, e.Record.Seq; e.Ends() { // whatever it said, the task has ended
			b.drop(t)
		}
	default:
		t.n, t.seq = e.N, e.Record.Seq
		by := t.place()
		t.apply(e.Event)
		if was := b.reported[by]; by.holder != "" && t.state.Report != nil && (was == nil || was.state.Ended.Before(t.state.Ended)) {
			b.reported[by] = t
		}
		b.update(t)
		if e.Ends() {
			b.drop(t)
		}
	}
}

func (b *Cache) accept(e event) {
	if e.bad {
		return // its worker settles it
	}
	t, ok := begin(e.ref, e.Record, *e.Action)
	if !ok {
		return
	}
	t.n, t.seq = 1, e.Record.Seq
	b.tasks[e.ref] = t
	if t.blob != "" {
		b.aside[t] = struct{}{}
		b.Notify()
	}
}

// update brings the lists in step with a task, and notifies those who wait for what has changed.
func (b *Cache) update(t *task) {
	b.list(t, t.place())
	for w := range b.watch[t.Ref] {
		if w.ends(t.state) {
			close(w.over)
			b.unwatch(t.Ref, w)
		}
	}
}

// list moves a task to a list, of which it is in one at most.
func (b *Cache) list(t *task, to place) {
	if to == t.in {
		return
	}
	if t.in != (place{}) {
		if b.lists[t.in] = remove(b.lists[t.in], t); len(b.lists[t.in]) == 0 {
			delete(b.lists, t.in)
		}
	}
	if t.in = to; to != (place{}) {
		b.lists[to] = insert(b.lists[to], t)
	}
	if changed := b.changed[to.tenant]; to.leasable && changed != nil {
		close(changed)
		delete(b.changed, to.tenant)
	}
}

// drop forgets a task that has been settled.
func (b *Cache) drop(t *task) {
	b.list(t, place{})
	for w := range b.watch[t.Ref] {
		close(w.over)
		b.unwatch(t.Ref, w)
	}
	delete(b.tasks, t.Ref)
	delete(b.aside, t)
}
