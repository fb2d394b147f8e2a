package stream

import "time"

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
		for _, t := range f.followed() {
			if rec, ok, err := f.last(f.ctx, t.stream, t.filter); ok && err == nil {
				f.reached(t, rec.Seq)
			}
		}
	}
}

func (f *Feed) followed() []*topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*topic, 0, len(f.topics))
	for _, t := range f.topics {
		if t.followers > 0 {
			all = append(all, t)
		}
	}
	return all
}

// reached makes the watchers read the log that do not have all known events.
func (f *Feed) reached(t *topic, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range t.watchers {
		if w.follow && w.given < seq && (len(w.buf) == 0 || w.buf[len(w.buf)-1].Seq < seq) {
			w.fallBehind()
		}
	}
}
