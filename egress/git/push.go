package git

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// Push answers for a push that has ended. What git said, and a refusal of the update,
// is a 200 that git shows to the person; the rest has a status of its own, unless the
// answer has begun already.
func Push(w http.ResponseWriter, r *http.Request, s *schemas.Settled, doc json.RawMessage) {
	var res schemas.PushResult
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &res); err != nil {
			Refuse(w, r, err)
			return
		}
	}
	a, ok := w.(*githttp.Answer)
	if !ok {
		Refuse(w, r, errNotAnswer)
		return
	}
	res.Ref, res.Report, res.SideBand = a.Ref, a.Asked.Report, a.SideBand // an end that is not git's has no document
	if body, ok := said(s, res); ok {
		a.Report(body)
		return
	}
	err := refusal(s, res)
	if e := problem.Of(err); problem.FromGit(r) { // of any other status git shows its number alone
		if body, ok := rejected(res, e.Detail+" ("+string(e.Code)+")", false); ok {
			a.Report(body)
			return
		}
	}
	Refuse(w, r, err)
}

var errNotAnswer = errors.New("the answer to a push is a githttp.Answer")

// Refuse answers a push that ended without a report of git: with a status or, if it is too late for
// that, on the error band. An answer begins early only for a client with that band.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if a, ok := w.(*githttp.Answer); ok && a.Close() {
		e := problem.Of(err)
		a.Report(gitwire.AppendFatal(nil, cmp.Or(e.Detail, e.Title)+" ("+string(e.Code)+")"))
		return
	}
	githttp.Refuse(w, r, func() { problem.WriteGit(w, r, err) })
}

// said is what git's client reads of an end, if it can read it at all.
func said(s *schemas.Settled, res schemas.PushResult) (body []byte, ok bool) {
	switch {
	case s.Outcome == schemas.OutcomeSucceeded:
		return accepted(res), true
	case s.Outcome == schemas.OutcomeFailed && s.Code == schemas.GitRejected:
		return rejected(res, message(s, res), res.Report)
	case s.Outcome == schemas.OutcomeDenied:
		return rejected(res, message(s, res)+" ("+string(code(s))+")", false)
	case s.Outcome == schemas.OutcomeUnknown:
		return rejected(res, message(s, res), false)
	default:
		return nil, false
	}
}

func accepted(res schemas.PushResult) []byte {
	switch {
	case res.Report:
		return gitwire.AppendReport(nil, gitwire.Report{Unpack: gitwire.UnpackOK, Refs: []gitwire.RefReport{{Ref: res.Ref}}}, res.SideBand)
	case res.SideBand:
		return []byte(gitwire.Flush)
	default:
		return nil
	}
}

// rejected is why the ref was not updated: as git's report, or else on the band for
// what ends a push. A client with neither takes any 200 for a success.
func rejected(res schemas.PushResult, reason string, own bool) ([]byte, bool) {
	switch {
	case res.SideBand && (!own || !res.Report):
		return gitwire.AppendFatal(nil, reason), true
	case res.Report:
		return gitwire.AppendReport(nil, gitwire.Report{
			Unpack: cmp.Or(res.Unpack, gitwire.UnpackOK), Refs: []gitwire.RefReport{{Ref: res.Ref, Reason: reason}},
		}, res.SideBand), true
	default:
		return nil, false
	}
}

// refusal is the public error of an end.
func refusal(s *schemas.Settled, res schemas.PushResult) error {
	if s.Outcome == schemas.OutcomeCanceled {
		return &problem.Error{Problem: schemas.Problem{Code: schemas.Canceled, Status: http.StatusForbidden, Detail: message(s, res)}}
	}
	return fault.New(code(s), message(s, res))
}

func code(s *schemas.Settled) schemas.Code {
	if s.Outcome == schemas.OutcomeDenied {
		return cmp.Or(s.Code, schemas.GitRefDenied)
	}
	return cmp.Or(s.Code, s.Outcome.Code())
}

// message is the sentence of an end; one that brings none gets the advice for its code.
func message(s *schemas.Settled, res schemas.PushResult) string {
	return cmp.Or(res.Reason, s.Message, advice(s))
}

func advice(s *schemas.Settled) string {
	if s.Outcome == schemas.OutcomeDenied {
		return "this push is not allowed"
	}
	switch code(s) {
	case schemas.Canceled:
		return "the task ended, or its token is no more, before the push was whole; the branch is as it was"
	case schemas.DeadlineExceeded:
		return "the time for the push is over; look at the branch with git ls-remote, and push again"
	case schemas.OutcomeUnknownCode:
		return "it is unknown whether the branch was updated: look at it with git ls-remote, and push again if it was not"
	case schemas.GitPackTooLarge:
		return "the push is larger than this node takes, or unpacks to more; push fewer commits at a time, or smaller files"
	case schemas.GitIncomplete:
		return "the push broke off, or its pack is damaged; push again"
	case schemas.GitRejected:
		return "git refused the update; fetch the branch, and push what is built on it"
	default:
		return "the push could not be made; the branch is as it was"
	}
}

// Result is the document of an end as the status and the events of the action show it:
// without what only the client of git had to know.
func Result(doc json.RawMessage) json.RawMessage {
	var res schemas.PushResult
	if len(doc) == 0 || json.Unmarshal(doc, &res) != nil {
		return nil
	}
	res.Report, res.SideBand = false, false
	out, err := ledger.Encode(res)
	if err != nil {
		return nil
	}
	return out
}
