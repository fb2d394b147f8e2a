package git

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// work is one push. It belongs to one goroutine.
type work struct {
	*Pushes

	st    *ledger.State
	order schemas.PushOrder
	stop  call.Stop
	repo  schemas.Repo

	upload *githttp.Upload // nil: it is not here
	spool  *hosted.Spool   // the pack; nil: none was received
	size   atomic.Int64    // of what was received of it
	unpack string          // git's result for the objects

	// during ends, with its cause, when the push must not go on, its task's end included until the end of the pack
	// goes out: unwatch stops the look at that.
	during   context.Context //nolint:containedctx // it is one push's, and ends with it
	cancel   context.CancelCauseFunc
	unwatch  func()
	released atomic.Bool // the end of the pack goes out
}

// execute works until it is known how the push ends. An error says when to come back.
func (w *work) execute(ctx context.Context) (settle.Outcome, error) {
	if w.order.Denied != "" {
		return end(schemas.GitRefDenied, w.order.Denied), nil
	}
	repo, err := w.cfg.Repos.Get(ctx, w.st.Tenant, w.order.Repo)
	if errors.Is(err, fault.ErrNotFound) {
		return rejected("the repository is not there any more"), nil
	} else if err != nil {
		return settle.Outcome{}, err
	}
	w.repo = repo
	w.upload = githttp.TakeUpload(ctx)
	proxied := repo.Mode == schemas.RepoProxy
	switch {
	case proxied && len(w.st.Attempts) > 0: // the log may hold how it ended
		return w.remote(ctx)
	case proxied && w.upload == nil:
		return unsent(), nil
	case w.upload == nil:
		return w.recoverOutcome(ctx)
	case w.late():
		return expired(), nil
	}
	if err := w.lives(ctx); err != nil {
		return w.kept(err), nil
	}
	w.spool = w.cfg.Spools.New(w.st.Tenant)
	defer w.spool.Close()
	during, stop := w.watch(ctx)
	defer stop()
	err = w.upload.Receive(during, w.receive)
	switch {
	case ctx.Err() != nil:
		return settle.Outcome{}, ctx.Err()
	case err != nil:
		return w.kept(cmp.Or(context.Cause(during), err)), nil
	case proxied:
		return w.remote(ctx)
	}
	return w.local(ctx, during)
}

// receive reads the pack, and checks it. Git itself sees to it that a push to this node drops
// nothing, and what an upstream lets be dropped is its own affair: so the commits of a push to an
// upstream must be seen to build on what they replace, unless the push is forced.
func (w *work) receive(body io.Reader) (err error) {
	defer func() {
		if recover() != nil {
			err = errSlip
		}
	}()
	var line *gitwire.Lineage
	if w.repo.Mode == schemas.RepoProxy && !w.order.Force {
		line = gitwire.NewLineage()
	}
	_, err = gitwire.ReadPack(io.TeeReader(body, w), w.cfg.Limits, line)
	switch {
	case err != nil || line == nil || line.Builds(w.order.Old, w.order.New):
		return err
	case !line.Whole():
		return errCommits
	}
	return errRewinds
}

// Write spools a piece of the pack.
func (w *work) Write(b []byte) (int, error) {
	w.size.Add(int64(len(b)))
	return w.spool.Write(b)
}

// heldBack is the part of a pack that is sent only after everything else about its push is
// verified: its checksum, without which git rejects the pack.
const heldBack = 20

// pack reads the received pack. Before its end, it looks at the task once more.
func (w *work) pack(ctx context.Context) io.Reader {
	all := w.spool.Reader()
	begin := max(all.Size()-heldBack, 0)
	look := readerFunc(func([]byte) (int, error) { return 0, cmp.Or(w.release(ctx), io.EOF) })
	return io.MultiReader(io.NewSectionReader(all, 0, begin), look, io.NewSectionReader(all, begin, heldBack))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// release lets the end of the pack go out, or returns why not.
func (w *work) release(ctx context.Context) error {
	if err := w.lives(ctx); err != nil {
		w.cancel(err)
	}
	w.unwatch()
	cause := context.Cause(w.during) //nolint:contextcheck // it is this push's
	w.released.Store(cause == nil)
	return cause
}

// ended reports whether the end of the pack has gone out, and why not.
func (w *work) ended() (released bool, cause error) {
	if w.released.Load() {
		return true, nil
	}
	return false, context.Cause(w.during)
}

// lives is nil while the task's holder may push, and otherwise errOver, errStopped or
// the log's.
func (w *work) lives(ctx context.Context) error {
	if w.stop.Requested() || w.st.CancelRequested {
		return errStopped
	}
	return w.mayPush(ctx, w.st.Tenant, w.order)
}

func (w *work) late() bool {
	d := w.st.Action.Deadline
	return !d.IsZero() && !w.cfg.Now().Before(d)
}

// progress passes on what git says, once the client has said all that it has to: many
// read nothing before that.
func (w *work) progress(text []byte) {
	if w.released.Load() && w.upload != nil && w.upload.Progress != nil {
		w.upload.Progress(text)
	}
}

// watch has during last for as long as the push may go on: until its time is up or, before
// its end is out, its task ends.
func (w *work) watch(ctx context.Context) (during context.Context, stop func()) {
	until := w.cfg.Now().Add(w.cfg.Timeout)
	if d := w.st.Action.Deadline; !d.IsZero() && d.Before(until) {
		until = d
	}
	limited, free := context.WithDeadline(ctx, until)
	during, w.cancel = context.WithCancelCause(limited)
	w.during = during
	over, forget := w.cfg.Over(taskRef(w.st.Tenant, w.order.TaskID), w.order.Lease)
	looking, quit := context.WithCancel(during)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer forget()
		for {
			select {
			case <-looking.Done():
				return
			case <-w.stop.Done():
				w.cancel(errStopped)
			case <-over:
				over = nil // it says so once, and may have been wrong
				if cause := w.mayPush(during, w.st.Tenant, w.order); cause != nil {
					w.cancel(cause)
				}
			}
		}
	})
	w.unwatch = func() { quit(); watching.Wait() }
	return during, func() {
		w.unwatch()
		w.cancel(nil)
		free()
	}
}

func (w *work) command() gitwire.Command {
	return gitwire.Command{Old: w.order.Old, New: w.order.New, Ref: w.order.Ref}
}

// local has this node's git take the push. Git is asked for once the pack has arrived, so that no turn waits for a
// client. The pack's end goes to git last: a task that ends before that has pushed nothing.
func (w *work) local(ctx, during context.Context) (settle.Outcome, error) {
	rep, err := w.cfg.Hosted.ReceivePack(during, w.repo.ID, hosted.Push{
		Tenant: w.st.Tenant, Command: w.command(), Capabilities: w.order.Capabilities, Pack: w.pack(during), Force: w.order.Force, Progress: w.progress,
	})
	released, cause := w.ended()
	switch {
	case err == nil:
		return w.reported(rep), nil
	case ctx.Err() != nil:
		return settle.Outcome{}, ctx.Err() // the next worker asks the ref
	case released:
		return w.recoverOutcome(ctx)
	case cause != nil:
		return w.kept(cause), nil
	default:
		return refused(err, rejected("git could not take the push; push again")), nil
	}
}

func (w *work) reported(rep gitwire.Report) settle.Outcome {
	if rep.Reason == "" {
		return w.succeeded(rep.Unpack)
	}
	w.unpack = rep.Unpack
	return rejected(explained(rep.Reason, w.order.Force))
}

func explained(reason string, force bool) string {
	if !force && strings.Contains(reason, "non-fast-forward") {
		return reason + ": fetch and merge, or have the task filed with force_push"
	}
	return reason
}

// quiet is how long what is left of a push may take to end.
const quiet = time.Minute

// recoverOutcome derives from the branch the result of a push whose worker, or whose body, is gone.
func (w *work) recoverOutcome(ctx context.Context) (settle.Outcome, error) {
	if done, err := w.knows(ctx, w.st, w.order); err != nil || done {
		return w.succeeded(gitwire.UnpackOK), err
	}
	asked, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	e, err := w.found(asked)
	switch {
	case err == nil:
		return e, nil
	case ctx.Err() != nil:
		return settle.Outcome{}, ctx.Err()
	case w.late():
		return end(schemas.OutcomeUnknownCode, "the push was interrupted, and the node that has the repository could not be reached; look at the branch before the push is made again"), nil
	default: // not this node's repository, or not now
		return settle.Outcome{}, &fault.RetryAfter{After: 2 * time.Second, Cause: err}
	}
}

// found derives the result of a push from the branch. A branch at the old object was not updated.
// This is checked before the branch's history, because a branch that was reset to the old object
// also has it in its history. If others have pushed since, the history contains the pushed object
// if the push was accepted, unless it was dropped again.
func (w *work) found(ctx context.Context) (settle.Outcome, error) {
	const again = "the push was interrupted, and the branch was not updated; push again"
	o := w.order
	f, err := w.cfg.Hosted.PushState(ctx, w.repo.ID, w.branch(), o.New)
	switch {
	case errors.Is(err, hosted.ErrNoRef):
		return end(schemas.OutcomeUnknownCode, "the push was interrupted, and the branch is not there any more"), nil
	case err != nil:
		return settle.Outcome{}, err
	case f.Head == o.New:
		return w.succeeded(gitwire.UnpackOK), nil
	case f.Head == o.Old, !f.Has && !o.Force:
		return end(schemas.GitIncomplete, again), nil
	}
	if f.Has && o.Force { // it may have been part of what was there before
		before, err := w.cfg.Hosted.PushState(ctx, w.repo.ID, w.branch(), o.Old)
		if err != nil {
			return settle.Outcome{}, err
		}
		f.Has = !before.Has
	}
	if f.Has {
		return w.succeeded(gitwire.UnpackOK), nil
	}
	return end(schemas.OutcomeUnknownCode, "the push was interrupted, and the branch was pushed to since; fetch, and look whether it has what was pushed"), nil
}

func (w *work) branch() string { return strings.TrimPrefix(w.order.Ref, schemas.RefOf("")) }
