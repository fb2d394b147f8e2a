package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// still ends a sentence.
const still = "; the branch was not updated"

// ending is the end of a push that had no effect, by why. A sentence that begins with a semicolon follows the cause's own.
type ending struct {
	cause error
	code  schemas.Code
	says  string
}

// causes are why a pack's end is kept back.
func causes() []ending {
	return []ending{
		{errOver, schemas.Canceled, still},
		{errStopped, schemas.Canceled, still},
		{errBranch, schemas.GitRefDenied, ";"},
		{errRewinds, schemas.GitRejected, ";"},
		{errCommits, schemas.GitRejected, ";"},
		{errMany, schemas.GitRejected, ";"},
		{context.DeadlineExceeded, schemas.GitIncomplete, "the push took longer than it may" + still},
		{gitwire.ErrTooLarge, schemas.GitPackTooLarge, "the pack, or what it unpacks to, is larger than is allowed; push less at a time"},
		{gitwire.ErrMalformed, schemas.GitIncomplete, "the pack is broken" + still + "; push again"},
		{errSlip, schemas.GitIncomplete, still},
		{errLook, schemas.Unavailable, "the task could not be looked at" + still + "; push again"},
	}
}

// refusals are why this node's git does not take a push, or not its pack.
func refusals() []ending {
	return []ending{
		{hosted.ErrFull, schemas.GitRejected, "the repository is as large as it may be"},
		{hosted.ErrDiskFull, schemas.GitRejected, hosted.ErrDiskFull.Error() + "; push again when its operator has made some"},
		{hosted.ErrSpool, schemas.GitRejected, "; push again in a moment"},
		{hosted.ErrBusy, schemas.GitRejected, "too many fetches and pushes are running; push again in a moment"},
		{hosted.ErrNoRepo, schemas.GitRejected, "the repository's directory is not on this node; push to the node that has it, or bring it back"},
	}
}

// endBy is the end by one of these, and else another.
func endBy(err error, otherwise settle.Outcome, lists ...[]ending) settle.Outcome {
	for _, e := range slices.Concat(lists...) {
		if !errors.Is(err, e.cause) {
			continue
		}
		if strings.HasPrefix(e.says, ";") {
			e.says = strings.TrimSuffix(err.Error()+e.says, ";")
		}
		return end(e.code, e.says)
	}
	return otherwise
}

// kept is the end of a push whose last bytes were not sent, so that it had no effect.
func (w *work) kept(cause error) settle.Outcome {
	if errors.Is(cause, context.DeadlineExceeded) && w.late() {
		return expired()
	}
	// Else it is the client's end, or the connection's.
	gone := end(schemas.GitIncomplete, "the pack ended before it was whole"+still+"; push again")
	return endBy(cause, gone, causes(), refusals())
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
