package tasks

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// checkHolder takes the task back from a holder that was silent for too long, and else rests
// until it will have been.
func (w *work) checkHolder(ctx context.Context) error {
	at, revision, err := w.lastHeartbeat(ctx)
	if err != nil {
		return err
	}
	silent := w.holders.silent(w.st.Ref, sign{lease: w.task.Lease, revision: revision}, w.cfg.Now().Sub(at))
	// A sign of life is not written down more often than so: the holder may have been
	// heard of as much later.
	patience := w.cfg.Lease + w.cfg.Lease/schemas.LeaseShare
	if silent < patience {
		return w.deferral(patience-silent, schemas.WaitAgent)
	}
	return w.say(ctx, schemas.TaskEvent{
		What: schemas.TaskLost, Status: schemas.TaskStatusQueued, Lease: w.task.Lease, Holder: w.task.Holder,
	})
}

// lastHeartbeat is when the holder was last heard of: by the record of its lease, or if there
// is none when it took the task. The revision is another whenever it is heard of.
func (w *work) lastHeartbeat(ctx context.Context) (at time.Time, revision uint64, err error) {
	rec, err := w.cfg.Leases.Get(ctx, task.LeaseKey(w.st.Ref, w.task.Lease))
	switch {
	case errors.Is(err, fault.ErrNotFound): // no heartbeat in this lease yet
		return w.task.Since, 0, nil
	case err != nil:
		return at, 0, &fault.RetryAfter{Cause: err}
	}
	return rec.Time, rec.Seq, nil
}

// holders remembers, by this process's own clock, the time of the last sign of life of a task's
// holder. The clocks of other machines may differ or jump, so times measured here take precedence.
type holders struct {
	keep time.Duration

	mu    sync.Mutex
	of    map[schemas.Ref]seen
	swept time.Time
}

type sign struct {
	lease    int
	revision uint64
}

type seen struct {
	sign

	at  time.Time     // when it was first looked at, with the monotonic clock
	age time.Duration // how old it was then, as far as the clocks could say
}

func newHolders(lease time.Duration) *holders {
	return &holders{keep: 2 * lease, of: map[schemas.Ref]seen{}}
}

// silent is for how long there has been no sign after s, which is of an age as the
// clocks say.
func (h *holders) silent(ref schemas.Ref, s sign, age time.Duration) time.Duration {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.of[ref]; ok && was.sign == s {
		return was.age + now.Sub(was.at)
	}
	age = max(age, 0)
	h.of[ref] = seen{sign: s, at: now, age: age}
	if now.Sub(h.swept) > h.keep { // others look after some tasks by now
		maps.DeleteFunc(h.of, func(_ schemas.Ref, was seen) bool { return now.Sub(was.at) > h.keep })
		h.swept = now
	}
	return age
}

func (h *holders) forget(ref schemas.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, ref)
}
