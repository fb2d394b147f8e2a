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

// pushEnd is how a push came out.
type pushEnd struct {
	outcome schemas.Outcome
	code    schemas.Code // empty where the branch was updated
	// reason is a sentence for a person.
	reason string
	// unpack is git's word on the objects.
	unpack string
}

func failed(code schemas.Code, reason string) pushEnd {
	return pushEnd{outcome: schemas.OutcomeFailed, code: code, reason: reason}
}

// rejected is the end of a push that git, or the upstream, did not take.
func rejected(reason string) pushEnd { return failed(schemas.GitRejected, reason) }

func denied(reason string) pushEnd {
	return pushEnd{outcome: schemas.OutcomeDenied, code: schemas.GitRefDenied, reason: reason}
}

func canceled(reason string) pushEnd {
	return pushEnd{outcome: schemas.OutcomeCanceled, code: schemas.Canceled, reason: reason}
}

func expired() pushEnd {
	return pushEnd{outcome: schemas.OutcomeExpired, code: schemas.DeadlineExceeded, reason: "the push took longer than it may, and the branch was not updated"}
}

func unknown(reason string) pushEnd {
	return pushEnd{outcome: schemas.OutcomeUnknown, code: schemas.OutcomeUnknownCode, reason: reason}
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
func (w *work) kept(cause error) pushEnd {
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
	case errors.Is(cause, hosted.ErrNoRoom), errors.Is(cause, hosted.ErrSpool):
		return refused(cause)
	case errors.Is(cause, errLook):
		return failed(schemas.Unavailable, "the task could not be looked at"+still+"; push again")
	default: // the client's end, or the connection's
		return failed(schemas.GitIncomplete, "the pack ended before it was whole"+still+"; push again")
	}
}

// verdict is the end as the action's.
func (w *work) verdict(e pushEnd) settle.Outcome {
	o := w.order
	return settle.Outcome{Outcome: e.outcome, Code: e.code, Message: e.reason, Result: schemas.PushResult{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Unpack: e.unpack, Reason: e.reason,
		Bytes: w.size.Load(), Report: o.Report, SideBand: o.SideBand,
	}}
}

// pushID follows an action's id in the id of the record of its push.
const pushID = ".push"

// evidence is the record of the push.
func (w *work) evidence(e pushEnd) (schemas.Evidence, error) {
	o := w.order
	doc, err := ledger.Encode(schemas.PushAudit{
		Repo: o.Repo, Ref: o.Ref, Old: o.Old, New: o.New, TaskID: o.TaskID, Lease: o.Lease, Agent: o.Holder,
		Result: cmp.Or(string(e.code), schemas.AuditOK), Mode: w.repo.Mode, Bytes: w.size.Load(),
		Duration: w.cfg.Now().Sub(w.st.Action.AcceptedAt).Milliseconds(),
	})
	return schemas.Evidence{
		ID: w.st.ID + pushID, Tenant: w.st.Tenant, ActionID: w.st.ID, Kind: schemas.EvidencePush, Code: e.code, Payload: doc,
	}, err
}
