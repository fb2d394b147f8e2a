package chat

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"weir/internal/completion"
	"weir/processors/call"
	"weir/schemas"
)

const (
	// backlog is how much of an answer waits for the log before its model is not read
	// any further.
	backlog = 1 << 20
	// eventSize bounds what is written in one event, but for a single chunk.
	eventSize = schemas.InlineLimit
	// A log is busy that takes longer than busy for an event. Its writer then leaves it
	// alone for restFactor times as long, and for no longer than longestRest.
	busy        = 3 * time.Millisecond
	restFactor  = 2
	longestRest = 50 * time.Millisecond
)

// scribe writes the chunks of one answer to the log, in a goroutine of its own: while it
// writes some the next ones gather, and are written together. So an answer that the log
// keeps up with is one event a chunk, and one that it does not has fewer. Behind an event
// that took the log long it pauses, so that more gather: hundreds of answers that each
// append as soon as they can would keep a log as busy as it is. Between the first put and
// the end of close the action's state is the scribe's.
type scribe struct {
	write func(ctx context.Context, chunks []json.RawMessage) error

	mu      sync.Mutex
	queue   []json.RawMessage
	size    int
	begun   bool
	closing bool
	err     error // why nothing more is taken
	lost    error // why not all is on the log

	ends chan struct{} // closed once closing is set
	wake chan struct{} // there is something to write, or no more to come
	room chan struct{} // what was there has been taken, or nothing more will be
	done chan struct{}
}

func newScribe(write func(ctx context.Context, chunks []json.RawMessage) error) *scribe {
	return &scribe{write: write, ends: make(chan struct{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
}

// put takes the next chunk, and waits while there is no room for it. It is called by one
// goroutine. Its errors are *fault.Call.
func (s *scribe) put(ctx context.Context, chunk json.RawMessage) error {
	for {
		taken, err := s.take(ctx, chunk)
		if taken || err != nil {
			return err
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return call.CutOff(ctx.Err())
		}
	}
}

func (s *scribe) take(ctx context.Context, chunk json.RawMessage) (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return false, s.err
	case s.size > 0 && s.size+len(chunk) > backlog:
		return false, nil
	}
	s.queue, s.size = append(s.queue, chunk), s.size+len(chunk)
	if !s.begun {
		s.begun = true
		go s.run(ctx)
	}
	signal(s.wake)
	return true, nil
}

// close returns once all that was taken is on the log, or known not to get there. A
// request to stop does not keep it from that.
func (s *scribe) close(context.Context) error {
	s.mu.Lock()
	begun := s.begun
	if !s.closing {
		s.closing = true
		close(s.ends)
	}
	s.mu.Unlock()
	if !begun {
		return nil
	}
	signal(s.wake)
	<-s.done
	return s.lost
}

func (s *scribe) run(ctx context.Context) {
	defer close(s.done)
	for range s.wake {
		for chunks := s.gathered(); len(chunks) > 0; chunks = s.gathered() {
			var took time.Duration
			for batch := range batches(chunks) {
				merged, start := completion.Merge(batch), time.Now()
				if !s.written(s.write(ctx, merged)) {
					break
				}
				took += time.Since(start)
			}
			s.rest(ctx, took)
		}
		if s.over() {
			return
		}
	}
}

// rest leaves a log alone that took so long for what was written last, but for an answer
// that has come to its end.
func (s *scribe) rest(ctx context.Context, took time.Duration) {
	if took <= busy {
		return
	}
	timer := time.NewTimer(min(restFactor*took, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ends:
	case <-ctx.Done():
	}
}

// gathered takes all that is there. What comes after a failure is nobody's.
func (s *scribe) gathered() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	chunks := s.queue
	s.queue, s.size = nil, 0
	signal(s.room)
	if s.lost != nil {
		return nil
	}
	return chunks
}

// written notes how a write ended, and reports whether there may be another. That the
// action is to stop is no reason against one: what came before that stands.
func (s *scribe) written(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, call.ErrStopped):
		s.err = err
	default:
		s.err, s.lost = err, err
	}
	return s.lost == nil
}

func (s *scribe) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing && len(s.queue) == 0
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// batches cuts chunks into what is written in one event each.
func batches(chunks []json.RawMessage) func(yield func([]json.RawMessage) bool) {
	return func(yield func([]json.RawMessage) bool) {
		for from := 0; from < len(chunks); {
			to, size := from+1, len(chunks[from])
			for to < len(chunks) && size+len(chunks[to]) <= eventSize {
				size += len(chunks[to])
				to++
			}
			if !yield(chunks[from:to]) {
				return
			}
			from = to
		}
	}
}

// write writes one delta event. The first is shown only behind a barrier: with it on the
// log the answer is not begun anew.
func (w *work) write(ctx context.Context, chunks []json.RawMessage) error {
	return call.Relay(ctx, w.ledger, w.st, schemas.Event{Type: schemas.EventDelta, First: !w.given(), Data: delta(chunks)})
}

// delta is a ChatDelta, without reading its chunks once more.
func delta(chunks []json.RawMessage) json.RawMessage {
	size := len(`{"chunks":[]}`)
	for _, c := range chunks {
		size += len(c) + 1
	}
	doc := append(make([]byte, 0, size), `{"chunks":[`...)
	for i, c := range chunks {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(doc, c...)
	}
	return append(doc, "]}"...)
}
