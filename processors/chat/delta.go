package chat

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

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

// deltaWriter writes the chunks of one answer to the log, in a goroutine of its own: while it
// writes some the next ones gather, and are written together. So an answer that the log
// keeps up with is one event a chunk, and one that it does not has fewer. Behind an event
// that took the log long it pauses, so that more gather: hundreds of answers that each
// append as soon as they can would keep a log as busy as it is. Between the first put and
// the end of close the action's state is the writer's.
type deltaWriter struct {
	write func(ctx context.Context, chunks []json.RawMessage) error
	merge func(chunks []json.RawMessage) []json.RawMessage

	mu      sync.Mutex
	changed sync.Cond // any of these
	queue   []json.RawMessage
	size    int
	running bool
	err     error // why nothing more is taken
	lost    error // why not all is on the log

	ends func() // no more comes
	end  <-chan struct{}
}

func (w *work) newDeltaWriter() *deltaWriter {
	end, ends := context.WithCancel(context.Background())
	d := &deltaWriter{write: w.write, merge: w.protocol.Merge, ends: ends, end: end.Done()}
	d.changed.L = &d.mu
	return d
}

// put takes the next chunk, and waits while there is no room for it. It is called by one
// goroutine. Its errors are *fault.Call.
func (w *deltaWriter) put(ctx context.Context, chunk json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full(chunk) {
		defer context.AfterFunc(ctx, w.wake)()
	}
	for w.full(chunk) && ctx.Err() == nil {
		w.changed.Wait()
	}
	switch {
	case w.err != nil:
		return w.err
	case w.full(chunk):
		return call.CutOff(ctx.Err())
	}
	w.queue, w.size = append(w.queue, chunk), w.size+len(chunk)
	if !w.running {
		w.running = true
		go w.run(ctx)
	}
	w.changed.Broadcast()
	return nil
}

// full reports whether a chunk has to wait.
func (w *deltaWriter) full(chunk json.RawMessage) bool {
	return w.err == nil && w.size > 0 && w.size+len(chunk) > backlog
}

func (w *deltaWriter) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed.Broadcast()
}

// close returns once all that was taken is on the log, or known not to get there. A
// request to stop does not keep it from that.
func (w *deltaWriter) close(context.Context) error {
	w.ends()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed.Broadcast()
	for w.running {
		w.changed.Wait()
	}
	return w.lost
}

func (w *deltaWriter) run(ctx context.Context) {
	for chunks := w.next(); len(chunks) > 0; chunks = w.next() {
		var took time.Duration
		for batch := range batches(chunks) {
			merged, start := w.merge(batch), time.Now()
			if !w.written(w.write(ctx, merged)) {
				break
			}
			took += time.Since(start)
		}
		w.rest(ctx, took)
	}
}

// next takes all available chunks, and waits for at least one; nil: no more follow. Chunks after a
// failure are dropped.
func (w *deltaWriter) next() []json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.changed.Broadcast()
	for len(w.queue) == 0 || w.lost != nil {
		w.queue, w.size = nil, 0
		select {
		case <-w.end:
			w.running = false
			return nil
		default:
			w.changed.Wait()
		}
	}
	chunks := w.queue
	w.queue, w.size = nil, 0
	return chunks
}

// rest pauses after a slow write to relieve the log, unless the answer is complete.
func (w *deltaWriter) rest(ctx context.Context, took time.Duration) {
	if took <= busy {
		return
	}
	timer := time.NewTimer(min(restFactor*took, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.end:
	case <-ctx.Done():
	}
}

// written handles the result of a write, and reports whether there may be another. A stop request
// does not prevent one: what arrived before it is kept.
func (w *deltaWriter) written(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, call.ErrStopped):
		w.err = err
	default:
		w.err, w.lost = err, err
	}
	return w.lost == nil
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

// write writes one delta event. The first is shown only after a barrier: once it is on the log, the
// answer is never started again.
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
