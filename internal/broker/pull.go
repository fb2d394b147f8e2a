package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How long one pull stands, and how often the server says in the meantime that
// it still does.
const (
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
)

// pull asks for as many messages as there is room for, but not for a few while
// others are on their way. The caller holds mu.
func (f *feed) pull() {
	room := f.room()
	if f.closing || f.hold || room <= 0 || f.asked > 0 && room < pullMost/4 && room < f.s.cfg.Backlog {
		return
	}
	if f.asked == 0 {
		f.heard = time.Now() // the silence before was ours
	}
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, room, f.s.cfg.Expiry, f.s.cfg.Heartbeat)
	if f.s.b.nc.PublishRequest(f.subject, f.sub.Subject, body) != nil {
		f.hold = true // no connection: the next tick tries again
		return
	}
	f.asked += room
}

// notice takes the server's word on a pull.
func (f *feed) notice(m *nats.Msg, now time.Time) {
	code := m.Header.Get("Status")
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.heard = now
	switch code {
	case "100": // a heartbeat
	case "408", "423": // the pull has expired with so many not sent
		n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil {
			n = f.asked
		}
		f.asked = max(f.asked-n, 0)
		f.pull()
	case "409":
		if strings.EqualFold(m.Header.Get("Description"), "Batch Completed") {
			return // reached a limit in bytes, which is never set
		}
		fallthrough
	default:
		// The consumer has moved, was deleted, or is not there. Asking again
		// at once would be answered the same way.
		f.asked, f.hold = 0, true
	}
}

// supervise keeps the feed alive until it is closed: it sends the heartbeats
// of all that is held, asks anew where the server has gone silent, and keeps
// the place of a quiet queue from falling behind. It closes the feed when ended is closed.
func (f *feed) supervise(ended <-chan struct{}) {
	beat := time.NewTicker(f.beatEvery())
	defer beat.Stop()
	watch := time.NewTicker(f.s.cfg.Heartbeat)
	defer watch.Stop()
	place := time.NewTicker(f.s.cfg.PlaceEvery)
	defer place.Stop()
	for {
		select {
		case <-beat.C:
			f.beats()
		case <-watch.C:
			f.watch()
		case <-place.C:
			f.keepPlace()
		case <-ended:
			f.close()
			ended = nil // running handlers still need their heartbeats
		case <-f.s.b.life.Done():
			f.close()
			return
		case <-f.gone:
			return
		}
	}
}

// beatEvery is a third of the ack wait: one lost heartbeat harms nothing.
func (f *feed) beatEvery() time.Duration { return max(f.config.AckWait/3, time.Millisecond) }

// beats keeps what is held, unless it came so lately that the next round is
// early enough.
func (f *feed) beats() {
	old := time.Now().Add(-f.beatEvery())
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	for d := range f.held {
		if d.since.Before(old) {
			d.beat()
		}
	}
}

// watch asks anew when a pull has been silent for two heartbeats, or when the
// last one was refused.
func (f *feed) watch() {
	f.slots.mu.Lock()
	silent := f.asked > 0 && time.Since(f.heard) > 2*f.s.cfg.Heartbeat
	refused := f.hold
	if silent {
		f.asked, f.hold = 0, true
	}
	left := f.closing
	f.slots.mu.Unlock()
	if left || !silent && !refused {
		return
	}
	if silent {
		f.s.b.cfg.Metrics.HeartbeatMissed()
		f.warn("heartbeat_missed")
	}
	if err := f.restore(); err != nil {
		f.warn("consumer_missing")
		return // hold, and try at the next tick
	}
	f.slots.mu.Lock()
	defer f.slots.mu.Unlock()
	f.hold = false
	f.pull()
}

// restore makes the consumer again if somebody deleted it. It then starts with
// the oldest message that the stream holds: a handler finds those done that
// were done before.
func (f *feed) restore() error {
	ctx, cancel := context.WithTimeout(f.handlers, readTimeout)
	defer cancel()
	_, err := f.s.b.js.Consumer(ctx, f.stream, string(f.queue))
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return wrap(err)
	}
	if _, err = f.s.b.js.CreateOrUpdateConsumer(ctx, f.stream, f.config); err == nil {
		f.warn("consumer_restored")
	}
	return wrap(err)
}
