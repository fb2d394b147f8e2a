package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/settle"
	"weir/schemas"
)

func failed(code schemas.Code, reason string) settle.Outcome {
	return settle.Outcome{Outcome: schemas.OutcomeFailed, Code: code, Message: reason}
}

// succeeded is the end of a push with git's result for its objects.
func (w *work) succeeded(unpack string) settle.Outcome {
	w.unpack = unpack
	return settle.Outcome{Outcome: schemas.OutcomeSucceeded}
}

// rejected is the end of a push that git, or the upstream, refused.
func rejected(reason string) settle.Outcome { return failed(schemas.GitRejected, reason) }

func denied(reason string) settle.Outcome {
	return settle.Outcome{Outcome: schemas.OutcomeDenied, Code: schemas.GitRefDenied, Message: reason}
}

func canceled(reason string) settle.Outcome {
	return settle.Outcome{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled, Message: reason}
}

func expired() settle.Outcome {
	return settle.Outcome{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded, Message: "the push took longer than it may, and the branch was not updated"}
}

func unknown(reason string) settle.Outcome {
	return settle.Outcome{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode, Message: reason}
}

// Why a pack's end is kept back, beside what is wrong with the pack itself.
var (
	errOver    = errors.New("the task has ended, or its lease was lost")
	errStopped = errors.New("the push was canceled")
	errMany    = fmt.Errorf("the task's branch was pushed to %d times, which is the most; report how the task ended, and have another one filed for the rest", schemas.MaxTaskPushes)
	errBranch  = errors.New("the branch is not the task's")
	errCommits = errors.New("the push has more commits than can be looked at, to see that it builds on what the branch is at; " +
		"push fewer of them at a time, or have the task filed with force_push")
	errRewinds = errors.New("the push is not seen to build on what the branch is at, by its own commits; " +
		"fetch, merge with a commit (git merge --no-ff), and push again, or have the task filed with force_push")
)

// kept is the end of a push whose last bytes were not sent, so that it had no effect.
func (w *work) kept(cause error) settle.Outcome {
	const still = "; the branch was not updated"
	switch {
	case errors.Is(cause, errOver), errors.Is(cause, errStopped):
		return canceled(cause.Error() + still)
	case errors.Is(cause, errBranch):
		return denied(cause.Error())
	case errors.Is(cause, errRewinds), errors.Is(cause, errCommits), errors.Is(cause, errMany):
		return rejected(cause.Error())
	case errors.Is(cause, context.DeadlineExceeded) && w.late():
		return expired()
	case errors.Is(cause, context.DeadlineExceeded):
		return failed(schemas.GitIncomplete, "the push took longer than it may"+still)
	case errors.Is(cause, gitwire.ErrTooLarge):
		return failed(schemas.GitPackTooLarge, "the pack, or what it unpacks to, is larger than is allowed; push less at a time")
	case errors.Is(cause, gitwire.ErrMalformed):
		return failed(schemas.GitIncomplete, "the pack is broken"+still+"; push again")
	case errors.Is(cause, errSlip):
		return failed(schemas.GitIncomplete, cause.Error()+still)
	case errors.Is(cause, hosted.ErrDiskFull), errors.Is(cause, hosted.ErrSpool):
		return refused(cause)
	case errors.Is(cause, errLook):
		return failed(schemas.Unavailable, "the task could not be looked at"+still+"; push again")
	default: // the client's end, or the connection's
		return failed(schemas.GitIncomplete, "the pack ended before it was whole"+still+"; push again")
	}
}

func (w *work) result(e settle.Outcome) schemas.PushResult {
	o := w.order
	return schemas.PushResult{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Unpack: w.unpack, Reason: e.Message,
		Bytes: w.size.Load(),
	}
}

// pushID follows an action's id in the id of the record of its push.
const pushID = ".push"

func (w *work) evidence(e settle.Outcome) (schemas.Evidence, error) {
	o := w.order
	doc, err := ledger.Encode(schemas.PushAudit{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Lease: o.Lease, Agent: o.Holder,
		Result: cmp.Or(string(e.Code), schemas.AuditOK), Mode: w.repo.Mode, Bytes: w.size.Load(),
		Duration: w.cfg.Now().Sub(w.st.Action.AcceptedAt).Milliseconds(),
	})
	return schemas.Evidence{
		ID: w.st.ID + pushID, Tenant: w.st.Tenant, ActionID: w.st.ID, Kind: schemas.EvidencePush, Code: e.Code, Payload: doc,
	}, err
}
