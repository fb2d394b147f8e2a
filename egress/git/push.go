package git

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"weir/internal/fault"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/problem"
	"weir/schemas"
)

var errNotAnswer = errors.New("the answer to a push is a githttp.Answer")

// Push answers for a push that has ended. What git said, and a refusal of the update,
// is a 200 that git shows to the person; the rest has a status of its own, unless the
// answer has begun already.
func Push(w http.ResponseWriter, r *http.Request, s *schemas.Settled, doc json.RawMessage) {
	var res schemas.PushResult // an end that is not git's has no document
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
	body, shown := said(a, s, res)
	if !shown && problem.FromGit(r) { // of any other status git shows its number alone
		body, shown = rejected(a.Asked, res, coded(s, res), false)
	}
	if !shown {
		Refuse(w, r, refusal(s, res))
		return
	}
	a.Report(body)
}

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
func said(a *githttp.Answer, s *schemas.Settled, res schemas.PushResult) (body []byte, ok bool) {
	asked := a.Asked
	switch {
	case s.Outcome == schemas.OutcomeSucceeded && asked.Report:
		res.Unpack = gitwire.UnpackOK
		return report(asked, res, ""), true
	case s.Outcome == schemas.OutcomeSucceeded && asked.SideBand:
		return []byte(gitwire.Flush), true
	case s.Outcome == schemas.OutcomeSucceeded:
		return nil, true
	case s.Outcome == schemas.OutcomeFailed && s.Code == schemas.GitRejected:
		return rejected(asked, res, message(s, res), true)
	case s.Outcome == schemas.OutcomeDenied:
		return rejected(asked, res, coded(s, res), a.Heard())
	case s.Outcome == schemas.OutcomeUnknown:
		return rejected(asked, res, message(s, res), false)
	}
	return nil, false
}

func report(asked githttp.Asked, res schemas.PushResult, reason string) []byte {
	return gitwire.AppendReport(nil, asked.Ref, gitwire.Report{Unpack: cmp.Or(res.Unpack, gitwire.UnpackOK), Reason: reason}, asked.SideBand, asked.Others...)
}

// rejected is why no ref was updated: as git's own report where that is known, or else on the band for
// what ends a push. A client with neither takes any 200 for a success.
func rejected(asked githttp.Asked, res schemas.PushResult, reason string, known bool) ([]byte, bool) {
	switch {
	case asked.SideBand && (!known || !asked.Report):
		return gitwire.AppendFatal(nil, reason), true
	case asked.Report:
		return report(asked, res, reason), true
	}
	return nil, false
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

// message is the sentence of an end. One whose worker is gone may bring none.
func message(s *schemas.Settled, res schemas.PushResult) string {
	return cmp.Or(res.Reason, s.Message, "the push did not succeed; look at the branch with git ls-remote before you push again")
}

func coded(s *schemas.Settled, res schemas.PushResult) string {
	return message(s, res) + " (" + string(code(s)) + ")"
}
