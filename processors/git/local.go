package git

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/schemas"
)

// commands are those of the push, of which there is one.
func (w *work) commands() gitwire.Commands {
	return gitwire.Commands{
		List:         []gitwire.Command{{Old: w.order.Old, New: w.order.New, Ref: w.order.Ref}},
		Capabilities: w.order.Capabilities,
	}
}

// local has this node's git take the push. Git is asked for once the pack has arrived, so that no turn waits for a
// client. The pack's end goes to git last: a task that ends before that has pushed nothing.
func (w *work) local(ctx context.Context) (ending, error) {
	spool, err := w.cfg.Hosted.Spool(w.repo.ID, w.st.Tenant)
	if err != nil {
		return refused(err), nil
	}
	defer spool.Close()
	p := w.open(ctx, false, spool) // git itself looks at the commits
	during, stop := w.watched(ctx)
	var rep gitwire.Report
	if err = p.arrive(); err == nil {
		rep, err = w.cfg.Hosted.ReceivePack(during, w.repo.ID, hosted.Push{
			ID: w.st.ID, Tenant: w.st.Tenant, Commands: w.commands(), Pack: io.MultiReader(spool.Reader(), p),
			Force: w.order.Force, Progress: w.progress,
		})
	}
	whole, cause := p.released(), p.failure()
	stop()
	switch {
	case err == nil:
		return w.reported(rep), nil
	case ctx.Err() != nil:
		return ending{}, ctx.Err() // whoever takes it up next asks the ref
	case whole:
		return w.fate(ctx)
	case cause != nil:
		return w.kept(cause), nil
	default:
		return refused(err), nil
	}
}

// refused is the end of a push of which git has not seen all.
func refused(err error) ending {
	switch {
	case errors.Is(err, hosted.ErrFull):
		return rejected("the repository is as large as it may be")
	case errors.Is(err, hosted.ErrNoRoom):
		return rejected(hosted.ErrNoRoom.Error() + "; push again when its operator has made some")
	case errors.Is(err, hosted.ErrSpool):
		return rejected(err.Error() + "; push again in a moment")
	case errors.Is(err, hosted.ErrBusy):
		return rejected("too many fetches and pushes are running; push again in a moment")
	case errors.Is(err, hosted.ErrNoRepo):
		return rejected("the repository's directory is not on this node; push to the node that has it, or bring it back")
	default:
		return rejected("git could not take the push; push again")
	}
}

// reported is the end of a push by git's word.
func (w *work) reported(rep gitwire.Report) ending {
	one, told := rep.Of(w.order.Ref)
	e := ending{outcome: schemas.OutcomeSucceeded, unpack: rep.Unpack}
	switch {
	case rep.Unpack != gitwire.UnpackOK && one.Reason == "":
		e = rejected(rep.Unpack)
	case one.Reason != "":
		e = rejected(explained(one.Reason, w.order.Force))
	case !told:
		e = rejected("git said nothing of the branch")
	}
	e.unpack = rep.Unpack
	return e
}

// explained adds to git's reason what would help.
func explained(reason string, force bool) string {
	if !force && strings.Contains(reason, "non-fast-forward") {
		return reason + ": fetch and merge, or have the task filed with force_push"
	}
	return reason
}

// quiet is how long what is left of a push may take to end.
const quiet = time.Minute

// fate finds out from the branch what became of a push whose worker, or whose body, is
// gone.
func (w *work) fate(ctx context.Context) (ending, error) {
	if done, err := w.tasks.knows(ctx, w.st, w.order); err != nil || done {
		return ending{outcome: schemas.OutcomeSucceeded, unpack: gitwire.UnpackOK}, err
	}
	asked, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	e, err := w.found(asked)
	switch {
	case err == nil:
		return e, nil
	case ctx.Err() != nil:
		return ending{}, ctx.Err()
	case w.late():
		return unknown("the push was interrupted, and the node that has the repository could not be asked; look at the branch before the push is made again"), nil
	default: // not this node's repository, or not now
		return ending{}, &fault.Later{After: 2 * time.Second, Cause: err}
	}
}

// found is what the branch says of a push. One that is at what was to be replaced was not
// updated: so it is looked at before what the branch has, which is what it was moved back
// from as well. Where others have pushed on since, the branch has what was pushed, unless
// that was dropped again, and it has nothing of what was not taken.
func (w *work) found(ctx context.Context) (ending, error) {
	const again = "the push was interrupted, and the branch was not updated; push again"
	o := w.order
	f, err := w.cfg.Hosted.Fate(ctx, w.repo.ID, w.st.ID, w.branch(), o.New)
	switch {
	case errors.Is(err, hosted.ErrNoRef):
		return unknown("the push was interrupted, and the branch is not there any more"), nil
	case err != nil:
		return ending{}, err
	case f.Head == o.New:
		return ending{outcome: schemas.OutcomeSucceeded, unpack: gitwire.UnpackOK}, nil
	case f.Head == o.Old, !f.Has && !o.Force:
		return failed(schemas.GitIncomplete, again), nil
	}
	if f.Has && o.Force { // it may have been part of what was there before
		before, err := w.cfg.Hosted.Fate(ctx, w.repo.ID, w.st.ID, w.branch(), o.Old)
		if err != nil {
			return ending{}, err
		}
		f.Has = !before.Has
	}
	if f.Has {
		return ending{outcome: schemas.OutcomeSucceeded, unpack: gitwire.UnpackOK}, nil
	}
	return unknown("the push was interrupted, and the branch was pushed to since; fetch, and look whether it has what was pushed"), nil
}

// late reports whether the push's own time is up.
func (w *work) late() bool {
	d := w.st.Action.Deadline
	return !d.IsZero() && !w.cfg.Now().Before(d)
}

func (w *work) branch() string { return strings.TrimPrefix(w.order.Ref, schemas.RefOf("")) }
