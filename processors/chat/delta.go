package chat

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

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
	busy         = 3 * time.Millisecond
	pauseFactor  = 2
	longestPause = 50 * time.Millisecond
)

// deltaWriter writes the chunks of one answer to the log, in a goroutine of its own: while it
// writes some the next ones gather, and are written together. So an answer that the log
// keeps up with is one event a chunk, and one that it does not has fewer. Behind an event
// that took the log long it pauses, so that more gather: hundreds of answers that each
// append as soon as they can would keep a log as busy as it is. Between the first put and
// the end of close the action's state is the writer's.
type deltaWriter struct {
	write func(ctx context.Context, chunks [][]byte) error

	capacity *semaphore.Weighted // bytes of the queue
	more     chan struct{}       // something was queued
	end      chan struct{}       // no more comes
	start    sync.Once
	done     chan struct{} // the goroutine has returned

	mu    sync.Mutex
	queue [][]byte
	err   error // why nothing more is taken
	lost  error // why not all is on the log
}

func (w *work) newDeltaWriter() *deltaWriter {
	return &deltaWriter{
		write: w.write, capacity: semaphore.NewWeighted(backlog), more: make(chan struct{}, 1),
		end: make(chan struct{}), done: make(chan struct{}),
	}
}

// weight is how much of the backlog a chunk takes. One that is larger waits until nothing else does.
func weight(chunk []byte) int64 { return int64(min(len(chunk), backlog)) }

// put takes the next chunk, and waits while there is no room for it. It is called by one
// goroutine. Its errors are *fault.Call.
func (w *deltaWriter) put(ctx context.Context, chunk json.RawMessage) error {
	var late error
	if !w.capacity.TryAcquire(weight(chunk)) {
		late = w.capacity.Acquire(ctx, weight(chunk))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case late != nil:
		return call.CutOff(late)
	}
	w.queue = append(w.queue, chunk)
	w.start.Do(func() { go w.run(ctx) })
	select {
	case w.more <- struct{}{}:
	default:
	}
	return nil
}

// close returns once all that was taken is on the log, or known not to get there. A
// request to stop does not keep it from that. It is called once.
func (w *deltaWriter) close(context.Context) error {
	close(w.end)
	w.start.Do(func() { close(w.done) })
	<-w.done
	return w.lost
}

func (w *deltaWriter) run(ctx context.Context) {
	defer close(w.done)
	for over := false; !over; {
		select {
		case <-w.more:
		case <-w.end:
			over = true
		}
		w.pause(ctx, w.flush(ctx))
	}
}

// flush writes all that is queued, in as few events as it fits into, and returns how long that took.
// After a failure it drops the rest; a stop request is none: what arrived before it is kept.
func (w *deltaWriter) flush(ctx context.Context) (took time.Duration) {
	w.mu.Lock()
	chunks := w.queue
	w.queue = nil
	w.mu.Unlock()
	for _, c := range chunks {
		w.capacity.Release(weight(c))
	}
	for len(chunks) > 0 && w.lost == nil {
		n, size := 1, len(chunks[0])
		for n < len(chunks) && size+len(chunks[n]) <= eventSize {
			size += len(chunks[n])
			n++
		}
		start := time.Now()
		if err := w.write(ctx, chunks[:n]); err != nil {
			w.mu.Lock()
			if w.err = err; !errors.Is(err, call.ErrStopped) {
				w.lost = err
			}
			w.mu.Unlock()
		}
		took += time.Since(start)
		chunks = chunks[n:]
	}
	return took
}

// pause pauses after a slow write to relieve the log, unless the answer is complete.
func (w *deltaWriter) pause(ctx context.Context, took time.Duration) {
	if took <= busy {
		return
	}
	timer := time.NewTimer(min(pauseFactor*took, longestPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.end:
	case <-ctx.Done():
	}
}

// write writes one delta event. The first is shown only after a barrier: once it is on the log, the
// answer is never started again.
func (w *work) write(ctx context.Context, chunks [][]byte) error {
	return call.Relay(ctx, w.ledger, w.st, schemas.Event{Type: schemas.EventDelta, First: !w.given(), Data: delta(chunks)})
}

// delta is a ChatDelta, without reading its chunks once more.
func delta(chunks [][]byte) json.RawMessage {
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
