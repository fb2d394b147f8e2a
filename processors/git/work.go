package git

import (
	"context"
	"errors"
	"io"

	"weir/internal/fault"
	"weir/internal/handoff"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// work is one push. It belongs to one goroutine.
type work struct {
	*Pushes

	st    *ledger.State
	order schemas.PushOrder
	stop  call.Stop
	repo  schemas.Repo

	hand  handoff.Hand
	taken bool
	done  func() // this side's word that the hand is not needed any more
	pack  *pack
}

// perform works until it is known how the push ends. An error says when to come back.
func (w *work) perform(ctx context.Context) (ending, error) {
	if w.order.Denied != "" {
		return denied(w.order.Denied), nil
	}
	repo, err := w.cfg.Repos.Get(ctx, w.st.Tenant, w.order.Repo)
	if errors.Is(err, fault.ErrNotFound) {
		return rejected("the repository is not there any more"), nil
	} else if err != nil {
		return ending{}, err
	}
	if w.repo = repo; repo.Mode == schemas.RepoProxy {
		return w.remote(ctx)
	}
	if !w.take() {
		return w.fate(ctx)
	}
	if e, over := w.ended(ctx); over {
		return e, nil
	}
	return w.local(ctx)
}

// take takes the push's body, if nobody has before.
func (w *work) take() bool {
	if w.taken {
		return w.pack == nil
	}
	hand, done, ok := w.cfg.Hands.Take(w.st.Ref)
	if ok {
		w.hand, w.done, w.taken = hand, done, true
	}
	return ok
}

// letGo gives the body back, as soon as nobody reads it any more.
func (w *work) letGo() {
	if !w.taken {
		return
	}
	if w.pack != nil {
		w.pack.end()
	}
	w.done()
}

// open begins to read the pack, and to write it to spool unless that is nil. Builds: it is to be seen to build on
// what it is to replace.
func (w *work) open(ctx context.Context, builds bool, spool io.Writer) *pack {
	side := afterBoth(w.done)
	w.done = side
	w.pack = receive(w.hand.Body, w.cfg.Limits, builds, func() error {
		if line := w.pack.line; line != nil && !line.Builds(w.order.Old, w.order.New) {
			if !line.Whole() {
				return errCommits
			}
			return errRewinds
		}
		return w.lives(ctx)
	})
	w.pack.spool = spool
	w.pack.send(side)
	return w.pack
}

// lives is nil while the task's holder may push, and otherwise errOver, errStopped or
// the log's.
func (w *work) lives(ctx context.Context) error {
	if w.stop.Requested() || w.st.CancelRequested {
		return errStopped
	}
	return w.tasks.lives(ctx, w.st.Tenant, w.order)
}

// ended reports whether nothing is to be begun.
func (w *work) ended(ctx context.Context) (e ending, over bool) {
	if w.late() {
		return expired(), true
	}
	if err := w.lives(ctx); err != nil {
		return w.kept(err), true
	}
	return ending{}, false
}

// progress passes on what git says, once the client has said all that it has to: many
// read nothing before that.
func (w *work) progress(text []byte) {
	if w.pack.released() && w.hand.Progress != nil {
		w.hand.Progress(text)
	}
}

// watched is ctx for as long as the push may go on: until its time is up or, before
// its end is out, its task ends.
func (w *work) watched(ctx context.Context) (work context.Context, stop func()) {
	until := w.cfg.Now().Add(w.cfg.Timeout)
	if d := w.st.Action.Deadline; !d.IsZero() && d.Before(until) {
		until = d
	}
	work, cancel := context.WithDeadline(ctx, until)
	over, forget := w.cfg.Over(taskRef(w.st.Tenant, w.order.TaskID), w.order.Lease)
	left := make(chan struct{})
	go func() {
		defer close(left)
		defer forget()
		w.watch(work, over, cancel)
	}()
	return work, func() {
		cancel()
		<-left
	}
}

func (w *work) watch(ctx context.Context, over <-chan struct{}, cancel func()) {
	for {
		cause := errStopped
		select {
		case <-ctx.Done():
			w.pack.abort(context.Cause(ctx))
			return
		case <-w.stop.Done():
		case <-over:
			over = nil // it says so once, and may have been wrong
			if cause = w.tasks.lives(ctx, w.st.Tenant, w.order); cause == nil {
				continue
			}
		}
		if w.pack.abort(cause) {
			cancel()
		}
		return
	}
}

// afterBoth calls f when the func that it returns was called twice.
func afterBoth(f func()) func() {
	calls := make(chan struct{}, 1)
	calls <- struct{}{}
	return func() {
		select {
		case <-calls: // the first
		default:
			f()
		}
	}
}
