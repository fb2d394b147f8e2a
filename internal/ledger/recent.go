package ledger

import (
	"context"
	"slices"
	"sync"

	"weir/schemas"
)

// recent keeps the states of tasks with output: every request with a task's token loads its task, and
// would otherwise read all the output again. It keeps no output.
type recent struct {
	mu     sync.Mutex
	states map[schemas.Ref]*State // none is changed, or used by a caller
}

// A state is kept from minOutput pieces on, of at most maxRecent tasks.
const (
	minOutput = 8
	maxRecent = 512
)

// base is the state to load an action from: a kept one, or an empty one. A kept one whose first event the
// stream has dropped does not count.
func (l *Ledger) base(ctx context.Context, ref schemas.Ref) *State {
	l.recent.mu.Lock()
	kept := l.recent.states[ref]
	l.recent.mu.Unlock()
	if kept != nil {
		if first, _, err := l.log.Bounds(ctx, l.stream(ref)); err == nil && first <= kept.Events[0].Seq {
			return kept.copy()
		}
	}
	return &State{Ref: ref}
}

// keep keeps a state that was loaded.
func (r *recent) keep(st *State) {
	if st.Kind != schemas.KindTask || st.Progress < minOutput {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch kept := r.states[st.Ref]; {
	case st.Settled != nil || st.Damaged != nil:
		delete(r.states, st.Ref)
		return
	case kept != nil && kept.Seq >= st.Seq:
		return
	case kept == nil && len(r.states) >= maxRecent:
		for other := range r.states { // any: the next load keeps it again
			delete(r.states, other)
			break
		}
	}
	r.states[st.Ref] = st.copy()
}

// copy is a state of its own. Events and results are never changed in place.
func (s *State) copy() *State {
	c := *s
	c.Events, c.Attempts = slices.Clone(s.Events), slices.Clone(s.Attempts)
	return &c
}
