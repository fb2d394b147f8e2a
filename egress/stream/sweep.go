package stream

import (
	"maps"
	"slices"
	"time"
)

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
					w.fallBehind()
				}
			}
			f.mu.Unlock()
		}
	}
}
