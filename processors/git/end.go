package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

// end is how an action ends that did not succeed: the code says which way.
func end(code schemas.Code, reason string) settle.Outcome {
	e := settle.Outcome{Outcome: schemas.OutcomeFailed, Code: code, Message: reason}
	switch {
	case code.Denied(), code == schemas.GitRefDenied:
		e.Outcome = schemas.OutcomeDenied
	case code == schemas.Canceled:
		e.Outcome = schemas.OutcomeCanceled
	case code == schemas.DeadlineExceeded:
		e.Outcome = schemas.OutcomeExpired
	case code == schemas.OutcomeUnknownCode:
		e.Outcome = schemas.OutcomeUnknown
	}
	return e
}

// rejected is the end of a push that git, or the upstream, refused.
func rejected(reason string) settle.Outcome { return end(schemas.GitRejected, reason) }

func expired() settle.Outcome {
	return end(schemas.DeadlineExceeded, "the push took longer than it may, and the branch was not updated")
}

// succeeded is the end of a push with git's result for its objects.
func (w *work) succeeded(unpack string) settle.Outcome {
	w.unpack = unpack
	return settle.Outcome{Outcome: schemas.OutcomeSucceeded}
}

// still ends a sentence.
const still = "; the branch was not updated"

// Why a pack's end is kept back, beside what is wrong with the pack itself.
var (
	errOver    error = fault.New(schemas.Canceled, "the task has ended, or its lease was lost"+still)
	errStopped error = fault.New(schemas.Canceled, "the push was canceled"+still)
	errLook    error = fault.New(schemas.Unavailable, "the task could not be looked at"+still+"; push again")
	// errSlip: the reading of a pack has panicked. A client may send anything.
	errSlip   error = fault.New(schemas.GitIncomplete, "the pack cannot be read here"+still)
	errBranch error = fault.New(schemas.GitRefDenied, "the branch is not the task's")
	errMany   error = fault.New(schemas.GitRejected, fmt.Sprintf(
		"the task's branch was pushed to %d times, which is the most; report how the task ended, and have another one filed for the rest", schemas.MaxTaskPushes))
	errCommits error = fault.New(schemas.GitRejected, "the push has more commits than can be looked at, to see that it builds on what the branch is at; "+
		"push fewer of them at a time, or have the task filed with force_push")
	errRewinds error = fault.New(schemas.GitRejected, "the push is not seen to build on what the branch is at, by its own commits; "+
		"fetch, merge with a commit (git merge --no-ff), and push again, or have the task filed with force_push")
)

// kept is the end of a push whose last bytes were not sent, so that it had no effect.
func (w *work) kept(cause error) settle.Outcome {
	said, known := errors.AsType[*fault.Error](cause)
	switch {
	case errors.Is(cause, context.DeadlineExceeded) && w.late():
		return expired()
	case errors.Is(cause, context.DeadlineExceeded):
		return end(schemas.GitIncomplete, "the push took longer than it may"+still)
	case known:
		return end(said.Code, said.Message)
	case errors.Is(cause, gitwire.ErrTooLarge):
		return end(schemas.GitPackTooLarge, "the pack, or what it unpacks to, is larger than is allowed; push less at a time")
	case errors.Is(cause, gitwire.ErrMalformed):
		return end(schemas.GitIncomplete, "the pack is broken"+still+"; push again")
	}
	// Else it is the client's end, or the connection's.
	return refused(cause, end(schemas.GitIncomplete, "the pack ended before it was whole"+still+"; push again"))
}

// refused is the end of a push that this node's git does not take, or whose pack this node does not.
func refused(err error, otherwise settle.Outcome) settle.Outcome {
	for _, known := range []struct {
		err  error
		says string
	}{
		{hosted.ErrFull, "the repository is as large as it may be"},
		{hosted.ErrDiskFull, hosted.ErrDiskFull.Error() + "; push again when its operator has made some"},
		{hosted.ErrSpool, err.Error() + "; push again in a moment"},
		{hosted.ErrBusy, "too many fetches and pushes are running; push again in a moment"},
		{hosted.ErrNoRepo, "the repository's directory is not on this node; push to the node that has it, or bring it back"},
	} {
		if errors.Is(err, known.err) {
			return rejected(known.says)
		}
	}
	return otherwise
}

func (w *work) result(e settle.Outcome) schemas.PushResult {
	o := w.order
	return schemas.PushResult{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Unpack: w.unpack, Reason: e.Message,
		Bytes: w.size.Load(),
	}
}

func (w *work) audit(e settle.Outcome) schemas.PushAudit {
	o := w.order
	return schemas.PushAudit{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Lease: o.Lease, Agent: o.Holder,
		Result: cmp.Or(string(e.Code), schemas.AuditOK), Mode: w.repo.Mode, Bytes: w.size.Load(),
		Duration: w.cfg.Now().Sub(w.st.Action.AcceptedAt).Milliseconds(),
	}
}

// record leaves the record of an action's end. name follows the action's id in the record's.
func (c Config) record(ctx context.Context, st *ledger.State, name, kind string, code schemas.Code, audit any) error {
	doc, err := ledger.Encode(audit)
	if err != nil {
		return err
	}
	return c.Recorder.Store(ctx, st, schemas.Evidence{
		ID: st.ID + name, Tenant: st.Tenant, ActionID: st.ID, Kind: kind, Code: code, Payload: doc,
	})
}
