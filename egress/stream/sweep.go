package stream

import "time"

// sweep asks the log, action by action, whether the feed has missed something that
// is watched. Were every stream to ask, thousands of them would have the log busy
// with nothing else, and their comments would wait for it.
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

// reached wakes who has not got as far as the log goes.
func (f *Feed) reached(t *topic, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range t.watchers {
		if w.follow && w.given < seq {
			w.known = seq
			w.signal()
		}
	}
}
